"""Where labeled texts come from: a folder in AG_News' layout, or the tables of a user."""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np

from core.config import check_choice, nearest
from core.errors import CorpusError, shown
from core.progress import log
from core.storage.files import exists, is_file, is_folder
from data.readers import csv_rows, row_error
from data.tables import SUFFIXES, Table, open_table
from tasks.classification.classes import CLASSES_FILE, listed, read_classes
from tasks.classification.config import ClassificationData
from tasks.runs.hold_out import HoldOut

ALL = "all"
"""The split that is every row of a file."""

_SPLITS = ("train", "val", "test")
_LABEL = re.compile(r"\s*-?[0-9]{1,9}\s*", re.ASCII)
_MAX_LABEL = 200
_MAX_CLASSES = 50_000
_FEW_CLASSES = 20


class Row(NamedTuple):
    """A text and the number of its class, from 0."""

    label: int
    text: str


class NewsFolder:
    """AG_News' layout: ``train.csv``, ``test.csv``, ``classes.txt`` and optionally ``val.csv``."""

    def __init__(
        self,
        folder: Path,
        config: ClassificationData,
        *,
        seed: int,
        classes: Sequence[str] | None,
    ) -> None:
        self._folder, self._columns = folder, config.columns
        self.classes = read_classes(folder)
        if classes is not None and self.classes != list(classes):
            raise CorpusError(
                folder / CLASSES_FILE,
                f"the classes are {listed(self.classes)}, the model's are {listed(classes)}",
            )
        is_needed, path = not is_file(folder / "val.csv"), folder / "train.csv"
        self._hold_out = HoldOut(is_needed=is_needed, share=config.val_share, seed=seed, path=path)

    def read(self, split: str) -> list[Row]:
        """Returns the rows of a split."""
        rows = read_news(self._file(split), self._columns, num_classes=len(self.classes))
        return [rows[i] for i in self._hold_out.rows(split, len(rows))]

    def files(self, split: str) -> list[Path]:
        """Returns the files whose contents decide a split."""
        return [self._folder / CLASSES_FILE, self._file(split)]

    def has(self, split: str) -> bool:
        """Returns whether there is such a split."""
        return split in ("train", "val") or is_file(self._file(split))

    def check_split(self, split: str) -> None:
        """Raises a ConfigError with the names of all splits, unless ``split`` is one of them."""
        self._hold_out.check_split(split, (path.stem for path in self._folder.glob("*.csv")))

    def _file(self, split: str) -> Path:
        return self._folder / f"{self._hold_out.source(split)}.csv"


class TableSource:
    """One table, or a folder with ``train`` and maybe ``val`` and ``test`` as tables.

    Splits without a table of their own are held out from the training table: ``data.test_share``
    and then ``data.val_share`` of its rows, of every label in proportion. Rows without a text or
    without a label are left out and reported.

    Raises:
        CorpusError: a column is missing; there is one label only, or nearly as many as rows; a
            label is not one of the model's, or not in the training table.
    """

    def __init__(
        self,
        path: Path,
        config: ClassificationData,
        *,
        seed: int,
        classes: Sequence[str] | None,
    ) -> None:
        self._path, self._config, self._seed = path, config, seed
        self._columns = config.text or ("text",)
        self._reported: set[Path] = set()
        self._tables = {
            name: open_table(file, delimiter=config.delimiter, has_header=config.header)
            for name, file in _table_paths(path).items()
        }
        for table in self._tables.values():
            table.require((*self._columns, config.label))
        self._has_model, self.classes = classes is not None, list(classes or ())
        labels = [label for label, _ in self._labeled(self._tables["train"])]
        self.classes = self.classes or self._classes(labels)
        for name in self._tables.keys() - {"train"}:
            self._labeled(self._tables[name])  # raises at a label that is not a class
        self._splits = self._divided(labels)

    def read(self, split: str) -> list[Row]:
        numbers = {name: number for number, name in enumerate(self.classes)}
        rows = [Row(numbers[label], text) for label, text in self._labeled(self._table(split))]
        return [rows[i] for i in self._splits.get(split, range(len(rows)))]

    def files(self, split: str) -> list[Path]:
        return self._table(split).files()

    def has(self, split: str) -> bool:
        return split in self._tables or split in self._splits

    def check_split(self, split: str) -> None:
        splits = sorted({*self._tables, *self._splits, ALL})
        check_choice(f"{self._path}: the split", split, splits)

    def has_table(self, split: str) -> bool:
        """Returns whether a split has a table of its own."""
        return split in self._tables

    def digest(self) -> str:
        """Returns the sha256 of the training rows' files: whether a model was trained on them."""
        digest = hashlib.sha256()
        for path in self._tables["train"].files():
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        return digest.hexdigest()

    def _table(self, split: str) -> Table:
        return self._tables.get(split, self._tables["train"])

    def _labeled(self, table: Table) -> list[tuple[str, str]]:
        """Returns the labels and texts of the rows that have both; reports the others once.

        Raises:
            CorpusError: at the first label that is not a class.
        """
        found, others = [], []
        known, train = set(self.classes), self._tables["train"].path
        whose = "the model's classes" if self._has_model else f"the labels in {train}"
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
        if others and table.path not in self._reported:
            self._reported.add(table.path)
            log(
                f"{table.path}: {len(others):,} of {len(found) + len(others):,} rows have no text "
                f"or no label and are left out; the first of them is row {others[0]}"
            )
        return found

    def _classes(self, labels: Sequence[str]) -> list[str]:
        """Returns the labels of the training table in their order, if they can be classes."""
        names = sorted(set(labels), key=_by_value)
        path = self._tables["train"].path
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

    def _divided(self, labels: Sequence[str]) -> dict[str, Sequence[int]]:
        """Returns the rows of the training table that belong to each split without a table."""
        path, config = self._tables["train"].path, self._config
        shares = {"test": config.test_share, "val": config.val_share}
        rest: Sequence[int] = range(len(labels))
        splits: dict[str, Sequence[int]] = {}
        for name, share in shares.items():
            if name in self._tables or (name == "test" and share == 0.0):
                continue
            held = stratified_sample([labels[i] for i in rest], share=share, seed=self._seed)
            if not held and self._has_model:
                continue  # a few rows to be measured, not to be trained on
            if not held:
                raise CorpusError(
                    path,
                    f"its {len(labels)} rows cannot spare data.{name}_share = {share} of them: "
                    "add rows, or give another share",
                )
            chosen = {rest[i] for i in held}
            splits[name] = sorted(chosen)
            rest = [i for i in rest if i not in chosen]
        return splits | ({"train": rest} if splits else {})


Source: TypeAlias = NewsFolder | TableSource


def open_source(
    path: Path, config: ClassificationData, *, seed: int, classes: Sequence[str] | None = None
) -> Source:
    """Opens a corpus.

    Args:
        seed: selects the rows of the splits that have no file.
        classes: those of an existing model.

    Raises:
        CorpusError: there is no such corpus, or its classes differ from the model's.
    """
    if not exists(path):
        raise CorpusError(path, "there is no such folder or file")
    if has_news_layout(path, config):
        return NewsFolder(path, config, seed=seed, classes=classes)
    if not config.text and not is_folder(path):
        table = open_table(path, delimiter=config.delimiter, has_header=config.header)
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
    ``class``. Labels are integers from 1 to ``num_classes``.

    Args:
        columns: those that are read, joined by a space: the title, the description or both.

    Raises:
        CorpusError: names the file and the row.
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


def stratified_sample(labels: Sequence[str], *, share: float, seed: int) -> list[int]:
    """Returns a random ``share`` of the rows, with every label in proportion.

    The rows, sorted by label and shuffled within one, are taken at equal distances. One row of
    every label is never taken.
    """
    order = list(range(len(labels)))
    random.Random(seed).shuffle(order)
    first = set({labels[i]: i for i in order}.values())
    candidates = sorted((i for i in order if i not in first), key=lambda i: labels[i])
    count = min(round(share * len(labels)), len(candidates))
    places = ((np.arange(count) + 0.5) * len(candidates) / max(count, 1)).astype(int)
    return sorted(candidates[place] for place in places)


def _table_paths(path: Path) -> dict[str, Path]:
    """Returns the table of every split of the corpus at ``path``."""
    if not is_folder(path):
        return {"train": path}
    found: dict[str, Path] = {}
    for split in _SPLITS:
        paths = [path / f"{split}{suffix}" for suffix in SUFFIXES]
        paths = [p for p in paths if is_file(p)] or [p for p in [path / split] if is_folder(p)]
        if len(paths) > 1:
            raise CorpusError(path, f"{paths[0].name} and {paths[1].name}: keep one of them")
        found |= dict.fromkeys([split], *paths) if paths else {}
    if "train" not in found:
        if not any(path.glob("*/*.txt")):
            names = ", ".join(f"train{suffix}" for suffix in SUFFIXES)
            raise CorpusError(path, f"there is neither {names} nor LABEL/*.txt in the folder")
        return {"train": path}
    return found


def _by_value(name: str) -> tuple[int, str]:
    """Sorts integers by value, before other names."""
    is_number = name.isascii() and name.isdigit()
    return (len(name), name) if is_number else (1 << 30, name)
