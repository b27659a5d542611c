"""The data of users: columns, splits, and every kind of bad table."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from core.errors import ConfigError, CorpusError
from tasks.classification.config import ClassificationData
from tasks.classification.dataset import LoadSentenceClassificationDataset
from tasks.classification.sources import TableSource
from tasks.runs.dataset import stratified_sample

LABELS = ["spam"] * 60 + ["ham"] * 30 + ["eggs"] * 10
ROWS = [{"title": f"t{i}", "body": f"text {i}", "topic": name} for i, name in enumerate(LABELS)]


def write(path: Path, rows: list[dict[str, Any]] = ROWS) -> Path:
    lines = ["title,body,topic", *(",".join(map(str, row.values())) for row in rows)]
    if path.suffix == ".jsonl":
        lines = [json.dumps(row) for row in rows]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def data(**options: Any) -> ClassificationData:
    values: dict[str, Any] = {
        "text": ("title", "body"),
        "label": "topic",
        "tokenizer": "whitespace",
    }
    return ClassificationData(**(values | {"vocab_size": None, "min_freq": 1} | options))


def load(path: Path, **options: Any) -> LoadSentenceClassificationDataset:
    out = path.parent / "codec"
    return LoadSentenceClassificationDataset(path, data(**options), seed=1, save_to=out)


@pytest.mark.parametrize("name", ["my.csv", "my.jsonl"])
def test_a_table_is_divided_by_seed_with_every_label_in_proportion(
    name: str, tmp_path: Path
) -> None:
    dataset = load(write(tmp_path / name), val_share=0.2, test_share=0.1)
    splits = {split: dataset.read(split) for split in ("train", "val", "test")}
    texts = [dataset.text_of(row) for rows in splits.values() for row in rows]
    assert sorted(texts) == sorted(f"{row['title']} {row['body']}" for row in ROWS)
    assert dataset.classes == ["eggs", "ham", "spam"]
    counts = {split: Counter(row.label for row in rows) for split, rows in splits.items()}
    assert counts["test"] == {0: 1, 1: 3, 2: 6}
    assert [counts["val"][i] for i in range(3)] == [2, 5, 11]
    assert all(known in dataset.codec.vocabulary for known in texts[0].split())
    again = load(tmp_path / name, val_share=0.2, test_share=0.1)
    assert again.read("val") == splits["val"]
    assert len(again.read("all")) == 100
    assert [label for _, label in again.encoded("test")] == [row.label for row in splits["test"]]


@pytest.mark.parametrize(("clean", "read"), [(None, r"<b>C:\t</b>"), (True, "C: t")])
def test_texts_of_users_are_cleaned_if_they_say_so(
    clean: bool | None, read: str, tmp_path: Path
) -> None:
    rows = [row | {"body": rf"<b>C:\t</b> {i}"} for i, row in enumerate(ROWS)]
    dataset = load(write(tmp_path / "t.csv", rows), text=("body",), clean=clean)
    assert dataset.config.clean is bool(clean)
    assert dataset.text_of(dataset.read("all")[7]) == f"{read} 7"


def test_equal_texts_are_on_one_side(tmp_path: Path) -> None:
    """A text that was trained on was in the test, too, with its label."""
    rows = [row | {"body": f"text  {i % 20}", "title": "t"} for i, row in enumerate(ROWS * 2)]
    dataset = load(write(tmp_path / "t.csv", rows), val_share=0.2, test_share=0.2)
    texts = {split: {row.text for row in dataset.read(split)} for split in ("train", "val", "test")}
    assert sum(map(len, texts.values())) == 20
    assert sum(len(dataset.read(split)) for split in texts) == 200
    assert 2 <= len(texts["val"]) <= 4 and 2 <= len(texts["test"]) <= 4


def test_every_label_keeps_a_row_for_training() -> None:
    labels = ["a"] * 50 + [f"rare {i}" for i in range(50)]
    for seed in range(20):
        held = stratified_sample(labels, share=0.2, seed=seed)
        assert len(held) == 20
        assert {labels[i] for i in held} == {"a"}
    assert stratified_sample(labels, share=0.2, seed=1) != stratified_sample(
        labels, share=0.2, seed=2
    )


def test_splits_with_a_table_of_their_own(tmp_path: Path) -> None:
    write(tmp_path / "train.csv")
    write(tmp_path / "test.jsonl", ROWS[:7])
    dataset = load(tmp_path, val_share=0.1)
    assert [len(dataset.read(split)) for split in ("train", "val", "test")] == [90, 10, 7]
    write(tmp_path / "train.jsonl")
    with pytest.raises(CorpusError, match=r"train\.csv and train\.jsonl: keep one"):
        load(tmp_path)


def test_a_small_table_has_small_batches(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """1,000 rows were 16 steps in the default preset: the model learned nothing."""
    rows = ROWS * 20
    dataset = load(write(tmp_path / "t.csv", rows), val_share=0.1)
    plan = dataset.training_data(batch_tokens=4000, seed=1, max_len=50).plan(1)
    assert len(plan) > 15
    assert all(sum(len(ids) for ids, _ in batch) <= 256 for batch in plan)
    assert "batches have 256 tokens, not train.batch_tokens = 4000" in capsys.readouterr().err
    plan = dataset.training_data(batch_tokens=100, seed=1, max_len=50).plan(1)
    assert max(sum(len(ids) for ids, _ in batch) for batch in plan) <= 100
    assert capsys.readouterr().err == ""


def test_a_folder_of_texts_needs_no_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for i, name in enumerate(LABELS):
        (tmp_path / "texts" / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / "texts" / name / f"{i}.txt").write_text(f"text {i}\n")
    (empty := tmp_path / "texts" / "ham" / "no.txt").touch()
    dataset = load(tmp_path / "texts", text=(), label="label", test_share=0.0, val_share=0.1)
    assert dataset.classes == ["eggs", "ham", "spam"]
    assert len(dataset.read("train")) == 90
    assert "test" not in dataset.splits.names()
    said = capsys.readouterr().err
    assert "1 of 101 rows have no text" in said and said.endswith(f"the first of them is {empty}\n")


def test_numbers_as_labels_are_sorted_by_value(tmp_path: Path) -> None:
    rows = [row | {"topic": 1 + i % 11} for i, row in enumerate(ROWS)]
    assert load(write(tmp_path / "t.jsonl", rows)).classes == [str(i) for i in range(1, 12)]


def test_columns_without_names_are_numbered(tmp_path: Path) -> None:
    write(tmp_path / "t.csv")
    dataset = load(tmp_path / "t.csv", header=False, text=("2",), label="3", val_share=0.1)
    assert dataset.classes == ["eggs", "ham", "spam", "topic"]


def test_rows_without_text_or_label_are_left_out_and_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{**ROWS[0], "title": "", "body": " "}, {**ROWS[0], "topic": ""}, *ROWS]
    dataset = load(write(tmp_path / "t.csv", rows), val_share=0.1)
    assert len(dataset.read("all")) == len(dataset.encoded("all")) == 100
    said = capsys.readouterr().err
    assert "t.csv: 2 of 102 rows have no text or no label and are left out; the first" in said
    assert said.count("left out") == 1
    assert "row 2" in said


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        (ROWS[:60], {}, r"all rows have the label 'spam': there must be two at least"),
        (ROWS, {"label": "topics"}, r"no column 'topics'; did you mean 'topic'\?"),
        (ROWS, {"text": ("titel",)}, r"no column 'titel'; did you mean 'title'\?"),
        (ROWS, {"label": "body", "text": ("title",)}, r"100 labels in 100 rows are too many"),
        ([ROWS[0] | {"topic": ""}], {}, r"no row has a text and a label"),
        (
            [*ROWS, ROWS[0] | {"topic": "x" * 300}],
            {},
            r"t\.csv: row 102: a label of 300 characters",
        ),
        (ROWS[55:65], {"val_share": 0.01}, r"its 10 rows cannot spare data\.val_share = 0\.01"),
    ],
)
def test_a_bad_table_is_refused(
    rows: list[dict[str, Any]], options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(CorpusError, match=message):
        load(write(tmp_path / "t.csv", rows), **options)


def test_a_label_that_only_the_test_has_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "train.csv")
    write(tmp_path / "test.csv", [ROWS[0], ROWS[1] | {"topic": "span"}])
    said = r"test\.csv: row 3: the label 'span' is not one of the labels in .*did you mean 'spam'"
    with pytest.raises(CorpusError, match=said):
        load(tmp_path)


def test_a_model_refuses_other_labels_but_measures_a_few_rows(tmp_path: Path) -> None:
    codec = load(write(tmp_path / "t.csv")).codec
    few = write(tmp_path / "few.csv", ROWS[:2])

    def opened(classes: list[str]) -> LoadSentenceClassificationDataset:
        return LoadSentenceClassificationDataset(
            few, data(val_share=0.0), seed=1, codec=codec, classes=classes
        )

    assert len(opened(["ham", "spam"]).read("all")) == 2
    with pytest.raises(
        CorpusError, match=r"few\.csv: row 2: the label 'spam' is not one of the model's"
    ):
        opened(["ham", "eggs"])


def test_ten_thousand_classes_are_no_problem(tmp_path: Path) -> None:
    rows = [{"title": f"{n} {i}", "body": "", "topic": i} for i in range(10_000) for n in "ab"]
    dataset = load(write(tmp_path / "t.csv", rows), val_share=0.1)
    assert len(dataset.classes) == 10_000
    assert isinstance(dataset.splits, TableSource)


def test_a_table_without_names_of_columns_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"with --text and --label; its columns: \w+, \w+"):
        load(write(tmp_path / "t.csv"), text=())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"text": ("a", "a")}, r"data\.text must be names of columns, each once"),
        ({"label": "title"}, r"data\.label must be the name of a column that is not in data\.text"),
        ({"delimiter": "::"}, r"data\.delimiter must be one character"),
        ({"test_share": 1.0}, r"data\.test_share"),
        ({"class_weight": ("spam",)}, r"data\.class_weight must be LABEL=NUMBER"),
    ],
)
def test_options_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        data(**options)
