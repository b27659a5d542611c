"""Tables of users: every format, every delimiter, and what is wrong with bad ones."""

import csv
import datetime
import io
import json
import sys
from pathlib import Path

import pandas
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.errors import ConfigError, CorpusError
from data.tables import DELIMITERS, TableLayout, open_table


def written(folder: Path, content: str | bytes, name: str = "t.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


CELLS = st.text(
    st.characters(codec="utf-8", exclude_characters="\0\r", exclude_categories=["Cs"]), max_size=9
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(
    rows=st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=2),
    delimiter=st.sampled_from(",\t;|"),
    start=st.sampled_from(["", "\n", "\r\n\n"]),
)
def test_a_table_is_read_as_pandas_reads_it(
    rows: list[tuple[str, str, str]], delimiter: str, start: str, tmp_path: Path
) -> None:
    path = tmp_path / "t.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(start)
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
    table = open_table(written(tmp_path, lines.getvalue()), TableLayout(header=False))
    assert list(next(table.rows())[1].values()) == ["spam", text]
    assert table.columns == ["1", "2"]


def test_names_that_occur_twice_are_numbered_as_in_pandas(tmp_path: Path) -> None:
    path = written(tmp_path, "a,b,a,a\n1,2,3,4\n")
    table = open_table(path)
    assert table.columns == list(pandas.read_csv(path).columns)
    with pytest.raises(CorpusError, match="two columns are 'a': rename one"):
        table.require(["b", "a"])


def test_json_lines_may_lack_keys_and_hold_numbers(tmp_path: Path) -> None:
    lines = '{"body": "x", "stars": 5}\n\n{"title": "t", "body": null}\n'
    table = open_table(path := written(tmp_path, lines, "t.jsonl"))
    table.require(["title", "stars"])
    texts = [table.text(line, row, ["title", "body", "stars"]) for line, row in table.rows()]
    assert texts == ["x 5", "t"]
    path.write_text('{"a": 1}\n' * 99 + '{"label": 2}\n')
    assert open_table(path).added_names(["label"]) == ["predicted_label"]


def test_rows_get_new_columns_and_keep_their_own_cells(tmp_path: Path) -> None:
    path = written(tmp_path, 'id;text\n1;"a ""quoted"";\ntext"\n')
    table = open_table(path)
    ((_, record),) = table.rows()
    lines = table.first_line(["label"]) + table.line(record, {"label": "x;y"})
    out = written(tmp_path, lines, "out.csv")
    ((_, read),) = open_table(out, TableLayout(delimiter=";")).rows()
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
        ("t.csv", b"a,b\n1,caf\xff\n", r"t\.csv: row 2: not valid UTF-8 \(byte 0xff\)"),
        ("t.csv", b"a,b\n1,caf\xe9\n2,\xc3\xa9", r"row 2: not valid UTF-8 \(byte 0xe9\)"),
        ("t.csv", "一二\n".encode("gb18030"), r"row 1: not valid UTF-8 \(byte 0x"),
        ("t.csv", b"\xff\xfea\x00b", r"t\.csv: not valid utf-16: save the file as UTF-8"),
        ("t.xls", b"", r"t\.xls: save it as CSV or \.xlsx"),
        ("t.csv", "a,b\n1,\0\n", r"t\.csv: row 2: NUL"),
        ("t.jsonl", "\n", r"t\.jsonl: the file has no rows"),
        ("t.jsonl", '{"a": 1}\n{"a"\n', r"t\.jsonl: row 2: not valid JSON: .*one object"),
        ("t.jsonl", '{"a": 1}\n[1]\n', r"t\.jsonl: row 2: \[1\] is not a JSON object"),
        ("t.jsonl", '{"a": 1}\n{"a": "\\ud800"}\n', r"row 2: .*: half a surrogate pair"),
        ("t.jsonl", '{"a": NaN}\n', r"t\.jsonl: row 1: .*a number that is too large, or NaN"),
        ("t.jsonl", '{"a": 1}\n{"a": [1e999]}\n', r"row 2: .*a number that is too large, or NaN"),
        ("t.jsonl", "[" * 100_000, r"t\.jsonl: row 1: .*nested too deeply"),
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
    table = open_table(table.path, TableLayout(delimiter=";"))
    message = "with the delimiter ';', the first row has one column, 'body,topic'; name another"
    with pytest.raises(CorpusError, match=message):
        table.require(["topic"])
    with pytest.raises(CorpusError, match="neither a table nor LABEL"):
        open_table(tmp_path)


ROWS = [("text", "label"), ("Grüße – „schön“", "ä"), ("zwei\nZeilen", "b")]


@pytest.mark.parametrize(
    ("encoding", "delimiter", "mark"),
    [
        ("utf-8", ";", ""),
        ("utf-8-sig", ";", "\ufeff"),
        ("utf-16", "\t", "\ufeff"),
        ("utf-16-le", "\t", "\ufeff"),
        ("utf-16-be", ";", "\ufeff"),
        ("cp1252", ";", "\ufeff"),
    ],
)
def test_encodings_of_excel_are_recognized(
    encoding: str, delimiter: str, mark: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A table in cp1252 was refused, as UTF-16 without a mark; Excel needs one in UTF-8."""
    lines = io.StringIO()
    csv.writer(lines, delimiter=delimiter).writerows(ROWS)
    table = open_table(written(tmp_path, lines.getvalue().encode(encoding)))
    assert [tuple(record.values()) for _, record in table.rows()] == ROWS[1:]
    assert table.first_line([]) == f"{mark}text{delimiter}label\n"
    is_guess = encoding in ("cp1252", "utf-16-le", "utf-16-be")
    assert (f"read as {encoding}" in capsys.readouterr().err) == is_guess


def test_an_encoding_can_be_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, "天,地\n春,秋\n".encode("gb18030"))
    with pytest.raises(CorpusError, match="row 1: not valid UTF-8"):
        open_table(path)
    assert "neither UTF-8 nor cp1252: name its encoding\n" in capsys.readouterr().err
    ((_, record),) = open_table(path, TableLayout(encoding="gb18030")).rows()
    assert record == {"天": "春", "地": "秋"}
    with pytest.raises(CorpusError, match=r"row 1: not valid ascii \(byte 0x"):
        open_table(path, TableLayout(encoding="ascii"))
    path.write_text("天,地\n春,秋\n", "utf-8-sig")
    assert open_table(path, TableLayout(encoding="utf8")).columns == ["天", "地"]
    for name in ("nonsense", "base64", "\0"):
        with pytest.raises(ConfigError, match=r"data\.encoding must be an encoding"):
            TableLayout(encoding=name).check_layout()


def test_quotes_between_tabs_are_those_of_csv_or_of_texts(tmp_path: Path) -> None:
    """Sentences of Tatoeba that begin with a quotation mark were "not valid CSV"."""
    excel = open_table(written(tmp_path, 'a\tb\n"say ""no"""\t"two\nlines"\n', "t.tsv"))
    assert [*excel.rows()] == [(2, {"a": 'say "no"', "b": "two\nlines"})]
    plain = open_table(written(tmp_path, 'a\tb\n"Ja", sagt er.\t"Yes," he says.\n', "t.tsv"))
    ((_, record),) = plain.rows()
    assert record == {"a": '"Ja", sagt er.', "b": '"Yes," he says.'}
    assert plain.line(record, {"c": "x"}) == '"Ja", sagt er.\t"Yes," he says.\tx\n'
    lines = 'a\tb\n„Ja.\t"Yes.\nNein.“\tNo."\n'  # not one row with a tab and a line break in it
    assert len([*open_table(written(tmp_path, lines, "t.tsv")).rows()]) == 2


def test_an_excel_file_is_read_and_becomes_csv(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl", reason="the extra `excel` is not installed")
    book = openpyxl.Workbook()
    book.save(tmp_path / "t.xlsx")
    with pytest.raises(CorpusError, match=r"t\.xlsx: its first sheet is empty"):
        open_table(tmp_path / "t.xlsx")
    day = datetime.datetime(2024, 2, 1)
    for row in ((), ("text", "n", "day", None), ("Grüße", 5, day), (), (None, 0.5)):
        book.active.append(row)
    book.save(tmp_path / "t.xlsx")
    table = open_table(tmp_path / "t.xlsx")
    rows = [*table.rows()]
    assert rows == [
        (3, {"text": "Grüße", "n": "5", "day": "2024-02-01"}),
        (5, {"text": "", "n": "0.5", "day": ""}),
    ]
    assert table.first_line(["x"]) == "\ufefftext,n,day,x\n"
    assert table.line(rows[0][1], {"x": "a,b"}) == 'Grüße,5,2024-02-01,"a,b"\n'
    book.active["F5"] = "stray"
    book.save(tmp_path / "t.xlsx")
    with pytest.raises(CorpusError, match=r"row 5: .* 6 columns, .* has 3: empty the others, or"):
        list(open_table(tmp_path / "t.xlsx").rows())
    content = (tmp_path / "t.xlsx").read_bytes()
    for damaged in (b"", b"PK", content[:2000], content.replace(b"sheet1", b"sheet7")):
        with pytest.raises(CorpusError, match=r"t\.xlsx: not a valid \.xlsx file"):
            open_table(written(tmp_path, damaged, "t.xlsx"))


def test_without_openpyxl_an_excel_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(CorpusError, match=r"t\.xlsx: save it as CSV, or install the extra excel"):
        open_table(written(tmp_path, b"", "t.xlsx"))
