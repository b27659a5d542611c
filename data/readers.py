"""Strict readers of corpus files: an error names the file and the place; nothing is skipped."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TextIO

from core.errors import CorpusError
from core.storage.files import reason_of, require_regular_file

MAX_FIELD = 1 << 24  # characters of one field of a CSV file

_UTF8 = "utf-8-sig"  # with or without a byte order mark


class TextPair(NamedTuple):
    """A text and its translation, or the two lines of a couplet."""

    source: str
    target: str


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
    with _opened(path, newline="\n") as file:
        for number, line in enumerate(file, start=1):
            if reason := _fault(line):
                raise CorpusError(path, reason, number)
            yield line.removesuffix("\n").removesuffix("\r")


def read_parallel(source: str | Path, target: str | Path) -> list[TextPair]:
    """Returns the lines of two files that are aligned by line.

    Raises:
        CorpusError: a file is unreadable, not UTF-8 or empty, or has an empty line; or the files
            have different numbers of lines.
    """
    first, second = read_lines(source), read_lines(target)
    for path, lines in ((source, first), (target, second)):
        if not lines:
            raise CorpusError(path, "the file is empty")
    if len(first) != len(second):
        raise CorpusError(
            target,
            f"{len(second):,} lines, but {source} has {len(first):,}: "
            "line n of one must translate line n of the other",
        )
    for path, lines in ((source, first), (target, second)):
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


def csv_rows(path: Path, *, delimiter: str = ",") -> Iterator[tuple[int, list[str]]]:
    """Yields the rows of a CSV file with their numbers, from 1; a blank line has no fields.

    Raises:
        CorpusError: the file cannot be read, or a row is not CSV in UTF-8.
    """
    row = 0
    csv.field_size_limit(MAX_FIELD)
    with _opened(path, newline="") as file:
        try:
            for row, fields in enumerate(csv.reader(file, delimiter=delimiter, strict=True), 1):
                if reason := _fault("".join(fields)):
                    raise row_error(path, row, reason)
                yield row, fields
        except csv.Error as error:
            reason = f"not valid CSV: {error} (is a quote not closed?)"
            raise row_error(path, row + 1, reason) from error


def row_error(path: Path, row: int, reason: str) -> CorpusError:
    """Returns the error for a row, which may have several lines."""
    return CorpusError(path, f"row {row}: {reason}")


@contextmanager
def _opened(path: str | Path, *, newline: str) -> Iterator[TextIO]:
    """Opens a text. Bytes that are not UTF-8 become surrogates: see :func:`_fault`."""
    try:
        require_regular_file(path)
        with Path(path).open(encoding=_UTF8, errors="surrogateescape", newline=newline) as file:
            yield file
    except OSError as error:
        raise CorpusError(path, f"cannot read: {reason_of(error)}") from error


def _fault(text: str) -> str:
    """Returns what is wrong with a line or a row, or "" for a text."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        byte = ord(text[error.start]) & 0xFF
        return f"not valid UTF-8 (byte 0x{byte:02x}): save the file as UTF-8"
    return "NUL character: not a text file" if "\0" in text else ""
