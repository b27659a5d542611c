"""Labelled texts: what is read, how it becomes ids and batches, and what is wrong with bad ones."""

import csv
from pathlib import Path
from typing import Any

import pytest

from core.errors import CorpusError
from data.vocabulary import PAD_ID, UNK_ID
from tasks.classification.config import ClassificationData
from tasks.classification.dataset import LoadSentenceClassificationDataset, TextData, as_tensors
from tasks.classification.sources import read_classes
from tests.growth import growth

CLASSES = ["World", "Спорт", "财经", "Sci/Tech", "Health & Life"]
ROWS = [(i % 5, f"title{i}", f"some text number {i}") for i in range(40)]


def write(folder: Path, rows: list[tuple[int, str, str]], name: str = "train.csv") -> None:
    with (folder / name).open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows((i + 1, t, d) for i, t, d in rows)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "classes.txt").write_text("\n".join(CLASSES), encoding="utf-8")
    write(tmp_path, ROWS)
    write(tmp_path, ROWS[:3], "test.csv")
    return tmp_path


def load(folder: Path, *, seed: int = 1, **options: Any) -> LoadSentenceClassificationDataset:
    options = {"tokenizer": "whitespace", "vocab_size": None, "min_freq": 1} | options
    config = ClassificationData(**({"val_share": 0.2} | options))
    return LoadSentenceClassificationDataset(folder, config, seed=seed, save_to=folder / "codec")


def test_any_number_of_classes_in_any_script(folder: Path) -> None:
    dataset = load(folder)
    assert dataset.classes == CLASSES
    assert {row.label for row in dataset.read("train")} == {0, 1, 2, 3, 4}
    assert read_classes(folder / "codec") == CLASSES


def test_the_validation_rows_are_split_off_by_the_seed(folder: Path) -> None:
    dataset = load(folder)
    train, val = dataset.read("train"), dataset.read("val")
    assert (len(train), len(val)) == (32, 8)
    titles_of = [{row.text.split()[0] for row in rows} for rows in (train, val)]
    assert titles_of[0] | titles_of[1] == {f"title{i}" for i in range(40)}
    assert load(folder).read("val") == val
    assert load(folder, seed=2).read("val") != val
    # And the vocabulary is that of the rows that are trained on.
    known = set(dataset.codec.vocabulary.itos)
    assert titles_of[0] <= known
    assert not titles_of[1] & known


def test_a_validation_file_is_used_where_there_is_one(folder: Path) -> None:
    write(folder, [(4, "a title", "a text")], "val.csv")
    dataset = load(folder)
    assert len(dataset.read("train")) == 40
    assert [row.text for row in dataset.read("val")] == ["a title a text"]


def test_a_file_too_small_to_split_is_named(folder: Path) -> None:
    with pytest.raises(CorpusError, match=r"train\.csv: its 40 rows .*val_share = 0\.01"):
        load(folder, val_share=0.01)


def test_columns_can_be_chosen(folder: Path) -> None:
    texts = [
        load(folder, columns=columns).read("test")[1].text
        for columns in (("title", "description"), ("title",), ("description",))
    ]
    assert texts == ["title1 some text number 1", "title1", "some text number 1"]
    assert "text" not in load(folder, columns=("title",)).codec.vocabulary


def test_the_vocabulary_is_built_from_cleaned_texts(folder: Path) -> None:
    write(folder, [(0, "&lt;b&gt;It #39;s", r"a\scar"), *ROWS])
    dataset = load(folder, val_share=0.1)
    assert dataset.text_of(dataset.read("train")[0]) == "It 's a scar"
    assert "scar" in dataset.codec.vocabulary


def test_a_row_in_which_nothing_is_found_is_one_unknown_word(folder: Path) -> None:
    """It has a label all the same, and is counted when the model is measured."""
    write(folder, [(2, "", "some text")], "test.csv")
    assert load(folder, columns=("title",)).encoded("test") == [([UNK_ID], 2)]


def test_a_model_is_not_measured_on_other_classes(folder: Path) -> None:
    dataset = load(folder)
    config, codec = dataset.config, dataset.codec
    LoadSentenceClassificationDataset(folder, config, seed=1, codec=codec, classes=CLASSES)
    with pytest.raises(CorpusError, match=r"classes\.txt: .* the model's are Спорт, World, 财经"):
        LoadSentenceClassificationDataset(
            folder, config, seed=1, codec=codec, classes=["Спорт", "World", *CLASSES[2:]]
        )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("World\n\nSports\n", r"classes\.txt:2: empty line"),
        ("World\nSports\nWorld\n", r"classes\.txt:3: the class 'World' occurs twice"),
        ("World\nSports \n Sports\n", r"classes\.txt:3: the class 'Sports' occurs twice"),
        ("World\nSpo\trts\n", r"classes\.txt:2: a class name cannot contain a tab"),
        ("World\n", r"classes\.txt: there must be at least two classes, not 1"),
        ("", r"classes\.txt: there must be at least two classes, not 0"),
        (None, r"classes\.txt: cannot read: No such file"),
    ],
)
def test_a_bad_list_of_classes_is_named(content: str | None, message: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "classes.txt").write_text(content)
    with pytest.raises(CorpusError, match=message):
        read_classes(tmp_path)


def test_a_long_list_of_classes_is_read_in_linear_time(tmp_path: Path) -> None:
    """Each name was searched in the list of those before it: 80,000 names took 80 seconds."""

    def folder(size: int) -> Path:
        path = tmp_path / str(size)
        path.mkdir()
        (path / "classes.txt").write_text("\n".join(f"class {i}" for i in range(size)))
        return path

    assert growth(read_classes, folder(20_000), folder(80_000), most=12) < 12


def test_classes_with_hardly_any_training_row_are_reported(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A class without rows, for example because labels are shifted, was trained in silence."""
    write(folder, [(0, "a", "b"), (0, "c", "d"), (1, "e", "f"), (0, "g", "h"), (2, "i", "j")])
    write(folder, ROWS[:3], "val.csv")
    load(folder).training_data(batch_tokens=40, seed=3, max_len=50)
    message = capsys.readouterr().err
    assert "train.csv: no training row for 2 of 5 classes: Sci/Tech, Health & Life\n" in message
    assert "train.csv: only one training row for 2 of 5 classes: Спорт, 财经\n" in message


def test_the_only_row_of_a_class_may_be_held_out(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [(i % 4, f"t{i}", "x") for i in range(40)] + [(4, "the only one", "y")]
    write(folder, rows)
    for seed in range(100):
        dataset = load(folder, seed=seed)
        if any(row.label == 4 for row in dataset.read("val")):
            break
    dataset.training_data(batch_tokens=40, seed=3, max_len=50)
    assert "no training row for 1 of 5 classes: Health & Life" in capsys.readouterr().err


def test_classes_may_end_in_any_way(tmp_path: Path) -> None:
    (tmp_path / "classes.txt").write_bytes(b"\xef\xbb\xbfWorld\r\n Sports \r\n")
    assert read_classes(tmp_path) == ["World", "Sports"]


def test_what_is_missing_is_named(folder: Path) -> None:
    with pytest.raises(CorpusError, match="nowhere: there is no such folder"):
        load(folder / "nowhere")
    with pytest.raises(CorpusError, match=r"other\.csv: cannot read"):
        load(folder).read("other")
    with pytest.raises(ValueError, match="save_to"):
        LoadSentenceClassificationDataset(folder, ClassificationData(), seed=1)
    (folder / "classes.txt").write_text("one\ntwo\n")
    with pytest.raises(CorpusError, match=r"train\.csv: row 3: the label 3 is out of range"):
        load(folder)


# batches

LENGTHS = [(i % 5, " ".join(["word"] * (1 + i % 9)), "") for i in range(40)]


def batches(
    folder: Path, *, max_len: int = 50, epoch: int = 1, **options: Any
) -> tuple[TextData, list[Any]]:
    write(folder, [(0, "", "w " * 9), *LENGTHS])
    write(folder, LENGTHS[:3], "val.csv")
    data = load(folder, **options).training_data(batch_tokens=40, seed=3, max_len=max_len)
    return data, data.plan(epoch)


def test_every_text_comes_once_an_epoch_in_another_order(folder: Path) -> None:
    data, plan = batches(folder)
    assert sum(len(batch) for batch in plan) == 41
    labels = sorted(label for batch in plan for _, label in batch)
    assert labels == sorted([0, *(label for label, _, _ in LENGTHS)])
    assert data.plan(1) == plan
    assert data.plan(2) != plan


def test_batches_are_as_long_as_their_longest_text(folder: Path) -> None:
    data, plan = batches(folder)
    shapes = set()
    for batch in plan:
        src, labels = data.batch(batch)
        assert src.shape == (max(len(ids) for ids, _ in batch), len(labels))
        assert src.numel() <= 40
        shapes.add(src.shape[0])
    assert len(shapes) > 1


def test_same_pads_every_batch_to_the_longest_text_there_is(folder: Path) -> None:
    data, plan = batches(folder, max_sen_len="same")
    for batch in plan:
        src, _ = data.batch(batch)
        assert src.shape[0] == 9
        assert src.numel() <= 40
        assert (src != PAD_ID).sum() == sum(len(ids) for ids, _ in batch)


def test_a_number_pads_and_cuts_to_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, plan = batches(folder, max_sen_len=6)
    said = capsys.readouterr().err
    longer = 1 + sum(1 + i % 9 > 6 for i in range(40))
    assert f"{longer} of 41 training texts are cut at 6 tokens" in said
    for batch in plan:
        assert data.batch(batch)[0].shape[0] == 6
        assert all(1 <= len(ids) <= 6 for ids, _ in batch)


def test_a_number_above_the_longest_text_is_padding(folder: Path) -> None:
    data, plan = batches(folder, max_sen_len=20)
    assert {data.batch(batch)[0].shape[0] for batch in plan} == {20}


def test_no_text_is_longer_than_the_model(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for options in ({}, {"max_sen_len": "same"}, {"max_sen_len": 30}):
        data, plan = batches(folder, max_len=5, **options)
        assert "are cut at 5 tokens" in capsys.readouterr().err
        assert max(data.batch(batch)[0].shape[0] for batch in plan) == 5


def test_tensors_are_sequence_first() -> None:
    src, labels = as_tensors([([4, 5, 6], 2), ([7], 0)], pad_to=5)
    assert src.t().tolist() == [[4, 5, 6, PAD_ID, PAD_ID], [7, *[PAD_ID] * 4]]
    assert labels.tolist() == [2, 0]
    assert as_tensors([([4, 5, 6], 2)], pad_to=2)[0].shape == (3, 1)
