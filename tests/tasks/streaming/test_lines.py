"""Lines are read, worked on and written in order, in constant memory."""

import errno
import io
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import UserError
from tasks.streaming import lines
from tasks.streaming.lines import (
    CHUNK_LINES,
    MAX_LINE_BYTES,
    Chunk,
    LineWork,
    as_json,
    one_line,
    open_output,
    open_texts,
    read_chunks,
)
from tests.growth import growth

LINE_BREAKS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"


@pytest.fixture
def pipe() -> Iterator[tuple[io.BufferedReader, io.BufferedWriter]]:
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as source, os.fdopen(writer, "wb") as sink:
        yield source, sink


def chunks_of(content: bytes, tmp_path: Path) -> list[list[str]]:
    path = tmp_path / "input"
    path.write_bytes(content)
    with path.open("rb") as stream:
        return list(read_chunks(stream, "input"))


def answer(work: LineWork, results_of: Callable[[Chunk], Sequence[str]]) -> None:
    """Does what a command does."""
    for chunk in work.chunks():
        work.write(results_of(chunk))


def shout(chunk: Chunk) -> list[str]:
    return [text.upper() for text in chunk.texts]


# Reading


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a", ["a"]),
        (b"a\n", ["a"]),
        (b"a\n\nb\n", ["a", "", "b"]),
        (b"a\r\n\r\nb\r", ["a", "", "b"]),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", ["a", "\ufeffb"]),
        ("a\u2028b\x85c\x0bd\n".encode(), ["a\u2028b\x85c\x0bd"]),
        (b"\0\n \n", ["\0", " "]),
    ],
)
def test_a_line_ends_at_a_newline_and_nowhere_else(
    content: bytes, expected: list[str], tmp_path: Path
) -> None:
    assert [line for chunk in chunks_of(content, tmp_path) for line in chunk] == expected


@given(
    texts=st.lists(st.text(st.characters(exclude_characters="\n\r\ufeff", codec="utf-8"))),
    block=st.integers(1, 9),
)
def test_blocks_cut_no_line_and_no_character(texts: list[str], block: int) -> None:
    content = "".join(f"{text}\n" for text in texts).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "_BLOCK_BYTES", block)
        patch.setattr(lines.select, "select", lambda *_: [True])  # there is more, or the end
        stream = cast(io.BufferedReader, io.BytesIO(content))
        assert [line for chunk in read_chunks(stream, "input") for line in chunk] == texts


def test_chunks_are_full_where_there_is_enough(tmp_path: Path) -> None:
    chunks = chunks_of(b"a line\n" * (2 * CHUNK_LINES + 1), tmp_path)
    assert [len(chunk) for chunk in chunks] == [CHUNK_LINES, CHUNK_LINES, 1]


@pytest.mark.parametrize("content", [b"a\nb\n\xffc\nd\n", b"a\nb\nc\xff"])
def test_bytes_that_are_not_utf8_are_named_by_line(content: bytes, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^input:3: not valid UTF-8 \(byte 0xff\)"):
        chunks_of(content, tmp_path)


def test_a_producer_that_pauses_gets_its_answer(
    pipe: tuple[io.BufferedReader, io.BufferedWriter],
) -> None:
    source, sink = pipe
    chunks = read_chunks(source, "pipe")
    for text in ("one", "two"):
        sink.write(f"{text}\nunfinished ".encode())
        sink.flush()
        assert next(chunks)[0].endswith(text)


def test_nothing_is_read_ahead_of_the_answers(
    pipe: tuple[io.BufferedReader, io.BufferedWriter],
) -> None:
    """Each chunk of an endless source is answered before much more of it is read."""
    source, sink = pipe
    written = 0

    def produce() -> None:
        nonlocal written
        with pytest.raises(BrokenPipeError):
            while True:
                written += os.write(sink.fileno(), b"the same line\n" * 1000) // 14

    producer = threading.Thread(target=produce)
    producer.start()
    answered: list[str] = []
    answer(LineWork(islice(read_chunks(source, "pipe"), 50), answered.append), shout)
    ahead = written - 50 * CHUNK_LINES
    source.close()
    producer.join()
    assert "".join(answered) == "THE SAME LINE\n" * (50 * CHUNK_LINES)
    # The pipe's own buffer and one block of ours, in lines of 14 bytes.
    assert ahead <= 3 * (1 << 16) // 14


def test_the_message_about_a_broken_stream_names_it() -> None:
    class Broken(io.RawIOBase):
        def readable(self) -> bool:
            return True

        def readinto(self, buffer: object) -> int:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    with pytest.raises(UserError, match=r"^the tape: cannot read: Input/output error$"):
        next(read_chunks(io.BufferedReader(Broken()), "the tape"))


# Sources of texts


def test_a_file_is_counted_and_read_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "input"
    path.write_text("a\nb\nc")
    with open_texts((), path) as (chunks, total):
        assert (list(chunks), total) == ([["a", "b", "c"]], 3)


@pytest.mark.parametrize(("content", "count"), [(b"", 0), (b"a", 1), (b"a\n", 1), (b"\n\nb", 3)])
def test_lines_are_counted_as_they_are_read(content: bytes, count: int, tmp_path: Path) -> None:
    assert sum(map(len, chunks_of(content, tmp_path))) == count
    with open_texts((), tmp_path / "input") as (_, total):
        assert total == count


def test_standard_input_is_the_default(
    pipe: tuple[io.BufferedReader, io.BufferedWriter], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, sink = pipe
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(source))
    sink.write(b"a\nb\n")
    sink.close()
    with open_texts((), None) as (chunks, total):
        assert (list(chunks), total) == ([["a", "b"]], None)


def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    with (
        pytest.raises(UserError, match=r"none\.txt: cannot read: No such file"),
        open_texts((), tmp_path / "none.txt"),
    ):
        pass


# Working


@pytest.mark.parametrize("line_break", [*LINE_BREAKS, "\r\n"])
def test_line_breaks_in_texts_and_results_are_spaces(line_break: str) -> None:
    seen: list[Chunk] = []

    def results_of(chunk: Chunk) -> Sequence[str]:
        seen.append(chunk)
        return [f"x{line_break}y"]

    written: list[str] = []
    answer(LineWork([[f"a{line_break}b"]], written.append), results_of)
    assert (seen[0].texts, seen[0].lines) == (["a b"], [f"a{line_break}b"])
    assert written == ["x y\n"]


def test_a_text_may_have_several_lines_or_none() -> None:
    written: list[str] = []
    answer(LineWork([["a b", ""], ["", "c"]], written.append), lambda chunk: chunk.lines[0].split())
    assert written == ["a\nb\n", ""]


def test_texts_are_numbered_through_all_chunks() -> None:
    chunks = LineWork([["a", "b"], [], ["c"]], print).chunks()
    assert [list(chunk.numbers) for chunk in chunks] == [[0, 1], [], [2]]


@pytest.mark.parametrize("segments", [[], [1], [2, 2], [1, 1, 1], [7], [1, 9]])
def test_each_line_is_reported_once_however_many_segments_it_has(segments: list[int]) -> None:
    reported: list[int] = []
    work = LineWork([["a", "", "c"]], print, on_lines=reported.append)
    for _ in work.chunks():
        for count in segments:
            work.on_batch(count)
    assert sum(reported) == 3
    assert min(reported) >= 0


# Writing


def test_a_json_line_is_one_line_and_loads_back() -> None:
    text = f'Größe "晚" \t\\ {LINE_BREAKS}'
    line = as_json(text, {"label": text, "score": -0.5})
    assert len(line.splitlines()) == 1
    assert json.loads(line) == {"input": text, "label": text, "score": -0.5}
    assert "Größe" in line and "晚" in line


@given(st.text())
def test_one_line_changes_line_breaks_alone(text: str) -> None:
    line = one_line(text)
    assert len(line.splitlines()) <= 1
    assert line.split() == text.split()


def test_an_output_file_appears_whole(tmp_path: Path) -> None:
    path = tmp_path / "output"
    path.write_text("old")
    with open_output(path) as write:
        write("Größe\n")
        assert path.read_text() == "old"
    assert path.read_bytes() == "Größe\n".encode()


def test_a_line_without_an_end_is_given_up(tmp_path: Path) -> None:
    """``--input /dev/zero`` filled the memory."""
    path = tmp_path / "long"
    path.write_bytes(b"first\n" + b"x" * (MAX_LINE_BYTES + 1))
    with path.open("rb") as stream, pytest.raises(UserError, match="long:2: a line of more than"):
        list(read_chunks(stream, "long"))
    with Path("/dev/zero").open("rb") as zeros, pytest.raises(UserError, match="zeros:1: a line"):
        list(read_chunks(zeros, "zeros"))


def test_reading_a_long_line_is_linear(tmp_path: Path) -> None:
    """The beginning of a line was copied for each block that was read."""
    path = tmp_path / "line"

    def read(size: int) -> None:
        path.write_bytes(b"x" * size)
        with path.open("rb") as stream:
            assert [len(line) for line in next(read_chunks(stream, "line"))] == [size]

    assert growth(read, MAX_LINE_BYTES // 4, MAX_LINE_BYTES, most=12) < 12
