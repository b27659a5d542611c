"""Lines through a predictor: in their order, any number of them, in constant memory."""

from __future__ import annotations

import json
import os
import select
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from io import BufferedReader
from pathlib import Path
from typing import Any, Protocol, cast

from transformer_suite.core.errors import UserError
from transformer_suite.core.storage.files import atomic_write, reason_of

# Enough lines to fill batches of one length each, few enough to hold and to wait for. With twice as
# many the peak of memory is a fifth higher, and no line comes sooner.
CHUNK_LINES = 1000

# Input that pauses for so long has someone waiting for the answer at its other end.
PAUSE_SECONDS = 0.1

_BLOCK_BYTES = 1 << 16
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

# What JSON leaves as it is, though many readers take it for the end of a line.
_ESCAPED_BREAKS = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}


class Predict(Protocol):
    """From texts, and their numbers among all texts, from 0, to a result each.

    It tells ``on_batch`` how many pieces of text it has finished.
    """

    def __call__(
        self, texts: Sequence[str], *, numbers: Sequence[int], on_batch: Callable[[int], None]
    ) -> Sequence[Any]: ...


ChunkLines = Callable[[int | None], int]
"""From the number of lines of a file, if it is known, to the number that are taken at a time."""


def full_chunks(total: int | None) -> int:
    """Chunks for one process that answers all of them."""
    return CHUNK_LINES


def ignore(count: int) -> None:
    """What those do who need not hear how the work goes on."""


def answer(
    chunks: Iterable[Sequence[str]],
    predict: Predict,
    show: Callable[[str, Any], Iterable[str]],
    write: Callable[[str], object],
    *,
    on_lines: Callable[[int], None] = ignore,
) -> None:
    """Writes the lines of every text, chunk by chunk.

    Args:
        show: the lines for a text and its result; a line break in one counts as a space.
        write: gets whole lines.
        on_lines: told how many texts have just been finished.
    """
    done = 0
    for chunk in chunks:
        write(answer_chunk(chunk, predict, show, first=done, on_lines=on_lines))
        done += len(chunk)


def answer_chunk(
    chunk: Sequence[str],
    predict: Predict,
    show: Callable[[str, Any], Iterable[str]],
    *,
    first: int,
    on_lines: Callable[[int], None] = ignore,
) -> str:
    """The lines that :func:`answer` writes for one chunk, together.

    Args:
        first: the number of its first text among all texts, from 0.
    """
    numbers = range(first, first + len(chunk))
    results = _predict_chunk(chunk, partial(predict, numbers=numbers), on_lines)
    shown = (show(text, result) for text, result in zip(chunk, results, strict=True))
    return "".join(f"{one_line(line)}\n" for lines in shown for line in lines)


def unnumbered(predict: Callable[..., Sequence[Any]]) -> Predict:
    """``predict``, to which it is all one which of all texts it is given."""

    def predict_any(
        texts: Sequence[str], *, numbers: Sequence[int], **options: Any
    ) -> Sequence[Any]:
        return predict(texts, **options)

    return predict_any


def read_chunks(stream: BufferedReader, name: str, size: int = CHUNK_LINES) -> Iterator[list[str]]:
    """The lines of ``stream``, ``size`` at a time, fewer where the input pauses.

    Lines end in ``\\n`` or ``\\r\\n``; a byte order mark is dropped. A person at a terminal, or a
    program that waits for the answer to its last line, gets it at once.

    Args:
        name: what error messages call the stream.

    Raises:
        UserError: reading fails, or a line is not UTF-8 (names the line).
    """
    chunk: list[str] = []
    number, rest = 0, b""
    while block := _read_block(stream, name):
        *ended, rest = (rest + block).split(b"\n")
        for line in ended:
            number += 1
            chunk.append(_decode(line.removesuffix(b"\r"), name, number))
            if len(chunk) == size:
                yield chunk
                chunk = []
        if chunk and not _has_more(stream):
            yield chunk
            chunk = []
    if rest:
        chunk.append(_decode(rest.removesuffix(b"\r"), name, number + 1))
    if chunk:
        yield chunk


@contextmanager
def open_texts(
    texts: Sequence[str],
    path: Path | None,
    *,
    chunk_lines: ChunkLines = full_chunks,
    kind: str = "text",
) -> Iterator[tuple[Iterable[Sequence[str]], int | None]]:
    """The given texts, or else the lines at ``path``, or else those of standard input.

    Yields them in chunks, and how many lines a file has.

    Args:
        chunk_lines: decides about the size of the chunks.
        kind: what a line holds, for the person at a terminal.

    Raises:
        UserError: the file cannot be opened.
    """
    if texts:
        yield [texts], None
    elif path is None:
        if sys.stdin.isatty():
            print(f"one {kind} a line; Ctrl-D ends", file=sys.stderr)
        stream = cast(BufferedReader, sys.stdin.buffer)
        yield read_chunks(stream, "standard input", chunk_lines(None)), None
    else:
        with _open(path) as stream:
            total = count_lines(stream)
            yield read_chunks(stream, str(path), chunk_lines(total)), total


@contextmanager
def open_output(path: Path) -> Iterator[Callable[[str], object]]:
    """A function that writes to ``path``, which is there, whole, only after a clean exit.

    Raises:
        UserError: it cannot be written.
    """
    with (
        atomic_write(path) as temporary,
        temporary.open("w", encoding="utf-8", newline="") as file,
    ):
        yield file.write


def count_lines(stream: BufferedReader) -> int | None:
    """How many lines are to come, if that can be known: of a file, not of a pipe."""
    if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
        return None
    count, last = 0, b"\n"
    while block := stream.read(_BLOCK_BYTES):
        count, last = count + block.count(b"\n"), block[-1:]
    stream.seek(0)
    return count + (last != b"\n")


def as_json(text: str, record: Mapping[str, Any]) -> str:
    """One JSON object on one line: ``input``, then what ``record`` holds."""
    return json_line({"input": text, **record})


def json_line(record: Mapping[str, Any]) -> str:
    """``record`` as one JSON object on one line, whatever its texts hold."""
    return json.dumps(record, ensure_ascii=False).translate(_ESCAPED_BREAKS)


def one_line(text: str) -> str:
    """``text`` with a space for every line break, of whatever kind."""
    return " ".join(text.splitlines())


def _predict_chunk(
    chunk: Sequence[str], predict: Callable[..., Sequence[Any]], on_lines: Callable[[int], None]
) -> Sequence[Any]:
    """The results for one chunk; ``on_lines`` hears of every one of its lines exactly once."""
    left = len(chunk)

    def on_batch(pieces: int) -> None:
        # Empty lines have no pieces, and long ones have several.
        nonlocal left
        count = min(pieces, left)
        left -= count
        on_lines(count)

    results = predict([one_line(text) for text in chunk], on_batch=on_batch)
    on_lines(left)
    return results


def _open(path: Path) -> BufferedReader:
    try:
        return path.open("rb")
    except OSError as error:
        raise UserError(f"{path}: cannot read: {reason_of(error)}") from error


def _read_block(stream: BufferedReader, name: str) -> bytes:
    """What is there, after waiting for something to be; nothing at the end."""
    try:
        return stream.read1(_BLOCK_BYTES)
    except OSError as error:
        raise UserError(f"{name}: cannot read: {reason_of(error)}") from error


def _has_more(stream: BufferedReader) -> bool:
    """Whether more input, or its end, comes before the pause is too long."""
    # read1 keeps nothing back in the stream's buffer, so the operating system knows.
    return bool(select.select([stream], [], [], PAUSE_SECONDS)[0])


def _decode(line: bytes, name: str, number: int) -> str:
    if number == 1:
        line = line.removeprefix(_BYTE_ORDER_MARK)
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        byte = line[error.start]
        raise UserError(
            f"{name}:{number}: not valid UTF-8 (byte 0x{byte:02x}): save the text as UTF-8"
        ) from error
