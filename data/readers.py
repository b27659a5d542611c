"""Strict readers of corpus files: an error names the file and the line; nothing is skipped."""

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from core.errors import CorpusError
from core.storage.files import reason_of, require_regular_file

MAX_FIELD = 1 << 24  # characters of one field of a CSV file

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LABEL = re.compile(r"\s*-?[0-9]{1,9}\s*", re.ASCII)


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


def read_parallel(source: str | Path, target: str | Path) -> tuple[list[str], list[str]]:
    """Returns the lines of two files that are aligned by line.

    Raises:
        CorpusError: a file is unreadable, not UTF-8 or empty, or has an empty line; or the files
            have different numbers of lines.
    """
    sources, targets = zip(*iter_parallel(source, target), strict=True)
    return list(sources), list(targets)


def iter_parallel(source: str | Path, target: str | Path) -> Iterator[tuple[str, str]]:
    """Yields what :func:`read_parallel` returns, pair by pair; raises at the faulty line."""
    number = 0
    pairs = zip_longest(iter_lines(source), iter_lines(target))
    for number, (first, second) in enumerate(pairs, start=1):
        if first is None or second is None:
            rest = sum(1 for _ in pairs)
            counts = [number - 1 if line is None else number + rest for line in (first, second)]
            raise _not_parallel(source, target, *counts)
        for path, line in ((source, first), (target, second)):
            if not line.strip():
                reason = "empty line: remove it, and the same line of the other file"
                raise CorpusError(path, reason, number)
        yield first, second
    if not number:
        raise CorpusError(source, "the file is empty")


def iter_table(path: str | Path) -> Iterator[tuple[str, str]]:
    """Yields the pairs of a file that has one pair on each line, separated by a tab.

    Raises:
        CorpusError: the file is unreadable, not UTF-8 or empty, or a line has another number of
            tabs, or an empty side; the message names the line.
    """
    number = 0
    for number, line in enumerate(iter_lines(path), start=1):
        first, *others = line.split("\t")
        if len(others) != 1:
            reason = f"{len(others) or 'no'} tabs: write two texts with one tab between them"
            raise CorpusError(path, reason, number)
        if not first.strip() or not others[0].strip():
            raise CorpusError(path, "one side of the tab is empty", number)
        yield first, others[0]
    if not number:
        raise CorpusError(path, "the file is empty")


def read_labeled_csv(path: str | Path, *, num_classes: int | None = None) -> list[Row]:
    """Returns the rows of a CSV file: ``label,title,description``, or ``label,text`` (title "").

    Quoted fields may hold commas, doubled quotes and line ends. All rows have as many columns as
    the first. The first row may be a header; it then begins with ``label`` or ``class``. Labels are
    integers from 1 to ``num_classes``, or without an upper limit if that is None.

    Raises:
        CorpusError: names the file and the line where the faulty row begins.
    """
    return list(iter_labeled_csv(path, num_classes=num_classes))


def iter_labeled_csv(path: str | Path, *, num_classes: int | None = None) -> Iterator[Row]:
    """Yields what :func:`read_labeled_csv` returns, row by row; raises at the faulty row."""
    path = Path(path)
    columns: int | None = None
    is_empty = True
    for line, fields in csv_records(path):
        if not fields:
            raise CorpusError(path, "empty line", line)
        if columns is None:
            if len(fields) not in (2, 3):
                reason = f"{_count(fields)}; expected label,title,description or label,text"
                raise CorpusError(path, reason, line)
            columns = len(fields)
            if fields[0].strip().lower() in ("label", "class"):
                continue
        if len(fields) != columns:
            raise CorpusError(path, f"{_count(fields)}, but the first row has {columns}", line)
        label = _label(path, line, fields[0], num_classes)
        title, description = ("", fields[1]) if columns == 2 else fields[1:]
        if not title.strip() and not description.strip():
            raise CorpusError(path, "the row has no text", line)
        yield Row(label, title, description)
        is_empty = False
    if is_empty:
        raise CorpusError(path, "the file has no rows")


def iter_lines(path: str | Path) -> Iterator[str]:
    """Yields what :func:`read_lines` returns, line by line; raises at the faulty line."""
    return (line.removesuffix("\r") for line in _raw_lines(Path(path)))


def _raw_lines(path: Path) -> Iterator[str]:
    """Yields the lines of a UTF-8 file without line feeds and byte order mark.

    Only a line feed ends a line. ``str.splitlines`` also splits at U+2028, U+0085 and others, which
    occur inside sentences: the two sides of a parallel corpus would no longer be aligned.
    """
    try:
        require_regular_file(path)
        with path.open("rb") as file:
            for number, raw in enumerate(file, start=1):
                if number == 1:
                    raw = raw.removeprefix(_BYTE_ORDER_MARK)
                if raw:
                    yield raw.removesuffix(b"\n").decode("utf-8")
    except OSError as error:
        raise CorpusError(path, f"cannot read: {reason_of(error)}") from error
    except UnicodeDecodeError as error:
        reason = f"not valid UTF-8 (byte 0x{raw[error.start]:02x}): save the file as UTF-8"
        raise CorpusError(path, reason, number) from error


def _not_parallel(
    source: str | Path, target: str | Path, sources: int, targets: int
) -> CorpusError:
    for path, count in ((source, sources), (target, targets)):
        if not count:
            return CorpusError(path, "the file is empty")
    return CorpusError(
        target,
        f"{targets:,} lines, but {source} has {sources:,}: "
        "line n of one must translate line n of the other",
    )


def csv_records(path: Path, *, delimiter: str = ",") -> Iterator[tuple[int, list[str]]]:
    """Yields each record of a CSV file with the number of the line where it begins.

    Raises:
        CorpusError: the file cannot be read, or is not CSV in UTF-8; names the line.
    """
    csv.field_size_limit(MAX_FIELD)
    reader = csv.reader(_csv_lines(path), delimiter=delimiter, strict=True)
    line = 1
    try:
        for fields in reader:
            yield line, fields
            line = reader.line_num + 1
    except csv.Error as error:
        reason = f"not valid CSV: {error} (is a quote not closed?)"
        raise CorpusError(path, reason, line) from error


def _csv_lines(path: Path) -> Iterator[str]:
    for number, line in enumerate(_raw_lines(path), start=1):
        if "\0" in line:
            raise CorpusError(path, "NUL character: not a text file", number)
        yield line + "\n"


def _label(path: Path, line: int, field: str, num_classes: int | None) -> int:
    """Returns the label, counted from 0, of a field that counts from 1."""
    if not _LABEL.fullmatch(field):
        raise CorpusError(path, f"the label {field[:40]!r} is not a whole number", line)
    number = int(field)
    if number < 1 or (num_classes is not None and number > num_classes):
        allowed = f"from 1 to {num_classes}" if num_classes is not None else "1 or more"
        raise CorpusError(path, f"the label {number} is out of range: {allowed}", line)
    return number - 1


def _count(fields: list[str]) -> str:
    return "1 column" if len(fields) == 1 else f"{len(fields)} columns"
