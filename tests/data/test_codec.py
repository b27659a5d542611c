"""Codecs: built from texts, saved in a folder, and the errors of a damaged folder."""

from pathlib import Path

import pytest

from core.errors import CheckpointError, ConfigError
from data.codec import CodecConfig, TextCodec
from data.tokenizers import TOKENIZER_NAMES
from data.vocabulary import BOS_ID, EOS_ID, PAD_ID, SPECIALS, UNK_ID, Vocabulary

TEXTS = ["a dog runs", "a cat runs fast", "the dog sees a cat", "the cat sees the dog"] * 5


def small(tokenizer: str) -> CodecConfig:
    size = 40 if tokenizer == "sentencepiece" else None
    return CodecConfig(tokenizer=tokenizer, vocab_size=size, min_freq=1)


@pytest.mark.parametrize("tokenizer", TOKENIZER_NAMES)
def test_a_codec_comes_back_from_its_folder(tokenizer: str, tmp_path: Path) -> None:
    built = TextCodec.build(TEXTS, tmp_path, small(tokenizer))
    loaded = TextCodec.load(tmp_path, tokenizer=tokenizer)
    assert loaded.vocabulary == built.vocabulary
    for text in ("the dog runs fast", "a zebra sees 3 dogs!", "", "  "):
        assert loaded.encode(text) == built.encode(text)


@pytest.mark.parametrize("byte_fallback", [False, True])
@pytest.mark.parametrize("tokenizer", TOKENIZER_NAMES)
def test_many_texts_at_once_are_encoded_as_each_alone(
    tokenizer: str, byte_fallback: bool, tmp_path: Path
) -> None:
    size = 600 if tokenizer == "sentencepiece" else None
    config = CodecConfig(
        tokenizer=tokenizer, vocab_size=size, min_freq=1, byte_fallback=byte_fallback
    )
    codec = TextCodec.build(TEXTS, tmp_path, config)
    texts = [
        *TEXTS,
        "",
        " \t",
        "a zebra ☃☃ sees",
        "<unk> <s> <pad>",
        "e\u0301 \u2581 大狗",
        "ﬁ dog",
    ]
    expected = [codec.vocabulary.encode(codec.tokenizer.tokenize(text)) for text in texts]
    assert [codec.encode(text) for text in texts] == expected
    assert codec.encode_all(texts, threads=2) == expected


@pytest.mark.parametrize("tokenizer", ["sentencepiece", "whitespace", "basic_english"])
def test_known_words_survive_the_round_trip(tokenizer: str, tmp_path: Path) -> None:
    codec = TextCodec.build(TEXTS, tmp_path, small(tokenizer))
    ids = codec.encode("the cat sees a dog")
    assert min(ids) >= len(SPECIALS)
    assert codec.decode([BOS_ID, *ids, EOS_ID, *ids, PAD_ID]) == "the cat sees a dog"


def test_a_text_cannot_forge_special_tokens(tmp_path: Path) -> None:
    codec = TextCodec.build(["a <eos> b <pad>"], tmp_path, small("whitespace"))
    assert codec.encode("<eos> <pad> <bos>") == [UNK_ID] * 3


def test_the_vocabulary_is_bounded_by_size_and_by_frequency(tmp_path: Path) -> None:
    texts = [" ".join("abcdefghij"[: n + 1]) for n in range(10)]  # a ten times ... j once
    one = CodecConfig(tokenizer="whitespace", vocab_size=8, min_freq=1)
    assert TextCodec.build(texts, tmp_path, one).vocabulary.itos == (*SPECIALS, *"abcdefgh")
    other = CodecConfig(tokenizer="whitespace", vocab_size=None, min_freq=7)
    assert TextCodec.build(texts, tmp_path, other).vocabulary.itos == (*SPECIALS, *"abcd")


def test_a_vocabulary_too_large_for_the_corpus_is_made_smaller(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Training on a small corpus with the default vocabulary size ended in an error that did not
    name the option to change."""
    config = CodecConfig(tokenizer="sentencepiece", vocab_size=6000)
    size = len(TextCodec.build(TEXTS, tmp_path, config).vocabulary)
    assert len(SPECIALS) < size < 100
    message = capsys.readouterr().err
    assert f"{size} subwords" in message and "data.vocab_size = 6,000" in message
    assert len(TextCodec.load(tmp_path, tokenizer="sentencepiece").vocabulary) == size


@pytest.mark.parametrize(("line", "message"), [("", "is empty"), ("春风", ":7: '春风' is not one")])
def test_a_vocabulary_of_characters_holds_single_characters(
    line: str, message: str, tmp_path: Path
) -> None:
    """An empty or a long token in a couplet model's vocabulary gave a traceback, when the tones of
    the character were looked up."""
    TextCodec.build(["春夏秋"], tmp_path, small("characters"))
    path = tmp_path / "vocabulary.txt"
    lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join([*lines[:6], line, *lines[7:], ""]), encoding="utf-8")
    with pytest.raises(CheckpointError, match=rf"vocabulary\.txt.*{message}"):
        TextCodec.load(tmp_path, tokenizer="characters")


def test_sides_have_files_of_their_own(tmp_path: Path) -> None:
    TextCodec.build(["ja nein"], tmp_path, small("whitespace"), side="src")
    TextCodec.build(["yes no"], tmp_path, small("whitespace"), side="tgt")
    source = TextCodec.load(tmp_path, tokenizer="whitespace", side="src")
    target = TextCodec.load(tmp_path, tokenizer="whitespace", side="tgt")
    assert set(source.vocabulary.itos[4:]) == {"ja", "nein"}
    assert set(target.vocabulary.itos[4:]) == {"yes", "no"}
    with pytest.raises(CheckpointError, match=r"vocabulary\.txt"):
        TextCodec.load(tmp_path, tokenizer="whitespace")


def test_a_vocabulary_without_words_is_refused(tmp_path: Path) -> None:
    """A model of four special tokens trained to the end, and then could not predict anything."""
    config = CodecConfig(tokenizer="whitespace", vocab_size=None, min_freq=50)
    with pytest.raises(ConfigError, match=r"data\.min_freq = 50"):
        TextCodec.build(TEXTS, tmp_path, config)
    assert not list(tmp_path.iterdir())


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"sentencepiece\.model"):
        TextCodec.load(tmp_path, tokenizer="sentencepiece")
    TextCodec.build(TEXTS, tmp_path, small("sentencepiece"))
    (tmp_path / "vocabulary.txt").unlink()
    with pytest.raises(CheckpointError, match=r"vocabulary\.txt"):
        TextCodec.load(tmp_path, tokenizer="sentencepiece")


def test_a_damaged_sentencepiece_model_is_refused(tmp_path: Path) -> None:
    TextCodec.build(TEXTS, tmp_path, small("sentencepiece"))
    model_file = tmp_path / "sentencepiece.model"
    whole = model_file.read_bytes()
    for content in (b"", whole[: len(whole) // 2], b"not a model"):
        model_file.write_bytes(content)
        with pytest.raises(CheckpointError, match=r"sentencepiece\.model"):
            TextCodec.load(tmp_path, tokenizer="sentencepiece")


@pytest.mark.parametrize("texts", [TEXTS, ["ein Hund rennt", "eine Katze sitzt hier"] * 9])
def test_a_sentencepiece_model_of_another_vocabulary_is_refused(
    texts: list[str], tmp_path: Path
) -> None:
    """Of another size, or of the same size and other pieces: the words would all be wrong."""
    TextCodec.build(TEXTS, tmp_path, small("sentencepiece"))
    size = 32 if texts is TEXTS else 40
    other = CodecConfig(tokenizer="sentencepiece", vocab_size=size)
    TextCodec.build(texts, tmp_path / "other", other)
    (tmp_path / "other" / "sentencepiece.model").replace(tmp_path / "sentencepiece.model")
    with pytest.raises(CheckpointError, match=r"sentencepiece\.model: .*vocabulary\.txt"):
        TextCodec.load(tmp_path, tokenizer="sentencepiece")


def test_a_vocabulary_that_was_edited_is_refused(tmp_path: Path) -> None:
    tokens = TextCodec.build(TEXTS, tmp_path, small("sentencepiece")).vocabulary.itos
    Vocabulary([*tokens[:-2], tokens[-1], tokens[-2]]).save(tmp_path / "vocabulary.txt")
    with pytest.raises(CheckpointError, match="different models"):
        TextCodec.load(tmp_path, tokenizer="sentencepiece")


def test_byte_fallback_leaves_nothing_unknown(tmp_path: Path) -> None:
    config = CodecConfig(vocab_size=400, byte_fallback=True)
    TextCodec.build(TEXTS, tmp_path, config)
    codec = TextCodec.load(tmp_path, tokenizer="sentencepiece")
    for text in ("the dog 🐕‍🦺 runs", "Zürich, 春", "<unk> <0x41> ▁"):
        ids = codec.encode(text)
        assert UNK_ID not in ids
        assert codec.decode(ids) == " ".join(text.replace("▁", " ").split())
    cut = codec.encode("🐕")[2:]
    assert codec.decode(cut) == "" and codec.is_inside_word(cut)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tokenizer": "sentencepeice"}, "did you mean 'sentencepiece'"),
        ({"vocab_size": 7}, r"data\.vocab_size must be at least 8"),
        ({"vocab_size": None}, r"data\.vocab_size must be a number for sentencepiece"),
        ({"min_freq": 0}, r"data\.min_freq must be at least 1"),
    ],
)
def test_a_configuration_that_cannot_be_used_is_refused(
    options: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        CodecConfig(**options)  # type: ignore[arg-type]
