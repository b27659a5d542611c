"""Where labeled texts come from: a folder in AG_News' layout, or the tables of a user.

The names of the classes are the lines of ``classes.txt``, in the order of their numbers.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

from core.config import nearest
from core.errors import CorpusError, shown
from core.progress import log
from core.storage.files import exists, is_file, is_folder, write_text
from data.readers import csv_rows, iter_lines, row_error
from data.tables import Table, open_table, table_files
from tasks.classification.config import ClassificationData
from tasks.runs.dataset import Splits, TableSplits

CLASSES_FILE = "classes.txt"

_MAX_NAMES = 5  # in a message
_VAL_SHARE = 0.03
_MIN_VAL_ROWS = 100
_MIN_VAL_ROWS_OF_CLASS = 10  # on average
_MAX_VAL_SHARE = 0.2
_LABEL = re.compile(r"\s*-?[0-9]{1,9}\s*", re.ASCII)
_MAX_LABEL = 200
_MAX_CLASSES = 50_000
_FEW_CLASSES = 20


class Row(NamedTuple):
    """A text and the number of its class, from 0."""

    label: int
    text: str


class NewsFolder(Splits[Row]):
    """AG_News' layout: ``train.csv``, ``test.csv``, ``classes.txt`` and optionally ``val.csv``."""

    def __init__(
        self, folder: Path, config: ClassificationData, *, seed: int, classes: Sequence[str] | None
    ) -> None:
        self._folder, self._columns = folder, config.columns
        self.classes = read_classes(folder)
        if classes is not None and self.classes != list(classes):
            raise CorpusError(
                folder / CLASSES_FILE,
                f"the classes are {listed(self.classes)}, the model's are {listed(classes)}",
            )
        paths = [folder / "train.csv", *folder.glob("*.csv")]
        files = {path.stem: [folder / CLASSES_FILE, path] for path in paths}
        share = _VAL_SHARE if config.val_share is None else config.val_share
        super().__init__(folder, files, {"val": share}, seed=seed)

    def load(self, split: str) -> list[Row]:
        path = self._folder / f"{split}.csv"
        return read_news(path, self._columns, num_classes=len(self.classes))


class TableSource(TableSplits[Row]):
    """Tables of a user. Rows without a text or without a label are left out and reported.

    Raises a CorpusError if a column is missing; if there is one label only, or nearly as many as
    rows; or if a label is not one of the model's, or not in the training table.
    """

    def __init__(
        self, path: Path, config: ClassificationData, *, seed: int, classes: Sequence[str] | None
    ) -> None:
        shares = {"test": config.test_share, "val": config.val_share or 0.0}
        super().__init__(path, shares, seed=seed)
        self._has_model = classes is not None
        self._config, self._columns = config, config.text or ("text",)
        self.classes = list(classes or ())
        for split in ("train", *self._tables.keys() - {"train"}):
            self.load(split)
        if config.val_share is None and "val" in self._shares:
            enough = max(_MIN_VAL_ROWS, _MIN_VAL_ROWS_OF_CLASS * len(self.classes))
            share = min(_MAX_VAL_SHARE, enough / len(self.load("train")))
            self._shares["val"] = max(_VAL_SHARE, share)

    def load_table(self, path: Path) -> list[Row]:
        labeled = self._labeled(open_table(path, self._config))
        self.classes = self.classes or self._classes([label for label, _ in labeled])
        numbers = {label: number for number, label in enumerate(self.classes)}
        return [Row(numbers[label], text) for label, text in labeled]

    def text_and_label(self, row: Row) -> tuple[str, str]:
        return " ".join(row.text.split()), self.classes[row.label]

    def _labeled(self, table: Table) -> list[tuple[str, str]]:
        """Returns the labels and texts of the rows that have both; reports the others."""
        found, others = [], []
        known, train = set(self.classes), self._tables["train"]
        whose = "the model's classes" if self._has_model else f"the labels in {train}"
        table.require((*self._columns, self._config.label))
        for row, record in table.rows():
            label = " ".join(table.text(row, record, (self._config.label,)).split())
            if len(label) > _MAX_LABEL:
                reason = f"a label of {len(label):,} characters: is {self._config.label!r} a text?"
                raise row_error(table.path, row, reason)
            text = table.text(row, record, self._columns)
            if label and text.strip():
                if self.classes and label not in known:
                    hint = nearest(label, self.classes) or f": {listed(self.classes)}"
                    reason = f"the label {shown(label)} is not one of {whose}{hint}"
                    raise row_error(table.path, row, reason)
                found.append((label, text))
            else:
                others.append(row)
        if not found:
            raise CorpusError(table.path, "no row has a text and a label")
        if others:
            files = table_files(table.path)
            first = files[others[0] - 1] if is_folder(table.path) else f"row {others[0]}"
            log(
                f"{table.path}: {len(others):,} of {len(found) + len(others):,} rows have no text "
                f"or no label and are left out; the first of them is {first}"
            )
        return found

    def _classes(self, labels: Sequence[str]) -> list[str]:
        """Returns the labels of the training table in their order, if they can be classes."""
        names = sorted(set(labels), key=_by_value)
        path = self._tables["train"]
        if len(names) < 2:
            reason = f"all rows have the label {shown(names[0])}: there must be two at least"
            raise CorpusError(path, reason)
        if len(names) > min(_MAX_CLASSES, max(_FEW_CLASSES, len(labels) // 2)):
            raise CorpusError(
                path,
                f"{len(names):,} labels in {len(labels):,} rows are too many: is "
                f"{self._config.label!r} the column of the labels?",
            )
        return names


Source: TypeAlias = NewsFolder | TableSource


def open_source(
    path: Path, config: ClassificationData, *, seed: int, classes: Sequence[str] | None = None
) -> Source:
    """Opens a corpus. Raises a CorpusError if it is not there, or if a model has other classes."""
    if not exists(path):
        raise CorpusError(path, "there is no such folder or file")
    if has_news_layout(path, config):
        return NewsFolder(path, config, seed=seed, classes=classes)
    if not config.text and not is_folder(path):
        table = open_table(path, config)
        reason = "name the columns of the texts and of the labels with --text and --label"
        raise CorpusError(path, f"{reason}; its columns: {table.listed_columns()}")
    return TableSource(path, config, seed=seed, classes=classes)


def has_news_layout(path: Path, config: ClassificationData) -> bool:
    """Returns whether ``path`` is read as AG_News: a folder without tables or texts by label."""
    if config.text or not is_folder(path):
        return False
    if is_file(path / CLASSES_FILE) or is_file(path / "train.csv"):
        return True
    return not any(any(path.glob(pattern)) for pattern in ("*/*.txt", "train/*/*.txt"))


def read_news(path: Path, columns: Sequence[str], *, num_classes: int) -> list[Row]:
    """Returns the rows of a CSV file: ``label,title,description``, or ``label,description``.

    All rows have as many columns as the first, which may be a header: it begins with ``label`` or
    ``class``. Labels are integers from 1 to ``num_classes``. The ``columns`` that are read are
    joined by a space. Raises a CorpusError that names the row.
    """
    rows: list[Row] = []
    count = 0
    for number, fields in csv_rows(path):
        count = count or len(fields)
        if len(fields) != count or count not in (2, 3):
            found = f"{len(fields)} columns, where the first row has {count}"
            reason = f"{found}; expected label,title,description or label,text"
            raise row_error(path, number, reason)
        label, *title, description = fields
        if number == 1 and label.strip().lower() in ("label", "class"):
            continue
        if not "".join(fields[1:]).strip():
            raise row_error(path, number, "the row has no text")
        if not _LABEL.fullmatch(label):
            raise row_error(path, number, f"the label {label[:40]!r} is not a whole number")
        if not 0 < int(label) <= num_classes:
            reason = f"the label {int(label)} is out of range: from 1 to {num_classes}"
            raise row_error(path, number, reason)
        texts = {"title": "".join(title), "description": description}
        rows.append(Row(int(label) - 1, " ".join(texts[column] for column in columns)))
    if not rows:
        raise CorpusError(path, "the file has no rows")
    return rows


def read_classes(folder: Path) -> list[str]:
    """Returns the names of two or more classes. Raises a CorpusError for empty or repeated ones."""
    path = folder / CLASSES_FILE
    names = [line.strip() for line in iter_lines(path)]
    seen: set[str] = set()
    for number, name in enumerate(names, start=1):
        if not name:
            raise CorpusError(path, "empty line: every line names a class", number)
        if name in seen:
            raise CorpusError(path, f"the class {name[:40]!r} occurs twice", number)
        if "\t" in name:
            raise CorpusError(path, "a class name cannot contain a tab", number)
        seen.add(name)
    if len(names) < 2:
        raise CorpusError(path, f"there must be at least two classes, not {len(names)}")
    return names


def write_classes(folder: Path, names: Sequence[str]) -> None:
    """Writes what :func:`read_classes` reads."""
    write_text(folder / CLASSES_FILE, "".join(f"{name}\n" for name in names))


def class_count(names: Sequence[str], classes: Sequence[str]) -> str:
    """Returns e.g. ``2 of 4 classes: Sports, World``, for a message."""
    return f"{len(names)} of {len(classes)} classes: {listed(names)}"


def listed(names: Sequence[str]) -> str:
    """Returns the first few of ``names``, for a message."""
    shown = ", ".join(name[:40] for name in names[:_MAX_NAMES])
    return shown if len(names) <= _MAX_NAMES else f"{shown}, ..."


def _by_value(name: str) -> tuple[int, str]:
    """Sorts integers by value, before other names."""
    is_number = name.isascii() and name.isdigit()
    return (len(name), name) if is_number else (1 << 30, name)
