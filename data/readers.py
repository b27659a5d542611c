"""Strict readers of corpus files: an error names the file and the place; nothing is skipped."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from core.errors import CorpusError
from core.storage.files import reason_of, require_regular_file

MAX_FIELD = 1 << 24  # characters of one field of a CSV file

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_CHUNK_ROWS = 1000
_LABEL = re.compile(r"\s*-?[0-9]{1,9}\s*", re.ASCII)


class TextPair(NamedTuple):
    """A text and its translation, or the two lines of a couplet."""

    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Row:
    """One labeled text. ``label`` counts from 0; files count from 1."""

    label: int
    title: str
    description: str


def read_lines(path: str | Path) -> list[str]:
    """Returns the lines of a UTF-8 text file without their ends (``\\n`` or ``\\r\\n``).

    A byte order mark is dropped. An empty file has no lines.

    Raises:
        CorpusError: the file cannot be read, is not a regular file, or is not UTF-8.
    """
    return list(iter_lines(path))


def iter_lines(path: str | Path) -> Iterator[str]:
    """Yields what :func:`read_lines` returns, line by line; raises at the faulty line.

    Only a line feed ends a line. ``str.splitlines`` also splits at U+2028, U+0085 and others, which
    occur inside sentences: the two sides of a parallel corpus would no longer be aligned.
    """
    path = Path(path)
    try:
        require_regular_file(path)
        with path.open("rb") as file:
            for number, raw in enumerate(file, start=1):
                if number == 1:
                    raw = raw.removeprefix(_BYTE_ORDER_MARK)
                if raw:
                    yield raw.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
    except OSError as error:
        raise CorpusError(path, f"cannot read: {reason_of(error)}") from error
    except UnicodeDecodeError as error:
        raise CorpusError(path, _not_utf8(raw[error.start]), number) from error


def read_parallel(source: str | Path, target: str | Path) -> list[TextPair]:
    """Returns the lines of two files that are aligned by line.

    Raises:
        CorpusError: a file is unreadable, not UTF-8 or empty, or has an empty line; or the files
            have different numbers of lines.
    """
    sides = {path: read_lines(path) for path in (source, target)}
    for path, lines in sides.items():
        if not lines:
            raise CorpusError(path, "the file is empty")
    first, second = sides[source], sides[target]
    if len(first) != len(second):
        raise CorpusError(
            target,
            f"{len(second):,} lines, but {source} has {len(first):,}: "
            "line n of one must translate line n of the other",
        )
    for path, lines in sides.items():
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                reason = "empty line: remove it, and the same line of the other file"
                raise CorpusError(path, reason, number)
    return [*map(TextPair, first, second)]


def read_tabbed(path: str | Path) -> list[TextPair]:
    """Returns the pairs of a file that has one pair on each line, separated by a tab.

    Raises:
        CorpusError: the file is unreadable, not UTF-8 or empty, or a line has another number of
            tabs, or an empty side; the message names the line.
    """
    pairs = []
    for number, line in enumerate(iter_lines(path), start=1):
        texts = line.split("\t")
        if len(texts) != 2:
            reason = f"{len(texts) - 1 or 'no'} tabs: write two texts with one tab between them"
            raise CorpusError(path, reason, number)
        if not all(text.strip() for text in texts):
            raise CorpusError(path, "one side of the tab is empty", number)
        pairs.append(TextPair(*texts))
    if not pairs:
        raise CorpusError(path, "the file is empty")
    return pairs


def read_labeled_csv(path: str | Path, *, num_classes: int | None = None) -> list[Row]:
    """Returns the rows of a CSV file: ``label,title,description``, or ``label,text`` (title "").

    Quoted fields may hold commas, doubled quotes and line ends. All rows have as many columns as
    the first. The first row may be a header; it then begins with ``label`` or ``class``. Labels are
    integers from 1 to ``num_classes``, or without an upper limit if that is None.

    Raises:
        CorpusError: names the file and the row.
    """
    path = Path(path)
    rows = []
    columns = 0
    for number, fields in csv_rows(path):
        columns = columns or len(fields)
        if columns not in (2, 3):
            reason = f"{_columns(fields)}; expected label,title,description or label,text"
            raise row_error(path, number, reason)
        if len(fields) != columns:
            reason = f"{_columns(fields)}, but the first row has {columns}"
            raise row_error(path, number, reason)
        label, *title, text = fields
        if number == 1 and label.strip().lower() in ("label", "class"):
            continue
        if not "".join(fields[1:]).strip():
            raise row_error(path, number, "the row has no text")
        if not _LABEL.fullmatch(label):
            raise row_error(path, number, f"the label {label[:40]!r} is not a whole number")
        if not 0 < int(label) <= (num_classes or int(label)):
            allowed = "1 or more" if num_classes is None else f"from 1 to {num_classes}"
            raise row_error(path, number, f"the label {int(label)} is out of range: {allowed}")
        rows.append(Row(int(label) - 1, "".join(title), text))
    if not rows:
        raise CorpusError(path, "the file has no rows")
    return rows


def csv_rows(path: Path, *, delimiter: str = ",") -> Iterator[tuple[int, list[str]]]:
    """Yields the rows of a CSV file with their numbers, from 1; a blank line has no fields.

    Raises:
        CorpusError: the file cannot be read, or a row is not CSV in UTF-8.
    """
    from pandas import read_csv
    from pandas.errors import EmptyDataError

    row = 0
    csv.field_size_limit(MAX_FIELD)
    try:
        require_regular_file(path)
        # The engine in C fills short rows with empty fields, this one with missing values.
        with read_csv(
            path,
            sep=delimiter,
            header=None,
            dtype=object,
            keep_default_na=False,
            skip_blank_lines=False,
            chunksize=_CHUNK_ROWS,
            engine="python",
            encoding="utf-8-sig",
            encoding_errors="surrogateescape",
        ) as chunks:
            for chunk in chunks:
                for cells in chunk.itertuples(index=False, name=None):
                    row += 1
                    fields = [cell for cell in cells if isinstance(cell, str)]
                    _check_characters(path, row, "".join(fields))
                    yield row, fields
    except EmptyDataError:
        return
    except OSError as error:
        raise CorpusError(path, f"cannot read: {reason_of(error)}") from error
    except (csv.Error, ValueError) as error:
        reason = f"not valid CSV: {error} (is a quote not closed?)"
        raise row_error(path, _faulty_row(path, delimiter), reason) from error


def row_error(path: Path, row: int, reason: str) -> CorpusError:
    """Returns the error for a row, which may have several lines."""
    return CorpusError(path, f"row {row}: {reason}")


def _faulty_row(path: Path, delimiter: str) -> int:
    """Returns the first row that is not valid, or longer than the first: pandas does not say it."""
    row = most = 0
    with suppress(csv.Error), path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        for row, fields in enumerate(csv.reader(file, delimiter=delimiter, strict=True), start=1):
            most = most or len(fields)
            if len(fields) > most:
                return row
    return row + 1


def _check_characters(path: Path, row: int, text: str) -> None:
    """Raises a CorpusError if a row is no text, or had bytes that are not UTF-8."""
    if "\0" in text:
        raise row_error(path, row, "NUL character: not a text file")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise row_error(path, row, _not_utf8(ord(text[error.start]) & 0xFF)) from error


def _not_utf8(byte: int) -> str:
    return f"not valid UTF-8 (byte 0x{byte:02x}): save the file as UTF-8"


def _columns(fields: list[str]) -> str:
    return "1 column" if len(fields) == 1 else f"{len(fields)} columns"
