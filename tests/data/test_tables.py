"""Tables of users: every format, every delimiter, and what is wrong with bad ones."""

import csv
import io
import json
from pathlib import Path

import pandas
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.errors import CorpusError
from data.tables import DELIMITERS, open_table


def written(folder: Path, content: str | bytes, name: str = "t.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


CELLS = st.text(
    st.characters(codec="utf-8", exclude_characters="\0\r", exclude_categories=["Cs"]), max_size=9
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(
    rows=st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=2), delimiter=st.sampled_from(",\t;|")
)
def test_a_table_is_read_as_pandas_reads_it(
    rows: list[tuple[str, str, str]], delimiter: str, tmp_path: Path
) -> None:
    path = tmp_path / "t.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter, quoting=csv.QUOTE_ALL)
        writer.writerows([("text", "label", "id"), *rows])
    theirs = pandas.read_csv(path, sep=delimiter, dtype=str, keep_default_na=False)
    table = open_table(path)
    assert [dict(record) for _, record in table.rows()] == theirs.to_dict("records")
    assert table.columns == list(theirs.columns)


@pytest.mark.parametrize("delimiter", DELIMITERS)
def test_the_delimiter_is_found_in_rows_full_of_the_others(delimiter: str, tmp_path: Path) -> None:
    text = "one, two; three | four\tand, so on"
    lines = io.StringIO()
    csv.writer(lines, delimiter=delimiter).writerows([("spam", text), ("ham", "five;"), ("x", "y")])
    table = open_table(written(tmp_path, lines.getvalue()), has_header=False)
    assert list(next(table.rows())[1].values()) == ["spam", text]
    assert table.columns == ["1", "2"]


def test_names_that_occur_twice_are_numbered_as_in_pandas(tmp_path: Path) -> None:
    path = written(tmp_path, "a,b,a,a\n1,2,3,4\n")
    assert open_table(path).columns == list(pandas.read_csv(path).columns)


def test_json_lines_may_lack_keys_and_hold_numbers(tmp_path: Path) -> None:
    path = written(
        tmp_path, '{"body": "x", "stars": 5}\n\n{"title": "t", "body": null}\n', "t.jsonl"
    )
    table = open_table(path)
    table.require(["title", "stars"])
    texts = [table.text(line, row, ["title", "body", "stars"]) for line, row in table.rows()]
    assert texts == ["x 5", "t"]


def test_rows_get_new_columns_and_keep_their_own_cells(tmp_path: Path) -> None:
    path = written(tmp_path, 'id;text\n1;"a ""quoted"";\ntext"\n')
    table = open_table(path)
    ((_, record),) = table.rows()
    lines = table.first_line(["label"]) + table.line(record, {"label": "x;y"})
    ((_, read),) = open_table(written(tmp_path, lines, "out.csv"), delimiter=";").rows()
    assert read == {"id": "1", "text": 'a "quoted";\ntext', "label": "x;y"}
    table = open_table(written(tmp_path, '{"text": "é", "n": [1]}\n', "t.jsonl"))
    ((_, record),) = table.rows()
    line = table.line(record, {"label": "x"})
    assert json.loads(line) == {"text": "é", "n": [1], "label": "x"}


def test_new_columns_never_take_the_name_of_another(tmp_path: Path) -> None:
    table = open_table(written(tmp_path, "label,predicted_label\na,b\n"))
    names = table.added_names(["label", "probability"])
    assert names == ["predicted_predicted_label", "predicted_predicted_probability"]


def test_a_folder_for_every_label(tmp_path: Path) -> None:
    for name in ("spam/2.txt", "spam/1.txt", "ham/1.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        written(tmp_path, f"text of {name}\nline 2\n", name)
    rows = [record for _, record in open_table(tmp_path).rows()]
    assert [row["label"] for row in rows] == ["ham", "spam", "spam"]
    assert rows[1]["text"] == "text of spam/1.txt\nline 2"


def test_a_megabyte_in_one_row_is_read(tmp_path: Path) -> None:
    text = "word " * 220_000
    table = open_table(written(tmp_path, f'label,text\nx,"{text}"\n'))
    assert [record["text"] for _, record in table.rows()] == [text]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", "", r"t\.csv: the file is empty"),
        ("t.csv", "a,b\n1,2\n3\n", r"t\.csv: row 3: the row has 1 columns, the first one has 2"),
        ("t.csv", 'a,b\n1,2\n3,"x\n4,5\n', r"t\.csv: row 3: not valid CSV: .*quote"),
        ("t.csv", b"a,b\n1,caf\xe9\n", r"t\.csv: row 2: not valid UTF-8 \(byte 0xe9\)"),
        ("t.csv", "a,b\n1,\0\n", r"t\.csv: row 2: NUL"),
        ("t.jsonl", "\n", r"t\.jsonl: the file has no rows"),
        ("t.jsonl", '{"a": 1}\n{"a"\n', r"t\.jsonl: row 2: not valid JSON: .*one object"),
        ("t.jsonl", '{"a": 1}\n[1]\n', r"t\.jsonl: row 2: \[1\] is not a JSON object"),
        ("t.jsonl", "[" * 100_000, r"t\.jsonl: row 1: nested too deeply"),
        ("t.jsonl", '{"a": [1]}\n', r"t\.jsonl: row 1: 'a' is a list, not a text"),
    ],
)
def test_a_bad_row_is_named(name: str, content: str | bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=message):
        table = open_table(written(tmp_path, content, name))
        for line, record in table.rows():
            table.text(line, record, ["a"])


def test_a_missing_column_is_named_with_the_nearest(tmp_path: Path) -> None:
    table = open_table(written(tmp_path, "body,topic\nx,y\n"))
    with pytest.raises(CorpusError, match=r"no column 'topics'; did you mean 'topic'\?"):
        table.require(["body", "topics"])
    with pytest.raises(CorpusError, match=r"no column 'zzz'; its columns: body, topic"):
        table.require(["zzz"])
    with pytest.raises(CorpusError, match="without a header they are numbered from 1"):
        table.require(["2"])
    table = open_table(table.path, delimiter=";")
    message = "with the delimiter ';', the first row has one column, 'body,topic'; name another"
    with pytest.raises(CorpusError, match=message):
        table.require(["topic"])
    with pytest.raises(CorpusError, match="neither a table nor LABEL"):
        open_table(tmp_path)
