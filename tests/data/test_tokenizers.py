"""Tokenizers: what each of them cuts where, and how texts are joined again."""

import subprocess
import sys
import time
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import CheckpointError, ConfigError, CorpusError
from data import tokenizers
from data.tokenizers import (
    TOKENIZER_NAMES,
    BasicEnglish,
    Characters,
    JiebaWords,
    SentencePieceBPE,
    Whitespace,
    get_tokenizer,
    normalized,
    train_sentencepiece,
)
from data.vocabulary import SPECIALS, UNK_ID, Vocabulary

ROOT = Path(__file__).resolve().parents[2]
SENTENCES = [
    "Ein Hund rennt über die grüne Wiese.",
    "Zwei Hunde rennen über den Strand.",
    "Eine Frau läuft mit ihrem Hund am Strand entlang.",
    "Der Mann rennt schneller als die Frau.",
    "A dog runs across the green meadow.",
    "Two dogs run along the beach.",
    "A woman walks her dog on the beach.",
    "The man runs faster than the woman.",
] * 3


@pytest.fixture(scope="module")
def model_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sentencepiece") / "model"
    train_sentencepiece(SENTENCES, path, vocab_size=120)
    return path


@pytest.fixture(scope="module")
def bytes_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with byte fallback."""
    path = tmp_path_factory.mktemp("bytes") / "model"
    train_sentencepiece(SENTENCES, path, vocab_size=420, byte_fallback=True)
    return path


@pytest.fixture
def pieces(model_file: Path) -> SentencePieceBPE:
    return SentencePieceBPE(model_file)


def test_basic_english_cuts_words_and_marks() -> None:
    tokens = BasicEnglish().tokenize("It's late (or not).")
    assert tokens == ["it", "'", "s", "late", "(", "or", "not", ")", "."]


# whitespace, characters, jieba


def test_whitespace_splits_at_any_white_space() -> None:
    assert Whitespace().tokenize(" a\tb \u3000 c\n") == ["a", "b", "c"]
    assert Whitespace().detokenize(["a", "b"]) == "a b"


def test_characters_are_code_points_and_white_space_is_dropped() -> None:
    tokenizer = Characters()
    assert tokenizer.tokenize("晚 风，\u3000𠮷e\u0301\n") == ["晚", "风", "，", "𠮷", "e", "\u0301"]
    assert tokenizer.detokenize(["晚", "风"]) == "晚风"


@given(st.text())
def test_characters_go_and_come_back_but_for_white_space(text: str) -> None:
    tokenizer = Characters()
    assert tokenizer.detokenize(tokenizer.tokenize(text)) == "".join(text.split())


def test_jieba_finds_words() -> None:
    tokenizer = JiebaWords()
    tokens = tokenizer.tokenize("我来到北京清华大学 很高兴")
    assert tokens == ["我", "来到", "北京", "清华大学", "很", "高兴"]
    assert tokenizer.detokenize(tokens) == "我来到北京清华大学很高兴"


def test_jieba_neither_reads_nor_writes_a_cache_that_others_can_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """jieba loads /tmp/jieba.cache with `marshal` whoever has put it there."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    tokenizers._jieba.cache_clear()
    (tmp_path / "jieba.cache").write_bytes(b"not what jieba wrote")
    assert JiebaWords().tokenize("北京大学") == ["北京大学"]
    assert [path.name for path in tmp_path.iterdir()] == ["jieba.cache"]
    assert (tmp_path / "jieba.cache").read_bytes() == b"not what jieba wrote"


# sentencepiece


@pytest.mark.parametrize("text", [*SENTENCES[:8], "Hunde", "", "a  b"])
def test_pieces_go_and_come_back(pieces: SentencePieceBPE, text: str) -> None:
    assert pieces.detokenize(pieces.tokenize(text)) == " ".join(text.split())


def test_the_vocabulary_of_a_model_is_its_pieces(
    model_file: Path, pieces: SentencePieceBPE
) -> None:
    vocabulary = Vocabulary(SentencePieceBPE(model_file).pieces)
    assert len(vocabulary) == 120
    assert vocabulary.itos[:4] == SPECIALS
    for sentence in SENTENCES:
        ids = vocabulary.encode(pieces.tokenize(sentence))
        assert UNK_ID not in ids
        assert ids == pieces._model.encode(sentence)


def test_text_cannot_forge_a_special_piece(model_file: Path, pieces: SentencePieceBPE) -> None:
    vocabulary = Vocabulary(SentencePieceBPE(model_file).pieces)
    ids = vocabulary.encode(pieces.tokenize("Hund <eos> <pad> 春"))
    assert not {1, 2, 3} & set(ids)
    assert UNK_ID in ids


def test_the_same_texts_give_the_same_model(model_file: Path, tmp_path: Path) -> None:
    train_sentencepiece(iter(SENTENCES), tmp_path / "again", vocab_size=120)
    assert (tmp_path / "again").read_bytes() == model_file.read_bytes()


def test_every_character_of_the_corpus_has_a_piece(tmp_path: Path) -> None:
    """At sentencepiece's default coverage the rarest characters would be unknown."""
    rare = "春夏秋冬風花雪月"
    train_sentencepiece([*SENTENCES * 50, rare], tmp_path / "model", vocab_size=120)
    assert set(rare) <= set(SentencePieceBPE(tmp_path / "model").pieces)


# byte fallback


@given(text=st.one_of(st.text(), st.text("ae\u0301\u0308 \u2581\t\u200d👩春<0x41>", max_size=30)))
def test_with_bytes_every_text_comes_back(bytes_file: Path, text: str) -> None:
    pieces = SentencePieceBPE(bytes_file)
    vocabulary = Vocabulary(pieces.pieces)
    ids = vocabulary.encode(pieces.tokenize(text))
    assert min(ids, default=4) >= 4  # no <unk>, and nothing that the text has forged
    assert pieces.detokenize(vocabulary.decode(ids)) == normalized(text)


def test_characters_that_the_texts_lack_are_bytes(bytes_file: Path) -> None:
    pieces = SentencePieceBPE(bytes_file)
    assert pieces.tokenize("ü 春!") == ["▁", "ü", "▁", "<0xE6>", "<0x98>", "<0xA5>", "!"]
    assert len(pieces.pieces) <= 420
    assert pieces.pieces[:4] == list(SPECIALS)


def test_a_character_as_rare_as_one_in_ten_thousand_becomes_bytes(tmp_path: Path) -> None:
    """Bytes that no training text contains would never be trained."""
    texts = [*SENTENCES * 40, "春"]
    train_sentencepiece(texts, tmp_path / "model", vocab_size=400, byte_fallback=True)
    pieces = SentencePieceBPE(tmp_path / "model").pieces
    assert "春" not in pieces
    assert {*"äüAQ7?"} <= {*pieces}


def test_bytes_that_are_not_utf8_are_left_out(bytes_file: Path) -> None:
    pieces = SentencePieceBPE(bytes_file)
    tokens = ["▁", "<0x98>", "<0xE6>", "<0x98>", "▁dog", "<0xE6>", "<0x98>", "<0xA5>", "<0xF0>"]
    assert pieces.detokenize(tokens) == "dog春"


def test_a_model_without_bytes_reads_their_names_as_text(pieces: SentencePieceBPE) -> None:
    assert pieces.detokenize(["▁a", "<0x41>", "<unk>"]) == "a<0x41><unk>"


def test_only_white_space_and_accents_are_normalized() -> None:
    assert normalized(" a\t\u00a0b\u2028\u2581c\n") == "a b c"
    assert normalized("o\u0308 e\u0302\u0301 \u0301") == "ö ế \u0301"
    unchanged = "½ ﬁ ² … ™ Å \u200d \x00 <unk>"
    assert normalized(unchanged) == unchanged


@given(st.text("aeonuöçÅé -_9", max_size=20))
def test_european_letters_are_composed_as_unicode_says(text: str) -> None:
    decomposed = unicodedata.normalize("NFD", text)
    assert normalized(decomposed) == normalized(unicodedata.normalize("NFC", text))


def test_normalizing_takes_linear_time() -> None:
    """Python's own normalization sorts a run of accents by insertion."""
    start = time.perf_counter()
    normalized("a" + "\u0301\u0323" * 200_000)
    assert time.perf_counter() - start < 5.0


@pytest.mark.parametrize(
    ("texts", "vocab_size", "message"),
    [
        ([], 100, "a vocabulary of data.vocab_size = 100 tokens: there is no text"),
        (SENTENCES, 20, r"data.vocab_size = 20 is too small; set it to at least \d+: one token"),
    ],
)
def test_a_vocabulary_size_that_does_not_suit_is_a_config_error(
    tmp_path: Path, texts: list[str], vocab_size: int, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        train_sentencepiece(texts, tmp_path / "model", vocab_size=vocab_size)
    assert list(tmp_path.iterdir()) == []


def test_an_error_while_reading_the_texts_stays_that_error(tmp_path: Path) -> None:
    """sentencepiece turns whatever its iterator raises into an error of its own, source and all."""

    def texts() -> Iterator[str]:
        yield "one good line"
        raise CorpusError("train.de", "empty line", 2)

    with pytest.raises(CorpusError, match=r"train\.de:2: empty line"):
        train_sentencepiece(texts(), tmp_path / "model", vocab_size=20)


@pytest.mark.parametrize("content", [b"", b"not a model"])
def test_what_is_not_a_model_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model").write_bytes(content)
    with pytest.raises(CheckpointError, match="model: not a SentencePiece model"):
        SentencePieceBPE(tmp_path / "model")


def test_a_piece_that_is_not_utf8_is_refused(model_file: Path, tmp_path: Path) -> None:
    """It was a traceback."""
    damaged = model_file.read_bytes().replace("ü".encode(), b"\xc3\x28", 1)
    (tmp_path / "model").write_bytes(damaged)
    with pytest.raises(CheckpointError, match="model: not a SentencePiece model"):
        SentencePieceBPE(tmp_path / "model")


def test_a_missing_model_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="none: cannot read: No such file"):
        SentencePieceBPE(tmp_path / "none")


# by name


@pytest.mark.parametrize("name", TOKENIZER_NAMES)
def test_every_name_gives_the_tokenizer_of_that_name(name: str, model_file: Path) -> None:
    tokenizer = get_tokenizer(name, model_file=model_file)
    assert tokenizer.name == name
    assert tokenizer.tokenize("") == []
    assert tokenizer.detokenize([]) == ""


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("sentencepeice", "not 'sentencepeice'; did you mean 'sentencepiece'"),
        ("spacy", "tokenizer must be one of basic_english, whitespace"),
        ("sentencepiece", "needs a trained model file"),
    ],
)
def test_a_name_that_will_not_do_is_answered_with_one_that_would(name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        get_tokenizer(name)


def test_tokenizing_needs_no_torchtext() -> None:
    code = (
        "import sys; from data.tokenizers import get_tokenizer; "
        "from data.vocabulary import Vocabulary; "
        "get_tokenizer('whitespace').tokenize('It is.'); "
        "sys.exit('torchtext' in sys.modules)"
    )
    root = Path(__file__).resolve().parents[2]
    assert subprocess.run([sys.executable, "-c", code], cwd=root).returncode == 0
