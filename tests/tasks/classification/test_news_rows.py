"""The rows of AG_News: what is taken as it is, and what is refused with its row and the reason."""

import csv
import io
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.errors import CorpusError
from data.readers import MAX_FIELD
from tasks.classification.config import TEXT_COLUMNS
from tasks.classification.sources import Row, read_news

one_folder_will_do = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def rows_of(tmp_path: Path, content: bytes | str, num_classes: int = 4) -> list[Row]:
    path = tmp_path / "a.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_news(path, TEXT_COLUMNS, num_classes=num_classes)


@pytest.mark.parametrize(
    ("content", "row"),
    [
        ('"3","Title","Text"\n', Row(2, "Title Text")),
        ("3,Title,Text", Row(2, "Title Text")),
        ('"1","A, B","C, D"\r\n', Row(0, "A, B C, D")),
        ('"4","He said ""no""","x"\n', Row(3, 'He said "no" x')),
        ('"1","two\nlines","x\r\ny"\n', Row(0, "two\nlines x\r\ny")),
        ('"1","","dwindling\\band &lt;b&gt; #39;"\n', Row(0, " dwindling\\band &lt;b&gt; #39;")),
        ('"2","text"\n', Row(1, " text")),
        ('\ufeff"2","text"\n', Row(1, " text")),
        ('"2","a\u2028b\x85c\rd"\n', Row(1, " a\u2028b\x85c\rd")),
        ("label,title,description\n2,Title,Text\n", Row(1, "Title Text")),
        ('"Class","text"\n"2","text"\n', Row(1, " text")),
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
    assert rows_of(tmp_path, buffer.getvalue()) == [
        Row(n - 1, " ".join(texts)) for n, *texts in rows
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", r"a\.csv: the file has no rows"),
        ("label,text\n", r"a\.csv: the file has no rows"),
        ('"1","a","b"\n"2","c"\n', r"a\.csv: row 2: 2 columns, where the first row has 3"),
        ('"1","a"\n"2","c","d"\n', r"a\.csv: row 2: 3 columns, where the first row has 2"),
        ('"1"\n', r"a\.csv: row 1: 1 columns, .*; expected label,title,description or label,text"),
        ('"1","a","b","c"\n', r"a\.csv: row 1: 4 columns, .*; expected"),
        ('"1","a","b"\n\n"2","c","d"\n', r"a\.csv: row 2: 0 columns"),
        ("\n", r"a\.csv: row 1: 0 columns"),
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


def test_the_real_news_is_read_whole(shared_data: Path) -> None:
    folder = shared_data / "ag_news"
    rows = read_news(folder / "train.csv", ("title",), num_classes=4)
    assert len(rows) == 83_352
    assert sum(not row.text for row in rows) == 22_641
    assert {row.label for row in rows} == {0, 1, 2, 3}
    assert len(read_news(folder / "test.csv", ("title",), num_classes=4)) == 3_731
