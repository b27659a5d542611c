"""Couplets: what is read, in which spelling, and what is wrong with bad ones."""

from pathlib import Path
from typing import Any

import pytest

from core.errors import ConfigError, CorpusError
from tasks.couplet.config import CoupletData
from tasks.couplet.dataset import LoadCoupletDataset

CHARACTERS = "天地山水花月风云春秋日夜江河松竹红绿高深来去开落"
PAIRS = [(CHARACTERS[i : i + 4], CHARACTERS[i + 4 : i + 8]) for i in range(16)]


def write(folder: Path, pairs: list[tuple[str, str]], *, gap: str = " ") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, lines in zip(("in.txt", "out.txt"), zip(*pairs, strict=True), strict=True):
        text = "".join(gap.join(line) + "\n" for line in lines)
        (folder / name).write_text(text, encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "train", PAIRS)
    write(tmp_path / "val", [("风雨", "云雾")])
    return tmp_path


def load(folder: Path, *, seed: int = 1, **options: Any) -> LoadCoupletDataset:
    return LoadCoupletDataset(folder, CoupletData(**options), seed=seed, save_to=folder / "codec")


def test_spaces_between_characters_do_not_matter(folder: Path) -> None:
    spaced = load(folder)
    write(folder / "train", PAIRS, gap="")
    raw = load(folder)
    assert spaced.read("train") == raw.read("train") == PAIRS
    assert spaced.codec.vocabulary == raw.codec.vocabulary
    (first, second), *_ = raw.encoded("train", max_len=20)
    assert raw.codec.decode(first) == "天地山水"
    assert raw.codec.decode(second) == "花月风云"


def test_one_vocabulary_of_the_training_couplets_serves_both_lines(folder: Path) -> None:
    vocabulary = load(folder).codec.vocabulary
    assert set(vocabulary.itos[4:]) == set(CHARACTERS[:23])
    assert "雾" not in vocabulary
    assert len(load(folder, min_freq=5).codec.vocabulary) < len(vocabulary)
    with pytest.raises(ConfigError, match=r"data\.min_freq = 500"):
        load(folder, min_freq=500)


def test_more_folders_can_be_trained_on(folder: Path) -> None:
    write(folder / "verse", [("鹤", "龙")])
    dataset = load(folder, extra=("verse",))
    assert dataset.read("train") == [*PAIRS, ("鹤", "龙")]
    assert "鹤" in dataset.codec.vocabulary
    with pytest.raises(CorpusError, match=r"poems/in\.txt: cannot read"):
        load(folder, extra=("poems",))
    with pytest.raises(CorpusError, match=r"or in poems\.tsv with a tab between the lines"):
        load(folder, extra=("poems",))
    (folder / "pairs.tsv").write_text("天\t地\n", encoding="utf-8")
    with pytest.raises(CorpusError, match=r"pairs\.tsv: a file: a corpus is a folder"):
        load(folder / "pairs.tsv")


def test_every_epoch_reads_a_share_of_the_couplets_exchanged_too(folder: Path) -> None:
    dataset = load(folder, exchanged=0.5)
    data, decode = dataset.training_data(batch_tokens=30, seed=3, max_len=10), dataset.codec.decode
    drawn = [(decode(a), decode(b)) for batch in data.plan(1) for a, b in batch]
    exchanged = [(b, a) for a, b in drawn if (a, b) not in PAIRS]
    assert sorted(pair for pair in drawn if pair in PAIRS) == sorted(PAIRS)
    assert len(exchanged) == len({*exchanged} & {*PAIRS}) == len(PAIRS) / 2


def test_every_epoch_draws_its_share_of_an_extra_folder(folder: Path) -> None:
    extra = [(a, b) for a in "天地山水花" for b in "月风云春秋"]
    write(folder / "verse", extra)
    write(folder / "more", [("鹤", "龙")])
    dataset = load(folder, extra=("verse", "more"), extra_weights=(0.4, 2.0))
    data = dataset.training_data(batch_tokens=30, seed=3, max_len=10)
    decode = dataset.codec.decode

    def drawn(epoch: int) -> list[tuple[str, str]]:
        pairs = [pair for batch in data.plan(epoch) for pair in batch]
        return sorted((decode(first), decode(second)) for first, second in pairs)

    for epoch in (1, 2):
        chosen = [pair for pair in drawn(epoch) if pair in extra]
        assert len(chosen) == len(set(chosen)) == 10
        assert drawn(epoch) == sorted([*PAIRS, *chosen, ("鹤", "龙"), ("鹤", "龙")])
    assert drawn(1) != drawn(2)
    again = load(folder, extra=("verse", "more"), extra_weights=(0.4, 2.0))
    assert drawn(2) == sorted(
        (decode(first), decode(second))
        for batch in again.training_data(batch_tokens=30, seed=3, max_len=10).plan(2)
        for first, second in batch
    )


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ((1.0, 2.0), "1 numbers, one for each of data.extra"),
        ((0.0,), "above 0"),
        ((1001.0,), "above 0 and at most 1,000"),
    ],
)
def test_weights_that_do_not_suit_are_refused(weights: tuple[float, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=rf"data\.extra_weights must be {message}"):
        CoupletData(extra=("verse",), extra_weights=weights)


def test_without_validation_couplets_some_are_held_out(folder: Path) -> None:
    for path in (folder / "val").iterdir():
        path.unlink()
    (folder / "val").rmdir()
    write(folder / "verse", [("鹤", "龙")])
    dataset = load(folder, val_share=0.25, extra=("verse",))
    train, val = dataset.read("train"), dataset.read("val")
    assert len(val) == 4
    assert sorted([*train, *val]) == sorted([*PAIRS, ("鹤", "龙")])
    assert train[-1] == ("鹤", "龙")  # held out of the training folder alone
    assert load(folder, val_share=0.25).read("val") == val
    assert load(folder, val_share=0.25, seed=2).read("val") != val
    with pytest.raises(CorpusError, match=r"train/out\.txt: its 16 rows .*val_share = 0\.01"):
        load(folder)


def test_couplets_of_unequal_lines_are_left_out_and_counted(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(folder / "train", [PAIRS[0], ("风，雨", "云雾"), PAIRS[1], ("风", "云雾")])
    assert load(folder).read("train") == PAIRS[:2]
    said = capsys.readouterr().err
    assert "2 of 4 couplets have lines of different length" in said
    assert "the first is line 2" in said
    write(folder / "train", [("风，雨", "云雾")])
    with pytest.raises(CorpusError, match="no couplet here has two lines of the same length"):
        load(folder)


def test_couplets_too_long_for_the_model_are_left_out(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(folder / "train", [*PAIRS, ("天" * 9, "地" * 9)])
    dataset = load(folder)
    data = dataset.training_data(batch_tokens=30, seed=3, max_len=10)
    assert sum(map(len, data.plan(1))) == 17
    assert capsys.readouterr().err == ""
    data = dataset.training_data(batch_tokens=30, seed=3, max_len=9)
    assert sum(map(len, data.plan(1))) == 16
    assert "train: 1 of 17 pairs have more than 8 tokens" in capsys.readouterr().err


def test_what_is_missing_is_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="nowhere: there is no such folder"):
        load(tmp_path / "nowhere")
    with pytest.raises(CorpusError, match=r"test/in\.txt: cannot read"):
        load(folder).read("test")
    with pytest.raises(ValueError, match="save_to"):
        LoadCoupletDataset(folder, CoupletData(), seed=1)
    (folder / "train" / "out.txt").write_text("天\n", encoding="utf-8")
    with pytest.raises(CorpusError, match=r"train/out\.txt: 1 lines, but .*in\.txt has 16"):
        load(folder)


def test_a_codec_that_is_given_is_kept(folder: Path) -> None:
    """A resumed run must not learn another vocabulary for the weights it has."""
    codec = load(folder).codec
    write(folder / "train", [("鹤", "龙")])
    dataset = LoadCoupletDataset(folder, CoupletData(), seed=1, codec=codec)
    assert dataset.codec is codec
    assert dataset.encoded("train", max_len=9) == [([0], [0])]


def test_a_table_of_pairs_is_read_as_two_files_are(folder: Path) -> None:
    files = load(folder)
    other = folder / "other"
    other.mkdir()
    for split, pairs in (("train", PAIRS), ("val", [("风雨", "云雾")])):
        rows = "".join(f"{' '.join(first)}\t{second}\n" for first, second in pairs)
        (other / f"{split}.tsv").write_text(rows, encoding="utf-8")
    table = load(other)
    assert table.read("train") == files.read("train")
    assert table.read("val") == files.read("val")
    assert table.codec.vocabulary == files.codec.vocabulary
    assert table.encoded("train", max_len=20) == files.encoded("train", max_len=20)
    with pytest.raises(ConfigError, match="test"):
        table.splits.check_split("test")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("天地", "no tabs: write two texts with one tab between them"),
        ("天\t地\t人", "2 tabs"),
        ("天\t ", "one side of the tab is empty"),
    ],
)
def test_a_wrong_line_of_a_table_is_named(folder: Path, line: str, reason: str) -> None:
    (folder / "verse.tsv").write_text(f"天\t地\n{line}\n", encoding="utf-8")
    with pytest.raises(CorpusError, match=rf"verse\.tsv:2: {reason}"):
        load(folder, extra=("verse",))
