"""The vocabulary: numbering, what text may become, and a file that loads back identical."""

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.errors import CheckpointError, UserError
from data.vocabulary import BOS_ID, EOS_ID, PAD_ID, SPECIALS, UNK_ID, Vocabulary

# st.text leaves lone surrogates out, but a token may hold one.
any_text = st.text(st.characters(codec=None, categories=None), min_size=1, max_size=8)
any_vocabulary = st.lists(any_text, unique=True, max_size=30).map(
    lambda tokens: Vocabulary([*SPECIALS, *(t for t in tokens if t not in SPECIALS)])
)
one_folder_will_do = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ([], "begins with <unk>, <pad>, <bos>, <eos>"),
        (["Hund", *SPECIALS], "begins with"),
        (["<pad>", "<unk>", "<bos>", "<eos>"], "begins with"),
        ([*SPECIALS, "Hund", "Katze", "Hund"], "'Hund' occurs twice"),
        ([*SPECIALS, "<pad>"], "'<pad>' occurs twice"),
    ],
)
def test_a_list_that_is_no_vocabulary_is_refused(tokens: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Vocabulary(tokens)


def test_build_orders_by_frequency_then_alphabet() -> None:
    vocabulary = Vocabulary.build([["b", "a", "c"], ["b", "c", "d"], ["b"]])
    assert vocabulary.itos == (*SPECIALS, "b", "c", "a", "d")


def test_min_freq_and_max_size_leave_the_rare_ones_out() -> None:
    texts = [["a"] * 3, ["b"] * 2, ["c"] * 2, ["d"]]
    assert Vocabulary.build(texts, min_freq=2).itos == (*SPECIALS, "a", "b", "c")
    assert Vocabulary.build(texts, max_size=2).itos == (*SPECIALS, "a", "b")
    assert len(Vocabulary.build([], max_size=2)) == 4


@given(st.lists(st.lists(st.sampled_from(["a", "b", "ä", "<eos>", "<unk>", "春"]))))
def test_build_agrees_with_counting_by_hand(texts: list[list[str]]) -> None:
    counts = Counter(token for text in texts for token in text if token not in SPECIALS)
    expected = sorted(counts, key=lambda token: (-counts[token], token))
    assert list(Vocabulary.build(texts).itos) == [*SPECIALS, *expected]


@pytest.mark.parametrize("special", SPECIALS)
def test_text_cannot_forge_a_special_token(special: str) -> None:
    """A sentence with the word "<eos>" in it must not be able to end itself."""
    assert Vocabulary([*SPECIALS, "Hund"]).encode(["Hund", special, "Katze"]) == [4, UNK_ID, UNK_ID]


def test_decode_stops_at_eos_and_drops_padding_and_bos() -> None:
    vocabulary = Vocabulary([*SPECIALS, "ein", "Hund"])
    ids = [BOS_ID, 4, UNK_ID, PAD_ID, 5, EOS_ID, 4, 99]
    assert vocabulary.decode(ids) == ["ein", "<unk>", "Hund"]


@pytest.mark.parametrize("index", [6, -1])
def test_an_id_outside_the_vocabulary_is_an_error(index: int) -> None:
    with pytest.raises(IndexError):
        Vocabulary([*SPECIALS, "ein", "Hund"]).decode([4, index])


@given(any_vocabulary)
def test_encode_then_decode_gives_the_tokens_back(vocabulary: Vocabulary) -> None:
    tokens = [token for token in vocabulary.itos if token not in SPECIALS]
    assert vocabulary.decode(vocabulary.encode(tokens)) == tokens


@one_folder_will_do
@given(any_vocabulary)
def test_a_saved_vocabulary_loads_back_identical(tmp_path: Path, vocabulary: Vocabulary) -> None:
    path = tmp_path / "vocabulary.txt"
    vocabulary.save(path)
    assert Vocabulary.load(path) == vocabulary
    assert len(path.read_text(encoding="utf-8").splitlines()) == len(vocabulary)


def test_the_file_is_plain_text_with_a_token_a_line(tmp_path: Path) -> None:
    path = tmp_path / "vocabulary.txt"
    Vocabulary([*SPECIALS, "Straße", "a b", "\\n", "\n", "\u2028", "春"]).save(path)
    assert path.read_bytes().decode("utf-8") == (
        "<unk>\n<pad>\n<bos>\n<eos>\nStraße\na b\n\\\\n\n\\n\n\\u2028\n春\n"
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "incomplete"),
        (b"<unk>\n<pad>\n<bos>\n<eos>\nHun", "incomplete"),
        (b"<unk>\n<pad>\n", "begins with"),
        (b"<unk>\n<pad>\n<bos>\n<eos>\nHund\nHund\n", "occurs twice"),
        (b"<unk>\n<pad>\n<bos>\n<eos>\nHund\n\n", "token 5 of the vocabulary is empty"),
        (b"<unk>\n<pad>\n<bos>\n<eos>\n\xff\n", "not valid UTF-8"),
        (b"<unk>\n<pad>\n<bos>\n<eos>\n\\x\n", "unknown escape"),
        (b"<unk>\n<pad>\n<bos>\n<eos>\nx\\\n", "unknown escape"),
        (b"<unk>\n<pad>\n<bos>\n<eos>\n\\xzz\n", "unknown escape"),
    ],
)
def test_a_damaged_file_is_refused_by_name(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "vocabulary.txt"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=rf"vocabulary\.txt.*{message}"):
        Vocabulary.load(path)


def test_a_missing_file_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"none\.txt: cannot read: No such file"):
        Vocabulary.load(tmp_path / "none.txt")
