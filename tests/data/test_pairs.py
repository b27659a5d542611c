"""Pairs as people have them: tables with two columns, and translation memories."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from core.errors import CorpusError
from data.pairs import TextPair, iter_texts, read_pairs
from data.tables import TableLayout

PAIRS = [TextPair("Ein Hund – ja", "A dog: yes"), TextPair("zwei Zeilen", "two lines")]
BOMB = "".join(f'<!ENTITY a{n + 1} "{f"&a{n};" * 30}">' for n in range(5))

TMX = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header srclang="de"/><body>
 <tu><tuv xml:lang="de-DE"><seg>Ein <bpt i="1">&lt;b&gt;</bpt>Hund<ept/> <hi>– ja</hi></seg></tuv>
     <tuv xml:lang="en_US"><note>old</note><seg>A dog:<ph><sub>no</sub></ph> yes</seg></tuv></tu>
 <tu><tuv lang="EN"><seg>two lines</seg></tuv>
     <tuv lang="FR"><seg>x</seg></tuv><tuv lang="DE"><seg>zwei&#10;Zeilen</seg></tuv></tu>
 <tu><tuv xml:lang="de"><seg>nur das</seg></tuv></tu>
 <tu><tuv xml:lang="de"><seg>OK</seg></tuv><tuv xml:lang="en"><seg>OK</seg></tuv></tu>
 <tu><tuv xml:lang="de"><seg>---</seg></tuv><tuv xml:lang="en"><seg>&lt;br/&gt;</seg></tuv></tu>
</body></tmx>
"""


@dataclass(frozen=True, kw_only=True)
class Settings(TableLayout):
    """What the settings of a run are: a layout and more. Its other fields were refused."""

    src: str = "de"


LAYOUT = Settings()


def written(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.csv", 'id,en,de\n1,A dog: yes,Ein Hund – ja\n2,"two\nlines",zwei  Zeilen\n'),
        ("t.tsv", "de\ten\nEin Hund – ja\tA dog: yes\nzwei Zeilen\ttwo lines\n"),
        ("plain.tsv", "Ein Hund – ja\tA dog: yes\nzwei Zeilen\ttwo lines\n"),
        ("excel.csv", "de;en\nEin Hund – ja;A dog: yes\nzwei Zeilen;two lines".encode("cp1252")),
        (
            "t.jsonl",
            '{"de": "Ein Hund – ja", "en": "A dog: yes", "n": 1}\n'
            '{"en": "two lines", "de": "zwei Zeilen"}\n',
        ),
        ("t.tmx", TMX),
        ("t.tmx", TMX.replace("UTF-8", "UTF-16").encode("utf-16")),
    ],
)
def test_pairs_are_read_from_every_kind_of_file(
    name: str, content: str | bytes, tmp_path: Path
) -> None:
    assert read_pairs(written(tmp_path / name, content), "de", "en", LAYOUT) == PAIRS


def test_the_texts_of_one_side_are_read(tmp_path: Path) -> None:
    for name, content in (("t.csv", "de,n\nein  Hund,1\n,2\n"), ("t.tmx", TMX)):
        texts = [*iter_texts(written(tmp_path / name, content), "de", LAYOUT)]
        assert texts[0].startswith(("ein Hund", "Ein Hund"))
    assert len(texts) == 5


def test_numbers_name_the_columns_where_there_is_no_header(tmp_path: Path) -> None:
    """The first two columns were taken, whatever the numbers."""
    table, layout = written(tmp_path / "t.tsv", "7\tHund\tdog\n"), TableLayout(header=False)
    assert read_pairs(table, "3", "2", layout) == [("dog", "Hund")]
    for target in ("9", "en"):
        with pytest.raises(CorpusError, match=f"no column '{target}'; its columns: 1, 2, 3"):
            read_pairs(table, "2", target, layout)


def test_what_is_left_out_is_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    read_pairs(written(tmp_path / "t.tmx", TMX), "de", "en", LAYOUT)
    assert (
        "t.tmx: 3 of 5 pairs are left out: 1 with an empty side, 1 with equal sides, 1 of marks or "
        "markup alone" in capsys.readouterr().err
    )
    read_pairs(written(tmp_path / "t.tsv", "Ja\tYes\nNein\tNo\n"), "de", "en", LAYOUT)
    said = capsys.readouterr().err
    assert "no columns de and en: the first column is de, the second en" in said
    assert "left out" not in said


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", "de,fr\na,b\n", r"there is no column 'en'; its columns: de, fr"),
        ("t.csv", "de,en\na\n", r"row 2: the row has 1 columns"),
        ("t.csv", "de,en\na,\n", r"there is no pair of de and en"),
        ("t.tmx", "<tmx><body></body></tmx>", r"there is no pair of de and en"),
        (
            "t.tmx",
            '<tmx><tu><tuv lang="DE_at"/></tu><tu><tuv lang="FR"/></tu></tmx>',
            "no text is in en; its languages: de-at, fr",
        ),
        ("t.tmx", "<tmx>\n<body>", r"t\.tmx:2: not a TMX file: no element found"),
        ("t.tmx", "", r"not a TMX file: no element found"),
        ("t.tmx", "<tu>" * 20_000 + "<seg>" + "<hi>" * 90_000, r"not a TMX file"),
        (
            "t.tmx",
            f'<!DOCTYPE tmx [<!ENTITY a0 "{"b" * 1000}">{BOMB}]><tmx>&a5;</tmx>',
            r"t\.tmx: not a TMX file: it declares entities",
        ),
    ],
)
def test_what_is_wrong_is_named(name: str, content: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=message):
        read_pairs(written(tmp_path / name, content), "de", "en", LAYOUT)


def test_no_entity_reads_another_file(tmp_path: Path) -> None:
    secret = written(tmp_path / "secret", "x")
    entity = f'<!DOCTYPE tmx [<!ENTITY a SYSTEM "{secret}">]><tmx>&a;</tmx>'
    with pytest.raises(CorpusError, match="not a TMX file: it declares entities"):
        read_pairs(written(tmp_path / "t.tmx", entity), "de", "en", LAYOUT)


def test_a_deep_segment_is_refused(tmp_path: Path) -> None:
    deep = "<hi>" * 50_000 + "</hi>" * 50_000
    content = f'<tmx><tu><tuv lang="de"><seg>{deep}</seg></tuv></tu></tmx>'
    with pytest.raises(CorpusError, match="not a TMX file"):
        read_pairs(written(tmp_path / "t.tmx", content), "de", "en", LAYOUT)
