"""Corpora by download: all that was published, checked, or nothing; and a way to go on."""

import gzip
import re
import shutil
import socket
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from core.errors import CorpusError, NetworkError, UserError
from data.corpora import CORPORA, DATA_FOLDER_VARIABLE, Corpus
from data.fetching import fetch, verify
from data.pairs import read_parallel
from tests.data.small_corpora import ENGLISH, GERMAN, NEWS, contents, notes, tar_of
from tests.data.web_server import Behavior
from tests.unprivileged import as_nobody


@pytest.mark.usefixtures("captions")
def test_fetch_unpacks_and_checks_and_leaves_nothing_else(data_root: Path) -> None:
    reports = fetch("small")
    assert all(file.is_ok for file in reports)
    assert notes(reports) == dict.fromkeys(["train.de", "train.en"], "as published, 2 rows")
    assert contents(data_root / "small") == {"train.de": GERMAN, "train.en": ENGLISH}
    assert len(list((data_root / "small").iterdir())) == 2


@pytest.mark.usefixtures("couplets")
def test_fetch_takes_the_members_it_knows_from_one_download(
    server: Behavior, data_root: Path
) -> None:
    reports = fetch("small")
    assert contents(data_root / "small") == {"train/in.txt": GERMAN, "train/out.txt": ENGLISH}
    assert len(server.requests) == 1
    assert all(file.is_ok for file in reports)
    note = "2 rows as published, no published sha256 to compare with"
    assert notes(reports)["train/in.txt"] == note


@pytest.mark.parametrize("corpus", ["captions", "news", "couplets"])
@pytest.mark.usefixtures("data_root")
def test_what_is_there_is_not_fetched_again(
    server: Behavior, corpus: str, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue(corpus)
    fetch("small")
    server.requests.clear()
    assert all(file.is_ok for file in fetch("small"))
    assert server.requests == []


def test_no_network_says_how_to_go_on(
    captions: Corpus, monkeypatch: pytest.MonkeyPatch, data_root: Path
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/train.de.gz"
        lost = replace(captions, files=(replace(captions.files[0], url=url),))
        monkeypatch.setitem(CORPORA, "small", lost)
        with pytest.raises(NetworkError) as caught:
            fetch("small")
    message = str(caught.value)
    assert message.startswith(f"cannot download {url}: ")
    assert "Connection refused" in message
    assert "`cli.py data fetch small`" in message
    assert f"put copies of the files, unpacked, into {data_root / 'small'}" in message
    assert contents(data_root / "small") == {}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (gzip.compress(b"ein Hund\nzwei Katzen\n"), "train.de: not as published: 2 rows, sha256"),
        (gzip.compress(b"ein Hund\n"), "train.de: not as published: 1 rows, sha256"),
        (gzip.compress(b""), "train.de: not as published: 0 rows"),
        (gzip.compress(b"ein H\xff"), "train.de.gz: train.de: line 1: not valid UTF-8"),
    ],
)
@pytest.mark.usefixtures("captions")
def test_wrong_bytes_are_refused_and_not_kept(
    server: Behavior, data_root: Path, content: bytes, message: str
) -> None:
    right = server.files["/train.de.gz"]
    server.files["/train.de.gz"] = content
    with pytest.raises(CorpusError, match=message) as caught:
        fetch("small")
    assert str(caught.value).startswith(f"{server.address}/train.de.gz")
    assert contents(data_root / "small") == {}
    server.files["/train.de.gz"] = right
    assert all(file.is_ok for file in fetch("small"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (tar_of({"set/in.txt": GERMAN}), "has no set/out.txt"),
        # 85 lines of rubbish were installed as "770,491 rows", as there is no published sha256.
        (tar_of({"set/in.txt": b"ein\n", "set/out.txt": b"a\n"}), "in.txt: part of .* 1 of 2"),
    ],
)
@pytest.mark.usefixtures("couplets")
def test_of_a_wrong_archive_nothing_is_kept(
    server: Behavior, data_root: Path, content: bytes, message: str
) -> None:
    server.files["/set.tar.gz"] = content
    with pytest.raises(CorpusError, match=message):
        fetch("small")
    assert contents(data_root) == {}


@pytest.mark.usefixtures("news")
def test_a_table_that_cannot_be_read_is_refused_with_its_row(
    server: Behavior, data_root: Path
) -> None:
    server.files["/train.csv"] = NEWS + b'"3","\n'
    with pytest.raises(CorpusError, match=r"/train\.csv: train\.csv: row 3: not valid CSV"):
        fetch("small")
    assert contents(data_root) == {}


@pytest.mark.usefixtures("news")
def test_fetch_replaces_a_part(data_root: Path) -> None:
    (data_root / "small").mkdir(parents=True)
    (data_root / "small" / "train.csv").write_bytes(NEWS.splitlines(keepends=True)[0])
    assert notes(verify("small"))["train.csv"] == "part of the published set: 1 of 2 rows"
    assert notes(fetch("small")) == {"train.csv": "as published, 2 rows"}
    assert contents(data_root) == {"small/train.csv": NEWS}


@pytest.mark.usefixtures("news")
def test_a_data_folder_that_cannot_be_made_is_a_user_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a_file").touch()
    monkeypatch.setenv("TRANSFORMER_SUITE_DATA", str(tmp_path / "a_file"))
    with pytest.raises(UserError, match="cannot write"):
        fetch("small")


def test_a_data_folder_of_another_user_is_one_line(
    captions: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root reads everything; an ordinary user got a traceback."""
    (tmp_path / "root").mkdir(mode=0o000)
    monkeypatch.setenv(DATA_FOLDER_VARIABLE, str(tmp_path / "root"))
    for parent in (tmp_path, *tmp_path.parents[:2]):
        parent.chmod(0o755)
    for work in (fetch, verify):
        error = as_nobody(partial(work, captions.name))
        assert re.match(r"(User|Corpus)Error: .*Permission denied", error)


@pytest.mark.usefixtures("captions", "data_root")
def test_verify_says_how_to_get_what_is_not_there() -> None:
    with pytest.raises(CorpusError, match=r"small is not there: get it with `cli\.py data fetch"):
        verify("small")


@pytest.mark.usefixtures("captions")
def test_verify_finds_what_is_missing_or_wrong(data_root: Path) -> None:
    folder = data_root / "small"
    folder.mkdir(parents=True)
    (folder / "train.de").write_bytes(b"ein Hund\nzwei Katzen\n")
    reports = verify("small")
    assert not any(file.is_ok for file in reports)
    assert notes(reports)["train.de"].startswith("not as published: 2 rows, sha256 ")
    assert notes(reports)["train.en"] == "missing"


@pytest.mark.usefixtures("news")
def test_more_rows_than_were_published_are_wrong(data_root: Path) -> None:
    (data_root / "small").mkdir(parents=True)
    (data_root / "small" / "train.csv").write_bytes(NEWS * 2)
    (report,) = verify("small")
    assert (report.is_ok, report.note[:26]) == (False, "not as published: 4 rows, ")


def test_copies_of_the_real_corpora_are_verified(shared_data: Path, data_root: Path) -> None:
    for name in CORPORA:
        shutil.copytree(shared_data / name, data_root / name)
        assert all(file.is_ok for file in verify(name))
    assert set(notes(verify("multi30k")).values()) == {
        "as published, 29,000 rows",
        "as published, 1,014 rows",
        "as published, 1,000 rows",
    }
    ag_news = notes(verify("ag_news"))
    assert "part of the published set: 83,352 of 120,000 rows" in ag_news["train.csv"]
    assert "part of the published set: 3,731 of 7,600 rows" in ag_news["test.csv"]
    couplet = notes(verify("couplet"))
    assert "part of the published set: 70,444 of 770,491 rows" in couplet["train/in.txt"]
    assert "part of the published set: 2,009 of 4,000 rows" in couplet["test/out.txt"]
    assert "261,340 rows, not in the published set" in couplet["verse/in.txt"]
    folder = data_root / "couplet" / "val"
    assert len(read_parallel(folder / "in.txt", folder / "out.txt")) == 2_000
