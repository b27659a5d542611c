"""Strict readers of text files: an error names the file and the place; nothing is skipped."""

import codecs
import csv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TextIO

from core.errors import CorpusError
from core.progress import log
from core.storage.files import reason_of, require_regular_file

UTF8 = "utf-8-sig"  # with or without a byte order mark
MAX_FIELD = 1 << 24  # characters of one field of a CSV file
_SAMPLE = 4096  # bytes, an even number

# Bytes that have no meaning in cp1252, or next to none. Other encodings are full of them.
_NOT_CP1252 = frozenset(b"\x81\x8d\x8f\x90\x9d\xff")


def encoding_of(path: Path) -> str | None:
    """Returns the encoding that the bytes of a file suggest: UTF-8, UTF-16, cp1252 or none.

    A file is taken for UTF-16 if it begins with its mark, or if many of the even or the odd bytes
    are 0; and for cp1252, of Windows, if no line with accents is valid UTF-8, and accents are few.
    """
    others = count = 0
    found: set[int] = set()
    with reading(path), path.open("rb") as file:
        start = file.read(_SAMPLE)
        if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return "utf-16"
        even, odd = start[::2].count(0), start[1::2].count(0)
        if 4 * max(even, odd) > len(start) and min(even, odd) == 0:
            return "utf-16-be" if even else "utf-16-le"
        file.seek(0)
        for line in file:
            count += len(line)
            if not line.isascii():
                try:
                    line.decode()
                    return UTF8
                except UnicodeDecodeError:
                    high = [byte for byte in line if byte > 127]
                    others += len(high)
                    found.update(high)
    if not found:
        return UTF8
    return "cp1252" if not found & _NOT_CP1252 and 3 * others < count else None


def chosen_encoding(path: Path, named: str | None = None) -> str:
    """Returns the encoding ``named`` by the user, or else :func:`encoding_of`; logs a guess."""
    if named is not None:
        return UTF8 if codecs.lookup(named).name == "utf-8" else named
    encoding = encoding_of(path)
    if encoding is None:
        log(f"{path}: neither UTF-8 nor cp1252: name its encoding")
    elif encoding not in (UTF8, "utf-16"):
        log(f"{path}: not UTF-8, and read as {encoding}, an encoding of Windows")
    return encoding or UTF8


def iter_lines(path: str | Path, *, encoding: str = UTF8) -> Iterator[str]:
    """Yields the lines of a text file without their ends (``\\n`` or ``\\r\\n``).

    A byte order mark is dropped. Only a line feed ends a line. ``str.splitlines`` also splits at
    U+2028, U+0085 and others, which occur inside sentences: the two sides of a parallel corpus
    would no longer be aligned. Raises a CorpusError for a line that is not in the encoding.
    """
    with _opened(path, encoding, newline="\n") as file:
        for number, line in enumerate(file, start=1):
            if reason := _fault(line, encoding):
                raise CorpusError(path, reason, number)
            yield line.removesuffix("\n").removesuffix("\r")


def csv_rows(
    path: Path,
    *,
    delimiter: str = ",",
    encoding: str = UTF8,
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL,
) -> Iterator[tuple[int, list[str]]]:
    """Yields the rows of a CSV file, numbered from 1. Raises a CorpusError if one is not CSV."""
    row = 0
    csv.field_size_limit(MAX_FIELD)
    with _opened(path, encoding, newline="") as file:
        try:
            rows = csv.reader(file, delimiter=delimiter, quoting=quoting, strict=True)
            for row, fields in enumerate(rows, start=1):
                if reason := _fault("".join(fields), encoding):
                    raise row_error(path, row, reason)
                yield row, fields
        except csv.Error as error:
            reason = f"not valid CSV: {error} (is a quote not closed?)"
            raise row_error(path, row + 1, reason) from error


def row_error(path: Path, row: int, reason: str) -> CorpusError:
    """Returns the error for a row, which may have several lines."""
    return CorpusError(path, f"row {row}: {reason}")


@contextmanager
def reading(path: str | Path) -> Iterator[None]:
    """Checks that ``path`` is a regular file; errors of the system become CorpusErrors."""
    try:
        require_regular_file(path)
        yield
    except OSError as error:
        raise CorpusError(path, f"cannot read: {reason_of(error)}") from error


@contextmanager
def _opened(path: str | Path, encoding: str, *, newline: str) -> Iterator[TextIO]:
    """Opens a text. Bytes that are not of its encoding become surrogates: see :func:`_fault`."""
    with (
        reading(path),
        Path(path).open(encoding=encoding, errors="surrogateescape", newline=newline) as file,
    ):
        try:
            yield file
        except UnicodeError as error:
            raise CorpusError(path, f"not valid {encoding}: save the file as UTF-8") from error


def _fault(text: str, encoding: str) -> str:
    """Returns what is wrong with a line or a row, or "" for a text."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        byte, name = ord(text[error.start]) & 0xFF, "UTF-8" if encoding == UTF8 else encoding
        return f"not valid {name} (byte 0x{byte:02x}): save the file as UTF-8"
    return "NUL character: not a text file" if "\0" in text else ""
