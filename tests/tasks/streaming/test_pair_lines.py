"""Pairs as lines, from two files or from one."""

import io
import os
import sys
from collections.abc import Iterator
from itertools import chain, count, islice
from pathlib import Path

import pytest

from core.errors import UserError
from tasks.streaming.lines import CHUNK_LINES, open_parallel, open_table


def written(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


def table_of(path: Path) -> list[str]:
    with open_table(path) as (chunks, _):
        return list(chain.from_iterable(chunks))


def parallel_of(source: Path, target: Path) -> list[str]:
    with open_parallel(source, target) as (chunks, _):
        return list(chain.from_iterable(chunks))


# One file


def test_a_line_is_a_source_a_tab_and_its_target(tmp_path: Path) -> None:
    path = written(tmp_path / "pairs.tsv", "\ufeffein Hund\ta dog\r\n\t\nein \u2028 Ball\t")
    with open_table(path) as (chunks, total):
        assert total == 3
        lines = list(chain.from_iterable(chunks))
    assert lines == ["ein Hund\ta dog", "\t", "ein \u2028 Ball\t"]


@pytest.mark.parametrize(("line", "tabs"), [("ein Hund", "no"), ("", "no"), ("a\tb\tc", "2")])
def test_a_line_without_exactly_one_tab_is_named(line: str, tabs: str, tmp_path: Path) -> None:
    path = written(tmp_path / "pairs.tsv", "a\tb\n" * (CHUNK_LINES + 1) + f"{line}\na\tb\n")
    with pytest.raises(UserError, match=rf"pairs\.tsv:{CHUNK_LINES + 2}: {tabs} tabs in this line"):
        table_of(path)


def test_standard_input_is_a_table_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as source, os.fdopen(writer, "wb") as sink:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(source))
        sink.write(b"a\tb\nc\n")
        sink.close()
        with (
            pytest.raises(UserError, match=r"^standard input:2: no tabs in this line"),
            open_table(None) as (chunks, total),
        ):
            assert total is None
            list(chunks)


# Two files


def test_two_files_are_paired_line_by_line(tmp_path: Path) -> None:
    source = written(tmp_path / "a.de", "\ufeffein Hund\r\n\nein\tBall")
    target = written(tmp_path / "a.en", "a dog\na cat\n\n")
    with open_parallel(source, target) as (chunks, total):
        assert total == 3
        lines = list(chain.from_iterable(chunks))
    assert lines == ["ein Hund\ta dog", "\ta cat", "ein Ball\t"]


def test_files_of_different_lengths_are_refused_with_both_lengths(tmp_path: Path) -> None:
    """Lines are counted before anything is read."""
    source = written(tmp_path / "a.de", "x\n" * 1200)
    target = written(tmp_path / "a.en", "\xff\n" * 1199)
    with pytest.raises(UserError, match=r"a\.en: 1,199 lines, but .*a\.de has 1,200: line n"):
        parallel_of(source, target)


@pytest.mark.parametrize(("longer", "shorter"), [("source", "target"), ("target", "source")])
def test_pipes_of_different_lengths_are_refused_where_one_ends(
    longer: str, shorter: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.streaming.lines.is_file", lambda path: False)
    paths = {
        longer: written(tmp_path / "long", "a\nb\nc\n"),
        shorter: written(tmp_path / "s", "a\n"),
    }
    with pytest.raises(UserError, match=r"(s|long) and .*(s|long) end at different lines: line"):
        parallel_of(paths["source"], paths["target"])


def test_bytes_that_are_not_utf8_are_named_by_file_and_line(tmp_path: Path) -> None:
    source = written(tmp_path / "a.de", "a\nb\nc\n")
    target = tmp_path / "a.en"
    target.write_bytes(b"a\n\xff\nc\n")
    with pytest.raises(UserError, match=r"a\.en:2: not valid UTF-8"):
        parallel_of(source, target)


def test_endless_files_are_read_a_chunk_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = 0

    def endless(*rest: object) -> Iterator[list[str]]:
        nonlocal read
        for number in count():
            read = number + 1
            yield [f"line {number}"]

    path = written(tmp_path / "a", "")
    monkeypatch.setattr("tasks.streaming.lines.is_file", lambda path: False)
    monkeypatch.setattr("tasks.streaming.lines.read_chunks", endless)
    with open_parallel(path, path) as (chunks, _):
        (first,) = islice(chunks, 1)
    assert len(first) == CHUNK_LINES
    assert first[-1] == f"line {CHUNK_LINES - 1}\tline {CHUNK_LINES - 1}"
    assert read <= CHUNK_LINES + 1
