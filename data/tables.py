"""Tables with any columns: CSV, TSV, JSON Lines, or a folder of texts for every label.

Rows are read one at a time, and an error names the file and the line. Blank lines are skipped.
"""

from __future__ import annotations

import csv
import io
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from core.config import nearest
from core.errors import CorpusError, shorten, shown
from core.storage.files import is_folder, reason_of, require_regular_file
from data.readers import csv_records, iter_lines

SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson")
DELIMITERS = (",", "\t", ";", "|")
TAB = "tab"
"""The name of a tab as a delimiter, easier to type than the character."""
FOLDER_COLUMNS = ("text", "label")

_SAMPLE_BYTES = 1 << 16
_SAMPLE_RECORDS = 50
_MAX_NAMES = 10  # in a message

Record = Mapping[str, Any]


class Table(ABC):
    """The rows of a file as mappings from the names of columns to values.

    Attributes:
        path: the file or folder.
        columns: the names of the columns.
    """

    path: Path
    columns: Sequence[str]

    @abstractmethod
    def rows(self) -> Iterator[tuple[int | None, Record]]:
        """Yields every row with the number of the line where it begins; raises at a faulty one."""

    @abstractmethod
    def header(self, added: Sequence[str]) -> str:
        """Returns the header of a table with columns added, "" for a format without headers."""

    @abstractmethod
    def line(self, record: Record, added: Mapping[str, object]) -> str:
        """Returns a row with columns added, in the format of the file, with its line end."""

    def files(self) -> list[Path]:
        """Returns the files that hold the rows."""
        return [self.path]

    def require(self, names: Iterable[str]) -> None:
        """Raises a CorpusError, with the most similar name, if a column is missing."""
        for name in names:
            if name not in self.columns:
                raise CorpusError(self.path, f"there is no column {shown(name)}{self._hint(name)}")

    def listed_columns(self) -> str:
        """Returns the names of the first few columns, for a message."""
        names = ", ".join(shorten(column) for column in self.columns[:_MAX_NAMES])
        return names if len(self.columns) <= _MAX_NAMES else f"{names}, ..."

    def _hint(self, name: str) -> str:
        """Returns what could be meant by the ``name`` of a column that is missing."""
        return nearest(name, self.columns) or f"; its columns: {self.listed_columns()}"

    def text(self, line: int | None, record: Record, names: Iterable[str]) -> str:
        """Returns the values of some columns, joined by a space; nothing for a missing value.

        Raises:
            CorpusError: a value is a list or an object.
        """
        parts = []
        for name in names:
            value = record.get(name)
            if isinstance(value, list | dict):
                kind = "a list" if isinstance(value, list) else "an object"
                raise CorpusError(self.path, f"{shown(name)} is {kind}, not a text", line)
            if value is not None:
                parts.append(value if isinstance(value, str) else json.dumps(value))
        return " ".join(parts)

    def added_names(self, names: Sequence[str]) -> list[str]:
        """Returns names for new columns: ``names``, with a prefix if the table has one of them."""
        prefix = ""
        while any(prefix + name in self.columns for name in names):
            prefix += "predicted_"
        return [prefix + name for name in names]


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
        return TextFolder(path)
    if path.suffix.lower() in (".jsonl", ".ndjson", ".json"):
        return JsonLines(path)
    return CsvTable(path, delimiter=delimiter, has_header=has_header)


class CsvTable(Table):
    """A CSV file, with any delimiter."""

    def __init__(self, path: Path, *, delimiter: str | None, has_header: bool) -> None:
        self.path, self._has_header = path, has_header
        self._delimiter = "\t" if delimiter == TAB else delimiter or _sniffed_delimiter(path)
        first = next((fields for _, fields in self._records()), None)
        if first is None:
            raise CorpusError(path, "the file is empty")
        numbers = [str(number) for number in range(1, len(first) + 1)]
        self._names = [name.strip() for name in first] if has_header else numbers
        self.columns = _distinct(self._names)

    def rows(self) -> Iterator[tuple[int, Record]]:
        records = self._records()
        if self._has_header:
            next(records)
        for line, fields in records:
            if len(fields) != len(self.columns):
                raise CorpusError(
                    self.path,
                    f"the row has {len(fields)} columns, the first one has {len(self.columns)} "
                    f"(delimiter {self._delimiter!r}): close its quotes, or quote the text",
                    line,
                )
            yield line, dict(zip(self.columns, fields, strict=True))

    def header(self, added: Sequence[str]) -> str:
        return self._format([*self._names, *added]) if self._has_header else ""

    def line(self, record: Record, added: Mapping[str, object]) -> str:
        return self._format([*record.values(), *added.values()])

    def _hint(self, name: str) -> str:
        if len(self.columns) == 1 and any(mark in self.columns[0] for mark in DELIMITERS):
            return (
                f": with the delimiter {self._delimiter!r}, the first row has one column, "
                f"{shown(self.columns[0])}; name another delimiter"
            )
        if self._has_header and name.isdigit():
            return f"{super()._hint(name)}; without a header they are numbered from 1"
        return super()._hint(name)

    def _records(self) -> Iterator[tuple[int, list[str]]]:
        records = csv_records(self.path, delimiter=self._delimiter)
        return ((line, fields) for line, fields in records if fields)

    def _format(self, fields: Sequence[object]) -> str:
        line = io.StringIO()
        csv.writer(line, delimiter=self._delimiter, lineterminator="\n").writerow(fields)
        return line.getvalue()


class JsonLines(Table):
    """A file with a JSON object in every line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        names: dict[str, None] = {}
        for (_, record), _ in zip(self.rows(), range(_SAMPLE_RECORDS), strict=False):
            names |= dict.fromkeys(record)
        if not names:
            raise CorpusError(path, "the file has no rows")
        self.columns = list(names)

    def rows(self) -> Iterator[tuple[int, Record]]:
        for number, line in enumerate(iter_lines(self.path), start=1):
            if line.strip():
                yield number, self._object(number, line)

    def header(self, added: Sequence[str]) -> str:
        return ""

    def line(self, record: Record, added: Mapping[str, object]) -> str:
        return json.dumps({**record, **added}, ensure_ascii=False) + "\n"

    def _object(self, number: int, line: str) -> Record:
        try:
            value = json.loads(line)
        except RecursionError as error:
            raise CorpusError(self.path, "nested too deeply", number) from error
        except ValueError as error:
            reason = f"not valid JSON: {shorten(str(error))}; every line must be one object"
            raise CorpusError(self.path, reason, number) from error
        if not isinstance(value, dict):
            raise CorpusError(self.path, f"{shown(value)} is not a JSON object", number)
        return value


class TextFolder(Table):
    """A folder for every label, with one text in every file ``*.txt``."""

    columns = FOLDER_COLUMNS

    def __init__(self, path: Path) -> None:
        self.path = path
        if not self.files():
            raise CorpusError(path, "there is neither a table nor LABEL/*.txt in the folder")

    def rows(self) -> Iterator[tuple[None, Record]]:
        for path in self.files():
            yield None, {"text": "\n".join(iter_lines(path)), "label": path.parent.name}

    def files(self) -> list[Path]:
        return sorted(self.path.glob("*/*.txt"))

    def header(self, added: Sequence[str]) -> str:
        raise CorpusError(self.path, "a folder has no rows to add columns to: name a file")

    line = header  # type: ignore[assignment]


def _sniffed_delimiter(path: Path) -> str:
    """Returns the delimiter that divides the first rows into equal numbers of columns."""
    if path.suffix.lower() == ".tsv":
        return "\t"
    try:
        require_regular_file(path)
        with path.open("rb") as file:
            sample = file.read(_SAMPLE_BYTES)
    except OSError as error:
        raise CorpusError(path, f"cannot read: {reason_of(error)}") from error
    text = sample.decode("utf-8-sig", errors="replace")
    is_cut = len(sample) == _SAMPLE_BYTES

    def rank(delimiter: str) -> tuple[bool, int]:
        lines = io.StringIO(text.replace("\0", ""), newline="")
        records = [r for r in csv.reader(lines, delimiter=delimiter) if r][:_SAMPLE_RECORDS]
        counts = [len(record) for record in (records[:-1] if is_cut else records) or records]
        columns = max(counts, default=1)
        return columns > 1 and min(counts) == columns, counts[0] if counts else 1

    return max(DELIMITERS, key=rank)  # the first of equal ones


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
