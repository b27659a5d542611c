"""Readers: what is taken as it is, and what is refused with file, line and reason."""

import csv
import io
import os
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.errors import CorpusError, UserError
from core.storage.files import read_json
from data.readers import (
    MAX_FIELD,
    Row,
    TextPair,
    csv_rows,
    read_labeled_csv,
    read_lines,
    read_parallel,
)
from data.tokenizers import SentencePieceBPE
from data.vocabulary import Vocabulary

one_folder_will_do = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


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
    assert read_lines(written(tmp_path / "a.txt", content)) == lines


def test_invalid_utf8_is_named_by_its_line(tmp_path: Path) -> None:
    path = written(tmp_path / "a.txt", "eins\nzwei\nStraße\n".encode() + "Straße".encode("latin-1"))
    with pytest.raises(CorpusError, match=r"a\.txt:4: not valid UTF-8 \(byte 0xdf\)") as caught:
        read_lines(path)
    assert (caught.value.path, caught.value.line) == (path, 4)


def test_utf16_is_not_read_as_something_else(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"a\.txt:1: not valid UTF-8"):
        read_lines(written(tmp_path / "a.txt", "eins\n".encode("utf-16")))


def test_what_cannot_be_opened_is_named(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"none\.txt: cannot read: No such file"):
        read_lines(tmp_path / "none.txt")
    with pytest.raises(CorpusError, match="cannot read: Is a directory"):
        read_lines(tmp_path)
    with pytest.raises(CorpusError, match="cannot read: Is a directory"):
        read_labeled_csv(tmp_path)


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


# Labelled CSV


def rows_of(tmp_path: Path, content: bytes | str, num_classes: int | None = 4) -> list[Row]:
    return read_labeled_csv(written(tmp_path / "a.csv", content), num_classes=num_classes)


@pytest.mark.parametrize(
    ("content", "row"),
    [
        ('"3","Title","Text"\n', Row(2, "Title", "Text")),
        ("3,Title,Text", Row(2, "Title", "Text")),
        ('"1","A, B","C, D"\r\n', Row(0, "A, B", "C, D")),
        ('"4","He said ""no""","x"\n', Row(3, 'He said "no"', "x")),
        ('"1","two\nlines","x\r\ny"\n', Row(0, "two\nlines", "x\r\ny")),
        ('"1","","dwindling\\band &lt;b&gt; #39;"\n', Row(0, "", "dwindling\\band &lt;b&gt; #39;")),
        ('"2","text"\n', Row(1, "", "text")),
        ('\ufeff"2","text"\n', Row(1, "", "text")),
        ('"2","a\u2028b\x85c\rd"\n', Row(1, "", "a\u2028b\x85c\rd")),
        ("label,title,description\n2,Title,Text\n", Row(1, "Title", "Text")),
        ('"Class","text"\n"2","text"\n', Row(1, "", "text")),
    ],
)
def test_a_row_is_read_as_csv_means_it(tmp_path: Path, content: str, row: Row) -> None:
    assert rows_of(tmp_path, content) == [row]


cell = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)


@one_folder_will_do
@given(st.lists(st.tuples(st.integers(1, 4), cell, cell), min_size=1, max_size=8))
def test_whatever_a_csv_writer_writes_is_read_back(
    tmp_path: Path, rows: list[tuple[int, str, str]]
) -> None:
    rows = [(label, title, f"x{description}") for label, title, description in rows]
    buffer = io.StringIO(newline="")
    csv.writer(buffer, quoting=csv.QUOTE_ALL).writerows(rows)
    assert rows_of(tmp_path, buffer.getvalue()) == [Row(n - 1, *texts) for n, *texts in rows]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", r"a\.csv: the file has no rows"),
        ("label,text\n", r"a\.csv: the file has no rows"),
        ('"1","a","b"\n"2","c"\n', r"a\.csv: row 2: 2 columns, but the first row has 3"),
        ('"1","a"\n"2","c","d"\n', r"a\.csv: row 2: not valid CSV: Expected 2 fields"),
        ('"1"\n', r"a\.csv: row 1: 1 column; expected label,title,description or label,text"),
        ('"1","a","b","c"\n', r"a\.csv: row 1: 4 columns; expected"),
        ('"1","a","b"\n\n"2","c","d"\n', r"a\.csv: row 2: 0 columns"),
        ("\n", r"a\.csv: the file has no rows"),
        ('"5","a","b"\n', r"a\.csv: row 1: the label 5 is out of range: from 1 to 4"),
        ('"0","a","b"\n', r"a\.csv: row 1: the label 0 is out of range: from 1 to 4"),
        ('"-1","a","b"\n', r"a\.csv: row 1: the label -1 is out of range"),
        ('"World","a","b"\n', r"a\.csv: row 1: the label 'World' is not a whole number"),
        ('"1.0","a","b"\n', r"a\.csv: row 1: the label '1\.0' is not a whole number"),
        ('"","a","b"\n', r"a\.csv: row 1: the label '' is not a whole number"),
        ('"²","a","b"\n', r"a\.csv: row 1: the label '²' is not a whole number"),
        (
            '"' + "9" * 5000 + '","a","b"\n',
            r"a\.csv: row 1: the label '9{40}' is not a whole number",
        ),
        ('"1","a","b"\nlabel,a,b\n', r"a\.csv: row 2: the label 'label' is not"),
        ('"1",""," "\n', r"a\.csv: row 1: the row has no text"),
        ('"1","a\nb","c"\n"9","d","e"\n', r"a\.csv: row 2: the label 9"),
        ('"1","a","b"\n"2","never closed\n"3","c","d"\n', r"a\.csv: row 2: not valid CSV: .*quote"),
        ('"1","a"b,"c"\n', r"a\.csv: row 1: not valid CSV: "),
        (
            '"1","a","' + "x" * (MAX_FIELD + 1) + '"\n',
            r"a\.csv: row 1: not valid CSV: field larger",
        ),
        ('"1","a","b"\n"2","a\0b","c"\n', r"a\.csv: row 2: NUL character"),
        (b'"1","a","b"\n"2","\xe4","c"\n', r"a\.csv: row 2: not valid UTF-8 \(byte 0xe4\)"),
    ],
)
def test_a_bad_row_is_named_by_its_number(
    tmp_path: Path, content: bytes | str, message: str
) -> None:
    with pytest.raises(CorpusError, match=message):
        rows_of(tmp_path, content)


@pytest.mark.parametrize("end", ['2,"b\n', "2,b,c\n", "2\n", "2,\0\n"])
def test_a_bad_row_behind_thousands_of_good_ones_is_named(tmp_path: Path, end: str) -> None:
    with pytest.raises(CorpusError, match=r"a\.csv: row 2501: "):
        rows_of(tmp_path, "1,a\n" * 2500 + end + "1,a\n" * 10)


def test_a_large_file_is_not_held_in_memory(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", f"1,{'a' * 300}\n" * 20_000)
    next(csv_rows(path))  # imports pandas
    tracemalloc.start()
    try:
        assert sum(1 for _ in csv_rows(path)) == 20_000
        assert tracemalloc.get_traced_memory()[1] < 3_000_000
    finally:
        tracemalloc.stop()


def test_any_number_of_classes_is_taken_when_it_is_not_given(tmp_path: Path) -> None:
    assert rows_of(tmp_path, '"17","text"\n', num_classes=None) == [Row(16, "", "text")]
    with pytest.raises(CorpusError, match="the label 0 is out of range: 1 or more"):
        rows_of(tmp_path, '"0","text"\n', num_classes=None)


# The real corpora


def test_the_real_news_is_read_whole(shared_data: Path) -> None:
    rows = read_labeled_csv(shared_data / "ag_news" / "train.csv", num_classes=4)
    assert len(rows) == 83_352
    assert sum(not row.title for row in rows) == 22_641
    assert {row.label for row in rows} == {0, 1, 2, 3}
    assert len(read_labeled_csv(shared_data / "ag_news" / "test.csv", num_classes=4)) == 3_731


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
        lambda: read_lines(pipe),
        lambda: read_parallel(pipe, pipe),
        lambda: read_labeled_csv(pipe),
        lambda: read_lines("/dev/zero"),
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
        read_lines(loop)
