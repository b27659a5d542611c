"""Corpus files to Python, strictly: what is wrong is named by file and line, never skipped."""

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from transformer_suite.core.errors import CorpusError
from transformer_suite.core.storage.files import reason_of

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_WHOLE_NUMBER = re.compile(r"\s*-?[0-9]{1,9}\s*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Row:
    """One labelled text. `label` counts from 0, though files count from 1."""

    label: int
    title: str
    description: str


def read_lines(path: str | Path) -> list[str]:
    """The lines of a UTF-8 text file, without their ends (`\\n` or `\\r\\n`, nothing else).

    A byte order mark is dropped. An empty file has no lines.

    Raises:
        CorpusError: the file cannot be read, or is not UTF-8 (names the line).
    """
    return list(iter_lines(path))


def iter_lines(path: str | Path) -> Iterator[str]:
    """What :func:`read_lines` returns, line by line."""
    return (line.removesuffix("\r") for line in _raw_lines(Path(path)))


def read_parallel(source: str | Path, target: str | Path) -> tuple[list[str], list[str]]:
    """Two files aligned by line.

    Raises:
        CorpusError: unreadable, not UTF-8, no lines, an empty line, or not equally many lines.
    """
    sources, targets = zip(*iter_parallel(source, target), strict=True)
    return list(sources), list(targets)


def iter_parallel(source: str | Path, target: str | Path) -> Iterator[tuple[str, str]]:
    """What :func:`read_parallel` returns, pair by pair; errors come when they are reached."""
    pairs = zip_longest(iter_lines(source), iter_lines(target))
    number = 0
    for number, (first, second) in enumerate(pairs, start=1):
        if first is None or second is None:
            rest = sum(1 for _ in pairs)
            counts = [number - 1 if line is None else number + rest for line in (first, second)]
            raise _not_parallel(source, target, *counts)
        for path, line in ((source, first), (target, second)):
            if not line.strip():
                raise CorpusError(path, "empty line: remove it and its pair in the other", number)
        yield first, second
    if not number:
        raise CorpusError(source, "the file is empty")


def read_labelled_csv(path: str | Path, *, num_classes: int | None = None) -> list[Row]:
    """Rows `label,title,description` or `label,text` (the title is "" then), as real CSV.

    Fields may be quoted and hold commas, doubled quotes and line ends. The first row tells how
    many columns there are; it may be a header, which begins with `label` or `class`. Labels are
    whole numbers from 1 to `num_classes` (any from 1 when that is None).

    Raises:
        CorpusError: names the file and the line on which the offending row begins.
    """
    return list(iter_labelled_csv(path, num_classes=num_classes))


def iter_labelled_csv(path: str | Path, *, num_classes: int | None = None) -> Iterator[Row]:
    """What :func:`read_labelled_csv` returns, row by row; errors come when they are reached."""
    path = Path(path)
    columns: int | None = None
    is_empty = True
    for line, fields in _csv_records(path):
        if not fields:
            raise CorpusError(path, "empty line", line)
        if columns is None:
            if len(fields) not in (2, 3):
                raise CorpusError(
                    path,
                    f"{_count(fields)}; expected label,title,description or label,text",
                    line,
                )
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


def _raw_lines(path: Path) -> Iterator[str]:
    """The lines of a UTF-8 file without their line feeds and without a byte order mark.

    Line feeds alone end a line: U+2028, U+0085 and others, at which `str.splitlines` splits too,
    occur inside sentences, and would shift one side of a parallel corpus against the other.
    """
    try:
        with path.open("rb") as file:
            for number, raw in enumerate(file, start=1):
                if number == 1:
                    raw = raw.removeprefix(_BYTE_ORDER_MARK)
                if raw:
                    yield _decode(path, number, raw.removesuffix(b"\n"))
    except OSError as error:
        raise CorpusError(path, f"cannot read: {reason_of(error)}") from error


def _decode(path: Path, number: int, line: bytes) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        byte = line[error.start]
        raise CorpusError(
            path, f"not valid UTF-8 (byte 0x{byte:02x}): save the file as UTF-8", number
        ) from error


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


def _csv_records(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Each record with the line it begins on."""
    reader = csv.reader(_csv_lines(path), strict=True)
    while True:
        line = reader.line_num + 1
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            reason = f"not valid CSV: {error} (is a quote not closed?)"
            raise CorpusError(path, reason, line) from error
        yield line, fields


def _csv_lines(path: Path) -> Iterator[str]:
    for number, line in enumerate(_raw_lines(path), start=1):
        if "\0" in line:
            raise CorpusError(path, "a NUL character: not a text file", number)
        yield line + "\n"


def _label(path: Path, line: int, field: str, num_classes: int | None) -> int:
    """The 0-based label that `field` holds 1-based."""
    if not _WHOLE_NUMBER.fullmatch(field):
        raise CorpusError(path, f"the label {field[:40]!r} is not a whole number", line)
    number = int(field)
    if number < 1 or (num_classes is not None and number > num_classes):
        allowed = f"from 1 to {num_classes}" if num_classes is not None else "1 or more"
        raise CorpusError(path, f"the label {number} is out of range: {allowed}", line)
    return number - 1


def _count(fields: list[str]) -> str:
    return "1 column" if len(fields) == 1 else f"{len(fields)} columns"
