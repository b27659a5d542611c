"""Lines of text: read in chunks, worked on in order, written as whole lines, in constant memory."""

import json
import select
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from io import BufferedReader
from itertools import chain, islice
from pathlib import Path
from typing import Any, cast

from core.errors import UserError
from core.storage.files import atomic_write, is_file, reason_of
from data.readers import chosen_encoding, iter_lines
from tasks.seq2seq.request import ignore_batch

# Large enough to fill batches of sentences of one length, small enough for memory and latency.
# Chunks twice as large need a fifth more memory and are not faster.
CHUNK_LINES = 1000

# When the input pauses this long, the lines read so far are answered at once.
PAUSE_SECONDS = 0.1

MAX_LINE_BYTES = 1 << 24

_BLOCK_BYTES = 1 << 16
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

# Characters that JSON does not escape, but that many readers treat as line breaks.
_ESCAPED_BREAKS = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """Consecutive lines or cells of an input; ``first`` is the number of the first, from 0."""

    first: int
    lines: Sequence[str]
    are_cells: bool = False

    @property
    def texts(self) -> list[str]:
        """The cells, or the lines with a space for every line break inside them."""
        return [*self.lines] if self.are_cells else [one_line(line) for line in self.lines]

    @property
    def numbers(self) -> range:
        """The numbers of the lines in the whole input, from 0."""
        return range(self.first, self.first + len(self.lines))


class LineWork:
    """The lines of an input, in chunks, and the writer of their results.

    A command loops over :meth:`chunks` and calls :meth:`write` once for each of them.

    Args:
        write: writes text, which is always whole lines.
        on_lines: gets the number of lines that have just been finished.
        are_cells: whether they are cells of a table. They and their results keep line breaks, and
            ``write`` gets each result by itself.

    Attributes:
        count: how many lines have been read so far.
        tally: counts of the lines by kind.
    """

    def __init__(
        self,
        chunks: Iterable[Sequence[str]],
        write: Callable[[str], object],
        *,
        on_lines: Callable[[int], None] = ignore_batch,
        are_cells: bool = False,
    ) -> None:
        self.count, self._are_cells = 0, are_cells
        self.tally = Counter[str]()
        self._chunks = chunks
        self._write = write
        self._on_lines = on_lines
        self._unreported = 0

    def chunks(self) -> Iterator[Chunk]:
        """Yields the chunks in order."""
        for lines in self._chunks:
            chunk = Chunk(first=self.count, lines=lines, are_cells=self._are_cells)
            self.count += len(lines)
            self._unreported = len(lines)
            yield chunk
            self.on_batch(self._unreported)

    def on_batch(self, segments: int) -> None:
        """Reports progress: ``segments`` of the texts in the current chunk are finished.

        An empty line has no segments and a long one has several. Every line is reported exactly
        once; lines without a report are reported at the end of their chunk.
        """
        count = min(segments, self._unreported)
        self._unreported -= count
        self._on_lines(count)

    def write(self, lines: Iterable[str]) -> None:
        """Writes the results of the current chunk, with a space for a line break inside a line."""
        if self._are_cells:
            for line in lines:
                self._write(line)
        else:
            self._write("".join(f"{one_line(line)}\n" for line in lines))


def read_chunks(stream: BufferedReader, name: str) -> Iterator[list[str]]:
    """Yields the lines of ``stream`` in chunks, which are smaller when the input pauses.

    Lines end in ``\\n`` or ``\\r\\n``; a byte order mark is dropped. A person at a terminal, or a
    program that waits for the answer to its last line, gets it at once.

    Raises:
        UserError: reading fails, or a line is not UTF-8 or too long (names the line).
    """
    chunk: list[str] = []
    number = 0
    parts: list[bytes] = []  # of the line that has no end yet
    while True:
        try:
            block = stream.read1(_BLOCK_BYTES)
        except OSError as error:
            raise UserError(f"{name}: cannot read: {reason_of(error)}") from error
        if not block:
            break
        first, *others = block.split(b"\n")
        parts.append(first)
        if sum(map(len, parts)) > MAX_LINE_BYTES:
            raise UserError(f"{name}:{number + 1}: a line of more than {MAX_LINE_BYTES:,} bytes")
        if not others:
            continue
        *ended, rest = [b"".join(parts), *others]
        parts = [rest]
        for line in ended:
            number += 1
            chunk.append(_decode(line.removesuffix(b"\r"), name, number))
            if len(chunk) == CHUNK_LINES:
                yield chunk
                chunk = []
        # read1 leaves nothing in the stream's own buffer, so the operating system knows.
        if chunk and not select.select([stream], [], [], PAUSE_SECONDS)[0]:
            yield chunk
            chunk = []
    if rest := b"".join(parts):
        chunk.append(_decode(rest.removesuffix(b"\r"), name, number + 1))
    if chunk:
        yield chunk


Lines = tuple[Iterable[Sequence[str]], int | None]
"""The lines of an input in chunks, and their number (None if it is unknown)."""


@contextmanager
def open_texts(
    texts: Sequence[str], path: Path | None, *, kind: str = "text", encoding: str | None = None
) -> Iterator[Lines]:
    """Opens the given texts, or else the file at ``path``, or else standard input.

    Args:
        kind: what a line contains, for the prompt at a terminal.
        encoding: of the file; None: UTF-8, UTF-16 or cp1252, as its bytes say.

    Raises:
        UserError: the file cannot be opened, or a line of it is no text (names the line).
    """
    if texts:
        yield [texts], None
    elif path is None:
        if sys.stdin.isatty():
            print(f"one {kind} per line; Ctrl-D ends", file=sys.stderr)
        stream = cast(BufferedReader, sys.stdin.buffer)
        yield read_chunks(stream, "standard input"), None
    elif is_file(path):
        lines = partial(iter_lines, path, encoding=chosen_encoding(path, encoding))
        with open_rows(lines()) as (chunks, _):
            yield chunks, sum(1 for _ in lines())
    else:
        if encoding is not None:
            raise UserError(f"{path}: a pipe must be in UTF-8: leave out --encoding")
        try:
            stream = path.open("rb")
        except OSError as error:
            raise UserError(f"{path}: cannot read: {reason_of(error)}") from error
        with stream:
            yield read_chunks(stream, str(path)), None


@contextmanager
def open_table(path: Path | None, *, encoding: str | None = None) -> Iterator[Lines]:
    """Opens the pairs of a file or standard input. Raises a UserError for lines without one tab."""

    def checked(chunks: Iterable[Sequence[str]], name: str) -> Iterator[Sequence[str]]:
        number = 0
        for chunk in chunks:
            for line in chunk:
                number += 1
                if (tabs := line.count("\t")) != 1:
                    raise UserError(
                        f"{name}:{number}: {tabs or 'no'} tabs in this line: it must be a source, "
                        "one tab and its target"
                    )
            yield chunk

    kind = "source, a tab and its target"
    with open_texts((), path, kind=kind, encoding=encoding) as (chunks, total):
        yield checked(chunks, str(path or "standard input")), total


@contextmanager
def open_parallel(source: Path, target: Path, *, encoding: str | None = None) -> Iterator[Lines]:
    """Opens the lines of two files as pairs. A tab inside a text becomes a space.

    Raises:
        UserError: a file cannot be read, or the files differ in their number of lines (names both
            numbers, where lines can be counted beforehand).
    """
    reason = "line n of one file must belong to line n of the other"

    def side_by_side(*sides: Iterable[Sequence[str]]) -> Iterator[Sequence[str]]:
        texts = (chain.from_iterable(chunks) for chunks in sides)
        pairs = ("\t".join(t.replace("\t", " ") for t in pair) for pair in zip(*texts, strict=True))
        try:
            while chunk := list(islice(pairs, CHUNK_LINES)):
                yield chunk
        except ValueError as error:  # of zip
            raise UserError(f"{target} and {source} end at different lines: {reason}") from error

    with (
        open_texts((), source, encoding=encoding) as (sources, count),
        open_texts((), target, encoding=encoding) as (targets, other),
    ):
        if None not in (count, other) and count != other:
            raise UserError(f"{target}: {other:,} lines, but {source} has {count:,}: {reason}")
        yield side_by_side(sources, targets), count


@contextmanager
def open_rows(texts: Iterator[str]) -> Iterator[Lines]:
    """Opens texts from another source than a file of lines."""
    yield iter(lambda: list(islice(texts, CHUNK_LINES)), []), None


@contextmanager
def open_output(path: Path) -> Iterator[Callable[[str], object]]:
    """Yields the writer of a file, which appears after a clean exit, or raises a UserError."""
    with atomic_write(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        yield file.write


def as_json(text: str, record: Mapping[str, Any]) -> str:
    """Returns one JSON object on one line: ``input``, then the contents of ``record``."""
    return json_line({"input": text, **record})


def json_line(record: Mapping[str, Any]) -> str:
    """Returns ``record`` as JSON without any character that a reader may take for a line break."""
    return json.dumps(record, ensure_ascii=False).translate(_ESCAPED_BREAKS)


def one_line(text: str) -> str:
    """Returns ``text`` with a space for every line break of any kind."""
    return " ".join(text.splitlines())


def _decode(line: bytes, name: str, number: int) -> str:
    if number == 1:
        line = line.removeprefix(_BYTE_ORDER_MARK)
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        reason = f"not valid UTF-8 (byte 0x{line[error.start]:02x}): save the text as UTF-8"
        raise UserError(f"{name}:{number}: {reason}") from error
