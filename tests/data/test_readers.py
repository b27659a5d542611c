"""Readers: what is taken as it is, and what is refused with file, line and reason."""

import os
import tracemalloc
from pathlib import Path

import pytest

from core.errors import CorpusError, UserError
from core.storage.files import read_json
from data.pairs import TextPair, read_parallel
from data.readers import csv_rows, iter_lines
from data.tokenizers import SentencePieceBPE
from data.vocabulary import Vocabulary


def written(path: Path, content: bytes | str) -> Path:
    path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
    return path


# Lines


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        ("", []),
        ("a", ["a"]),
        ("a\nb\n", ["a", "b"]),
        ("a\r\nb\r\n", ["a", "b"]),
        ("a\n\nb", ["a", "", "b"]),
        ("a\n\n", ["a", ""]),
        ("\ufeffa\n\ufeffb", ["a", "\ufeffb"]),
        ("\ufeff", []),
        ("\ufeff\n", [""]),
        ("a\u2028b\x85c\x0bd\x0ce\x1cf\rg\n", ["a\u2028b\x85c\x0bd\x0ce\x1cf\rg"]),
    ],
)
def test_lines_end_at_line_feeds_only(tmp_path: Path, content: str, lines: list[str]) -> None:
    """`str.splitlines` also splits at U+2028 and others, and the two sides of a corpus drift."""
    assert [*iter_lines(written(tmp_path / "a.txt", content))] == lines


def test_invalid_utf8_is_named_by_its_line(tmp_path: Path) -> None:
    path = written(tmp_path / "a.txt", "eins\nzwei\nStraße\n".encode() + "Straße".encode("latin-1"))
    with pytest.raises(CorpusError, match=r"a\.txt:4: not valid UTF-8 \(byte 0xdf\)") as caught:
        [*iter_lines(path)]
    assert (caught.value.path, caught.value.line) == (path, 4)


def test_utf16_is_not_read_as_something_else(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"a\.txt:1: not valid UTF-8"):
        [*iter_lines(written(tmp_path / "a.txt", "eins\n".encode("utf-16")))]


def test_what_cannot_be_opened_is_named(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"none\.txt: cannot read: No such file"):
        [*iter_lines(tmp_path / "none.txt")]
    with pytest.raises(CorpusError, match="cannot read: Is a directory"):
        [*iter_lines(tmp_path)]
    with pytest.raises(CorpusError, match="cannot read: Is a directory"):
        list(csv_rows(tmp_path))


# Parallel files


def test_parallel_files_come_as_pairs(tmp_path: Path) -> None:
    german = written(tmp_path / "a.de", "ein Hund\nzwei\n")
    english = written(tmp_path / "a.en", "a dog\r\ntwo")
    assert read_parallel(german, english) == [TextPair("ein Hund", "a dog"), ("zwei", "two")]


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("a\nb\n", "a\n", r"a\.en: 1 lines, but .*a\.de has 2: line n"),
        ("a\n", "a\nb\n", r"a\.en: 2 lines, but .*a\.de has 1: line n"),
        ("", "", r"a\.de: the file is empty"),
        ("a\n", "", r"a\.en: the file is empty"),
        ("a\n\nc\n", "a\nb\nc\n", r"a\.de:2: empty line"),
        ("a\nb\nc\n", "a\nb\n \t\u3000\n", r"a\.en:3: empty line"),
    ],
)
def test_files_that_do_not_match_are_refused(
    tmp_path: Path, source: str, target: str, message: str
) -> None:
    with pytest.raises(CorpusError, match=message):
        read_parallel(written(tmp_path / "a.de", source), written(tmp_path / "a.en", target))


# CSV


@pytest.mark.parametrize("end", ['2,"b\n', '2,"b"c\n', "2,\0\n", "2,\udcff\n"])
def test_a_bad_row_behind_thousands_of_good_ones_is_named(tmp_path: Path, end: str) -> None:
    content = "1,a\n" * 2500 + end + "1,a\n" * 10
    path = written(tmp_path / "a.csv", content.encode(errors="surrogateescape"))
    with pytest.raises(CorpusError, match=r"a\.csv: row 2501: "):
        list(csv_rows(path))


def test_a_large_file_is_not_held_in_memory(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", f"1,{'a' * 300}\n" * 20_000)
    tracemalloc.start()
    try:
        assert sum(1 for _ in csv_rows(path)) == 20_000
        assert tracemalloc.get_traced_memory()[1] < 3_000_000
    finally:
        tracemalloc.stop()


# The real corpora


@pytest.mark.parametrize(
    ("source", "target", "pairs"),
    [
        ("multi30k/train.de", "multi30k/train.en", 29_000),
        ("multi30k/val.de", "multi30k/val.fr", 1_014),
        ("couplet/train/in.txt", "couplet/train/out.txt", 70_444),
        ("couplet/verse/in.txt", "couplet/verse/out.txt", 261_340),
    ],
)
def test_the_real_parallel_files_are_read_whole(
    shared_data: Path, source: str, target: str, pairs: int
) -> None:
    assert len(read_parallel(shared_data / source, shared_data / target)) == pairs


def test_a_named_pipe_in_place_of_a_file_is_refused(tmp_path: Path) -> None:
    """A pipe without a writer, or a device such as /dev/zero, held the program forever."""
    pipe = tmp_path / "train.de"
    os.mkfifo(pipe)
    for read in (
        lambda: [*iter_lines(pipe)],
        lambda: read_parallel(pipe, pipe),
        lambda: list(csv_rows(pipe)),
        lambda: [*iter_lines("/dev/zero")],
        lambda: Vocabulary.load(pipe),
        lambda: SentencePieceBPE(pipe),
        lambda: read_json(pipe),
    ):
        with pytest.raises(UserError, match="cannot read: not a regular file"):
            read()


def test_a_symbolic_link_to_itself_is_refused(tmp_path: Path) -> None:
    loop = tmp_path / "train.de"
    loop.symlink_to(loop)
    with pytest.raises(CorpusError, match=r"train\.de: cannot read: Too many levels"):
        [*iter_lines(loop)]
