"""Tables with any columns: CSV, TSV, JSON Lines, or a folder of texts for every label.

Rows are read a few at a time, and an error names the file and the row. Blank lines are skipped.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from core.config import nearest
from core.errors import CorpusError, shorten, shown
from core.storage.files import is_folder
from data.readers import csv_rows, iter_lines, row_error

SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson")
DELIMITERS = (",", "\t", ";", "|")
TAB = "tab"
"""The name of a tab as a delimiter, easier to type than the character."""

_SAMPLE_ROWS = 50
_MAX_NAMES = 10  # in a message

Record = Mapping[str, Any]
Records = Iterator[tuple[int, Record]]
"""Rows as mappings from the names of columns to values, each with its number in the file."""


@dataclass(frozen=True)
class Table:
    """The rows of a file or folder.

    Attributes:
        columns: their names, no two of them equal.
        rows: yields every row; raises a CorpusError at a faulty one.
        delimiter: that of a CSV file; "" for another format.
        header: the first row of a CSV file, if that has the names of the columns.
    """

    path: Path
    columns: Sequence[str]
    rows: Callable[[], Records]
    delimiter: str = ""
    header: Sequence[str] = ()

    def files(self) -> list[Path]:
        """Returns the files that hold the rows."""
        return _text_files(self.path) if is_folder(self.path) else [self.path]

    def first_line(self, added: Sequence[str]) -> str:
        """Returns the header with columns added, "" for a table without a header."""
        return self._as_csv([*self.header, *added]) if self.header else ""

    def line(self, record: Record, added: Record) -> str:
        """Returns a row with columns added, as CSV or JSON, with its line end."""
        if self.delimiter:
            return self._as_csv([*record.values(), *added.values()])
        return json.dumps({**record, **added}, ensure_ascii=False) + "\n"

    def require(self, names: Iterable[str]) -> None:
        """Raises a CorpusError, with the most similar name, if a column is missing."""
        for name in names:
            if name not in self.columns:
                raise CorpusError(self.path, f"there is no column {shown(name)}{self._hint(name)}")

    def listed_columns(self) -> str:
        """Returns the names of the first few columns, for a message."""
        names = ", ".join(shorten(column) for column in self.columns[:_MAX_NAMES])
        return names if len(self.columns) <= _MAX_NAMES else f"{names}, ..."

    def text(self, row: int, record: Record, names: Iterable[str]) -> str:
        """Returns the values of some columns, joined by a space; nothing for a missing value.

        Raises:
            CorpusError: a value is a list or an object.
        """
        parts = []
        for name in names:
            value = record.get(name)
            if isinstance(value, list | dict):
                kind = "a list" if isinstance(value, list) else "an object"
                raise row_error(self.path, row, f"{shown(name)} is {kind}, not a text")
            if value is not None:
                parts.append(value if isinstance(value, str) else json.dumps(value))
        return " ".join(parts)

    def added_names(self, names: Sequence[str]) -> list[str]:
        """Returns names for new columns: ``names``, with a prefix if the table has one of them."""
        prefix = ""
        while any(prefix + name in self.columns for name in names):
            prefix += "predicted_"
        return [prefix + name for name in names]

    def _hint(self, name: str) -> str:
        """Returns what could be meant by the ``name`` of a column that is missing."""
        if len(self.columns) == 1 and any(mark in self.columns[0] for mark in DELIMITERS):
            return (
                f": with the delimiter {self.delimiter!r}, the first row has one column, "
                f"{shown(self.columns[0])}; name another delimiter"
            )
        hint = nearest(name, self.columns) or f"; its columns: {self.listed_columns()}"
        is_number = self.header and name.isdigit()
        return hint + ("; without a header they are numbered from 1" if is_number else "")

    def _as_csv(self, fields: Sequence[object]) -> str:
        line = io.StringIO()
        csv.writer(line, delimiter=self.delimiter, lineterminator="\n").writerow(fields)
        return line.getvalue()


def open_table(path: Path, *, delimiter: str | None = None, has_header: bool = True) -> Table:
    """Opens a table; its suffix tells the format, and an unknown one means CSV.

    Args:
        delimiter: between the columns of a CSV file, or :data:`TAB`; None: the one of
            :data:`DELIMITERS` that divides its first rows into equal numbers of columns.
        has_header: whether the first row of a CSV file has the names of the columns. Otherwise
            their names are their numbers, from 1.

    Raises:
        CorpusError: the file cannot be read or has no rows.
    """
    if is_folder(path):
        if not _text_files(path):
            raise CorpusError(path, "there is neither a table nor LABEL/*.txt in the folder")
        return Table(path, ["text", "label"], partial(_texts, path))
    if path.suffix.lower() in (".jsonl", ".ndjson", ".json"):
        first_rows = islice(_objects(path), _SAMPLE_ROWS)
        if names := dict.fromkeys(name for _, record in first_rows for name in record):
            return Table(path, list(names), partial(_objects, path))
        raise CorpusError(path, "the file has no rows")
    delimiter = "\t" if delimiter == TAB else delimiter or _sniffed_delimiter(path)
    _, first = next(csv_rows(path, delimiter=delimiter), (0, []))
    if not first:
        raise CorpusError(path, "the file is empty")
    header = [name.strip() for name in first] if has_header else []
    columns = _distinct(header) or [str(number) for number in range(1, len(first) + 1)]
    rows = partial(_cells, path, delimiter, columns, has_header=has_header)
    return Table(path, columns, rows, delimiter, header)


def _cells(path: Path, delimiter: str, columns: Sequence[str], *, has_header: bool) -> Records:
    """Yields the rows of a CSV file."""
    for row, fields in csv_rows(path, delimiter=delimiter):
        if not fields or (has_header and row == 1):
            continue
        if len(fields) != len(columns):
            reason = (
                f"the row has {len(fields)} columns, the first one has {len(columns)} "
                f"(delimiter {delimiter!r}): close its quotes, or quote the text"
            )
            raise row_error(path, row, reason)
        yield row, dict(zip(columns, fields, strict=True))


def _objects(path: Path) -> Records:
    """Yields the rows of a file with a JSON object in every line."""
    for row, line in enumerate(iter_lines(path), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except RecursionError as error:
            raise row_error(path, row, "nested too deeply") from error
        except ValueError as error:
            reason = f"not valid JSON: {shorten(str(error))}; every line must be one object"
            raise row_error(path, row, reason) from error
        if not isinstance(record, dict):
            raise row_error(path, row, f"{shown(record)} is not a JSON object")
        yield row, record


def _texts(folder: Path) -> Records:
    """Yields the texts in a folder that has a folder for every label."""
    for number, path in enumerate(_text_files(folder), start=1):
        yield number, {"text": "\n".join(iter_lines(path)), "label": path.parent.name}


def _text_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*/*.txt"))


def _sniffed_delimiter(path: Path) -> str:
    """Returns the delimiter that divides the first rows into equal numbers of columns."""

    def rank(delimiter: str) -> tuple[bool, int]:
        counts: list[int] = []
        is_even = True
        try:
            for _, fields in islice(csv_rows(path, delimiter=delimiter), _SAMPLE_ROWS):
                counts += [len(fields)] if fields else []
        except CorpusError:
            is_even = False
        columns = max(counts, default=1)
        return is_even and min(counts, default=1) == columns > 1, counts[0] if counts else 1

    # The first of equal ones.
    return "\t" if path.suffix.lower() == ".tsv" else max(DELIMITERS, key=rank)


def _distinct(names: Sequence[str]) -> list[str]:
    """Returns ``names`` with ``.1``, ``.2``... after those that occur before, as in pandas."""
    seen: dict[str, int] = {}
    distinct: list[str] = []
    for name in names:
        while name in seen:
            seen[name] += 1
            name = f"{name}.{seen[name]}"
        seen[name] = 0
        distinct.append(name)
    return distinct
