"""Corpora from copies, parts of the published sets among them; and the check of what is there."""

import gzip
from pathlib import Path

import pytest

from core.errors import CorpusError
from data.corpora import CORPORA
from data.fetching import import_from, verify
from data.readers import read_labeled_csv, read_parallel
from tests.data.small_corpora import ENGLISH, GERMAN, NEWS, TAR, contents, notes
from tests.data.web_server import Behavior


@pytest.mark.usefixtures("captions")
@pytest.mark.parametrize("names", [("train.de", "train.en"), ("train.de.gz", "train.en.gz")])
def test_import_takes_files_as_they_are_or_as_published(
    server: Behavior, tmp_path: Path, data_root: Path, names: tuple[str, ...]
) -> None:
    for name, content in zip(names, (GERMAN, ENGLISH), strict=True):
        (tmp_path / name).write_bytes(gzip.compress(content) if "gz" in name else content)
    report = import_from("small", tmp_path)
    assert notes(report) == dict.fromkeys(["train.de", "train.en"], "as published, 2 rows")
    assert contents(data_root / "small") == {"train.de": GERMAN, "train.en": ENGLISH}
    assert server.requests == []


@pytest.mark.usefixtures("couplets")
def test_import_takes_an_archive_and_a_file_that_is_not_published(
    tmp_path: Path, data_root: Path
) -> None:
    source = tmp_path / "source"
    (source / "val").mkdir(parents=True)
    (source / "set.tar.gz").write_bytes(TAR)
    (source / "val" / "in.txt").write_bytes(b"x\n")
    report = import_from("small", source)
    assert report.is_ok
    assert contents(data_root / "small") == {
        "train/in.txt": GERMAN,
        "train/out.txt": ENGLISH,
        "val/in.txt": b"x\n",
    }
    assert notes(report)["val/in.txt"].startswith("1 rows, not in the published set; ")


@pytest.mark.parametrize(
    ("english", "message"),
    [
        (None, r"has no train\.en and no train\.en\.gz: is this A small corpus\?"),
        (b"a dog\ntwo cats\n", r"train\.en: not train\.en as published: 2 rows, sha256"),
        (b"a dog\n", r"train\.en: not train\.en as published: 1 rows, sha256"),
        (b"a dog\n\xff\n", r"train\.en:2: not valid UTF-8"),
        (b"", r"train\.en: the file is empty"),
    ],
)
@pytest.mark.usefixtures("captions")
def test_import_takes_everything_or_nothing(
    tmp_path: Path, data_root: Path, english: bytes | None, message: str
) -> None:
    (tmp_path / "train.de").write_bytes(GERMAN)
    if english is not None:
        (tmp_path / "train.en").write_bytes(english)
    with pytest.raises(CorpusError, match=message):
        import_from("small", tmp_path)
    assert contents(data_root) == {}


@pytest.mark.usefixtures("couplets")
def test_import_refuses_sides_that_do_not_match(tmp_path: Path, data_root: Path) -> None:
    (tmp_path / "train").mkdir()
    (tmp_path / "train" / "in.txt").write_bytes(GERMAN)
    (tmp_path / "train" / "out.txt").write_bytes(b"a dog\n")
    with pytest.raises(CorpusError, match=r"train/out\.txt: 1 lines, but train/in\.txt has 2"):
        import_from("small", tmp_path)
    assert contents(data_root) == {}


@pytest.mark.usefixtures("news", "data_root")
def test_import_refuses_more_rows_than_were_published(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_bytes(NEWS * 2)
    with pytest.raises(CorpusError, match=r"not train\.csv as published: 4 rows"):
        import_from("small", tmp_path)


@pytest.mark.usefixtures("news", "data_root")
def test_import_from_what_is_no_folder(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="nowhere: not a folder"):
        import_from("small", tmp_path / "nowhere")


@pytest.mark.usefixtures("news")
def test_import_from_the_corpus_folder_itself_adopts_what_lies_there(data_root: Path) -> None:
    (data_root / "small").mkdir(parents=True)
    (data_root / "small" / "train.csv").write_bytes(NEWS)
    assert import_from("small", data_root / "small").is_ok
    assert contents(data_root) == {"small/train.csv": NEWS}


# verify


@pytest.mark.usefixtures("captions", "data_root")
def test_verify_says_how_to_get_what_is_not_there() -> None:
    with pytest.raises(CorpusError, match=r"small is not there: get it with `cli\.py data fetch"):
        verify("small")


@pytest.mark.usefixtures("captions")
def test_verify_finds_what_is_missing_changed_or_of_unknown_origin(data_root: Path) -> None:
    folder = data_root / "small"
    folder.mkdir(parents=True)
    (folder / "train.de").write_bytes(b"ein Hund\n")
    report = verify("small")
    assert not report.is_ok
    assert notes(report)["train.de"].startswith("not as published: sha256 ")
    assert notes(report)["train.en"] == "missing"


@pytest.mark.usefixtures("couplets")
def test_verify_misses_a_file_that_was_imported_though_not_required(
    tmp_path: Path, data_root: Path
) -> None:
    test_import_takes_an_archive_and_a_file_that_is_not_published(tmp_path, data_root)
    (data_root / "small" / "val" / "in.txt").unlink()
    assert notes(verify("small"))["val/in.txt"] == "missing"


# the real corpora


def test_the_real_corpora_are_imported_and_verified(shared_data: Path, data_root: Path) -> None:
    assert {file.note for file in import_from("multi30k", shared_data / "multi30k").files} == {
        "as published, 29,000 rows",
        "as published, 1,014 rows",
        "as published, 1,000 rows",
    }
    ag_news = notes(import_from("ag_news", shared_data / "ag_news"))
    assert "part of the published set: 83,352 of 120,000 rows" in ag_news["train.csv"]
    assert "part of the published set: 3,731 of 7,600 rows" in ag_news["test.csv"]
    couplet = notes(import_from("couplet", shared_data / "couplet"))
    assert "part of the published set: 70,444 of 770,491 rows" in couplet["train/in.txt"]
    assert "part of the published set: 2,009 of 4,000 rows" in couplet["test/out.txt"]
    assert "261,340 rows, not in the published set" in couplet["verse/in.txt"]
    assert all(verify(name).is_ok for name in CORPORA)
    assert len(read_labeled_csv(data_root / "ag_news" / "test.csv", num_classes=4)) == 3_731
    folder = data_root / "couplet" / "val"
    assert len(read_parallel(folder / "in.txt", folder / "out.txt")) == 2_000
