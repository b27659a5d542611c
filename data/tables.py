"""Tables with any columns: CSV, TSV, Excel, JSON Lines, or a folder of texts for every label.

Rows are read a few at a time, and an error names the file and the row. Blank lines are skipped.
"""

import codecs
import csv
import io
import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import Any, Literal

from core.config import check, nearest
from core.errors import ConfigError, CorpusError, shorten, shown
from core.storage.files import is_file, is_folder, parsed
from data.readers import chosen_encoding, csv_rows, encoding_of, iter_lines, reading, row_error

SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson", ".xlsx")
DELIMITERS = (",", "\t", ";", "|")
TAB = "tab"
"""The name of a tab as a delimiter, easier to type than the character."""

_JSON_SUFFIXES = (".jsonl", ".ndjson", ".json")
_OTHER_SUFFIXES = (".xls", ".xlsb", ".ods", ".numbers", ".parquet", ".html")
_SAMPLE_ROWS = 50
_MAX_NAMES = 10  # in a message

Record = Mapping[str, Any]
Records = Iterator[tuple[int, Record]]
"""Rows as mappings from the names of columns to values, each with its number in the file."""


@dataclass(frozen=True, kw_only=True)
class TableLayout:
    """How a table is written.

    Attributes:
        delimiter: a character, or ``tab``, between the columns of a CSV file. None: it is found.
        header: whether the first row names the columns; otherwise they have numbers, from 1.
        encoding: of a text or CSV file. None: UTF-8, UTF-16 or cp1252, as its bytes say.
    """

    delimiter: str | None = None
    header: bool = True
    encoding: str | None = None

    def check_layout(self) -> None:
        """Raises a ConfigError for a delimiter or an encoding that cannot be."""
        is_right = self.delimiter in (None, TAB) or (
            len(self.delimiter) == 1 and self.delimiter not in '"\r\n\0'
        )
        check(is_right, "data.delimiter", self.delimiter, "one character or tab")
        try:
            is_right = self.encoding is None or isinstance("".encode(self.encoding), bytes)
        except (LookupError, ValueError):
            is_right = False
        check(is_right, "data.encoding", self.encoding, "an encoding such as cp1252")


DEFAULT_LAYOUT = TableLayout()


@dataclass(frozen=True)
class Table:
    """The rows of a file or folder.

    Attributes:
        columns: their names, no two of them equal.
        rows: yields every row; raises a CorpusError at a faulty one.
        delimiter: that of a CSV file; "" for another format.
        header: the first row, if that has the names of the columns.
        mark: what a CSV file begins with: a byte order mark, by which Excel knows UTF-8, if the
            file had one or came from Windows.
        is_quoted: whether fields may stand in quotes, which is not so in some files with tabs.
    """

    path: Path
    columns: Sequence[str]
    rows: Callable[[], Records]
    delimiter: str = ""
    header: Sequence[str] = ()
    mark: str = ""
    is_quoted: bool = True

    def first_line(self, added: Sequence[str]) -> str:
        """Returns what comes before the rows: the mark, and the header with columns added."""
        return self.mark + (self._as_csv([*self.header, *added]) if self.header else "")

    def line(self, record: Record, added: Record) -> str:
        """Returns a row with columns added, as CSV or JSON, with its line end."""
        if self.delimiter:
            return self._as_csv([*record.values(), *added.values()])
        return json.dumps({**record, **added}, ensure_ascii=False) + "\n"

    def written_as(self, suffix: str, *, is_json: bool) -> "Table":
        """Returns the table with the delimiter for results in a file with ``suffix``.

        Raises a ConfigError if the suffix is that of another format.
        """
        is_json |= not self.delimiter
        form, others = ("JSON Lines", (".csv", ".tsv")) if is_json else ("CSV", _JSON_SUFFIXES)
        if suffix in (".xlsx", *_OTHER_SUFFIXES, *others):
            reason = f"must have another suffix than {suffix}: the results are {form}"
            raise ConfigError(reason, option="output_path")
        if suffix == ".tsv" or (suffix == ".csv" and self.delimiter == "\t"):
            return replace(self, delimiter="\t" if suffix == ".tsv" else ",", is_quoted=True)
        return self

    def require(self, names: Iterable[str]) -> None:
        """Raises a CorpusError if a column is not there (with the most similar name), or twice."""
        for name in names:
            if self.header.count(name) > 1:
                raise CorpusError(self.path, f"two columns are {shown(name)}: rename one")
            if name not in self.columns:
                raise CorpusError(self.path, f"there is no column {shown(name)}{self._hint(name)}")

    def listed_columns(self) -> str:
        """Returns the names of the first few columns, for a message."""
        names = ", ".join(shorten(column) for column in self.columns[:_MAX_NAMES])
        return names if len(self.columns) <= _MAX_NAMES else f"{names}, ..."

    def text(self, row: int, record: Record, names: Iterable[str]) -> str:
        """Returns some values as one text. Raises a CorpusError if one is a list or an object."""
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
        if not self.is_quoted:
            return self.delimiter.join(map(str, fields)) + "\n"
        line = io.StringIO()
        csv.writer(line, delimiter=self.delimiter, lineterminator="\n").writerow(fields)
        return line.getvalue()


def open_table(path: Path, layout: TableLayout = DEFAULT_LAYOUT) -> Table:
    """Opens a table; its suffix tells the format, else CSV. Raises a CorpusError without rows."""
    suffix = path.suffix.lower()
    if is_folder(path):
        if not table_files(path):
            raise CorpusError(path, "there is neither a table nor LABEL/*.txt in the folder")
        return Table(path, ["text", "label"], partial(_texts, path, layout.encoding))
    if suffix in _JSON_SUFFIXES:
        if names := dict.fromkeys(name for _, record in _objects(path) for name in record):
            return Table(path, list(names), partial(_objects, path))
        raise CorpusError(path, "the file has no rows")
    if suffix in _OTHER_SUFFIXES:
        raise CorpusError(path, "save it as CSV or .xlsx")
    delimiter, is_quoted = "\t" if layout.delimiter == TAB else layout.delimiter, True
    read: Callable[[], Iterator[tuple[int, list[str]]]]
    if suffix == ".xlsx":
        delimiter, mark, read = delimiter or ",", "\ufeff", partial(_excel_rows, path)
    else:
        encoding = chosen_encoding(path, layout.encoding)
        with reading(path), path.open("rb") as file:
            is_plain = encoding.lower().startswith("utf-8") and file.read(3) != codecs.BOM_UTF8
        mark = "" if is_plain else "\ufeff"
        delimiter = delimiter or _sniffed_delimiter(path, encoding)
        is_quoted = delimiter != "\t" or _is_quoted(path, encoding)
        quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if is_quoted else csv.QUOTE_NONE
        read = partial(csv_rows, path, delimiter=delimiter, encoding=encoding, quoting=quoting)
    number, first = next(((n, fields) for n, fields in read() if any(fields)), (0, []))
    if not first:
        what = "its first sheet" if suffix == ".xlsx" else "the file"
        raise CorpusError(path, f"{what} is empty")
    header = [name.strip() for name in first] if layout.header else []
    columns = _distinct(header) or [str(number) for number in range(1, len(first) + 1)]
    rows = partial(_cells, path, read, delimiter, columns, header=number if layout.header else 0)
    return Table(path, columns, rows, delimiter, header, mark, is_quoted)


def table_paths(path: Path, suffixes: Sequence[str] = SUFFIXES) -> dict[str, Path]:
    """Returns the tables of a folder by the splits they hold: train, val and test.

    They are files with one of ``suffixes``, or folders of texts for every label. A file, or a
    folder without ``train``, is the table of train alone. Raises a CorpusError if a split has two.
    """
    found: dict[str, Path] = {}
    for split in ("train", "val", "test") if is_folder(path) else ():
        paths = [path / f"{split}{suffix}" for suffix in suffixes]
        paths = [p for p in paths if is_file(p)] or [p for p in [path / split] if is_folder(p)]
        if len(paths) > 1:
            raise CorpusError(path, f"{paths[0].name} and {paths[1].name}: keep one of them")
        found |= dict.fromkeys([split], *paths) if paths else {}
    return found if "train" in found else {"train": path}


def _cells(
    path: Path,
    read: Callable[[], Iterator[tuple[int, list[str]]]],
    delimiter: str,
    columns: Sequence[str],
    *,
    header: int,
) -> Records:
    in_csv = f" (delimiter {delimiter!r}): close its quotes, or quote the text"
    advice = ": empty the others, or name them" if path.suffix.lower() == ".xlsx" else in_csv
    for row, fields in read():
        if not fields or row <= header:
            continue
        if len(fields) != len(columns):
            reason = f"the row has {len(fields)} columns, the first one has {len(columns)}{advice}"
            raise row_error(path, row, reason)
        yield row, dict(zip(columns, fields, strict=True))


def _is_quoted(path: Path, encoding: str) -> bool:
    """Returns whether quotes in a file with tabs are those of CSV, not characters of its texts."""
    widths = set[int]()
    try:
        for _, fields in csv_rows(path, delimiter="\t", encoding=encoding):
            widths |= {len(fields)} if fields else set()
            if len(widths) > 1 or any("\t" in field and "\n" in field for field in fields):
                return False
    except CorpusError:
        return False
    return True


def _excel_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yields the rows of the first sheet of an .xlsx file, all of the width of the first one."""
    try:
        from openpyxl import load_workbook
    except ImportError as error:
        reason = "save it as CSV, or install the extra excel (openpyxl), which reads .xlsx"
        raise CorpusError(path, reason) from error
    width = 0
    with reading(path):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about styles, which are not read
                sheet = load_workbook(path, read_only=True, data_only=True).worksheets[0]
            sheet.reset_dimensions()  # some programs write wrong ones
            for row, values in enumerate(sheet.iter_rows(values_only=True), start=1):
                # A date without its midnight.
                cells = ("" if value is None else str(value) for value in values)
                fields = [cell.removesuffix(" 00:00:00") for cell in cells]
                while fields and not fields[-1] and len(fields) != width:
                    fields.pop()
                width = width or len(fields)
                yield row, fields + [""] * (width - len(fields)) if any(fields) else []
        except OSError:
            raise
        except Exception as error:  # of any kind: zip, XML and openpyxl have their own
            raise CorpusError(path, f"not a valid .xlsx file: {shorten(str(error))}") from error


def _objects(path: Path) -> Records:
    for row, line in enumerate(iter_lines(path), start=1):
        if not line.strip():
            continue
        try:
            record = parsed(line)
        except ValueError as error:
            raise row_error(path, row, f"{error}; every line must be one object") from error
        if not isinstance(record, dict):
            raise row_error(path, row, f"{shown(record)} is not a JSON object")
        yield row, record


def _texts(folder: Path, encoding: str | None) -> Records:
    """Yields the texts in a folder that has a folder for every label."""
    for number, path in enumerate(table_files(folder), start=1):
        lines = iter_lines(path, encoding=encoding or encoding_of(path) or "utf-8")
        yield number, {"text": "\n".join(lines), "label": path.parent.name}


def table_files(path: Path) -> list[Path]:
    """Returns the files that hold the rows of a table."""
    return sorted(path.glob("*/*.txt")) if is_folder(path) else [path]


def _sniffed_delimiter(path: Path, encoding: str) -> str:
    """Returns the delimiter that divides the first rows into equal numbers of columns."""

    def rank(delimiter: str) -> tuple[bool, int]:
        counts: list[int] = []
        is_even = True
        rows = csv_rows(path, delimiter=delimiter, encoding=encoding)
        try:
            for _, fields in islice(rows, _SAMPLE_ROWS):
                counts += [len(fields)] if fields else []
        except CorpusError:
            is_even = False
        columns = max(counts, default=1)
        return is_even and min(counts, default=1) == columns > 1, counts[0] if counts else 1

    # The first of equal ones.
    return "\t" if path.suffix.lower() == ".tsv" else max(DELIMITERS, key=rank)


def _distinct(names: Sequence[str]) -> list[str]:
    """Returns ``names`` with ``.1``, ``.2``... after those that occur before, as in pandas."""
    distinct: list[str] = []
    for name in names:
        numbered = (f"{name}.{number}" for number in count(1))
        is_new = name not in distinct
        distinct.append(name if is_new else next(n for n in numbered if n not in distinct))
    return distinct
