"""Corpus files to Python, strictly: what is wrong is named by file and line, never skipped."""

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from core.errors import CorpusError
from core.files import reason_of

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
    # Not str.splitlines: it also splits at U+2028, U+0085 and others, which occur inside sentences
    # and would shift one side of a parallel corpus against the other.
    lines = _read_text(Path(path)).split("\n")
    if lines[-1] == "":
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def read_parallel(source: str | Path, target: str | Path) -> tuple[list[str], list[str]]:
    """Two files aligned by line.

    Raises:
        CorpusError: unreadable, not UTF-8, no lines, an empty line, or not equally many lines.
    """
    sides = read_lines(source), read_lines(target)
    for path, lines in zip((source, target), sides, strict=True):
        if not lines:
            raise CorpusError(path, "the file is empty")
    if len(sides[0]) != len(sides[1]):
        raise CorpusError(
            target,
            f"{len(sides[1]):,} lines, but {source} has {len(sides[0]):,}: "
            "line n of one must translate line n of the other",
        )
    for path, lines in zip((source, target), sides, strict=True):
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                raise CorpusError(path, "empty line: remove it and its pair in the other", number)
    return sides


def read_labelled_csv(path: str | Path, *, num_classes: int | None = None) -> list[Row]:
    """Rows `label,title,description` or `label,text` (the title is "" then), as real CSV.

    Fields may be quoted and hold commas, doubled quotes and line ends. The first row tells how
    many columns there are; it may be a header, which begins with `label` or `class`. Labels are
    whole numbers from 1 to `num_classes` (any from 1 when that is None).

    Raises:
        CorpusError: names the file and the line on which the offending row begins.
    """
    path = Path(path)
    rows: list[Row] = []
    columns: int | None = None
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
        rows.append(Row(label, title, description))
    if not rows:
        raise CorpusError(path, "the file has no rows")
    return rows


def _read_text(path: Path) -> str:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise CorpusError(path, f"cannot read: {reason_of(error)}") from error
    try:
        return content.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        byte = content[error.start]
        raise CorpusError(
            path, f"not valid UTF-8 (byte 0x{byte:02x}): save the file as UTF-8", line
        ) from error


def _csv_records(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Each record with the line it begins on."""
    text = _read_text(path)
    if (nul := text.find("\0")) >= 0:
        raise CorpusError(path, "a NUL character: not a text file", text.count("\n", 0, nul) + 1)
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    reader = csv.reader((line + "\n" for line in lines), strict=True)
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
