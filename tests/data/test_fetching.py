"""Corpora by download: all that was published, checked, or nothing; and a way to go on."""

import gzip
import json
import math
import re
import socket
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from core.errors import CorpusError, NetworkError, UserError
from data.corpora import CORPORA, DATA_FOLDER_VARIABLE, Corpus
from data.fetching import fetch, import_from, verify
from tests.data.small_corpora import ENGLISH, GERMAN, NEWS, TAR, contents, notes, sha256, tar_of
from tests.data.web_server import Behavior
from tests.unprivileged import as_nobody


@pytest.mark.usefixtures("captions")
def test_fetch_unpacks_and_checks_and_leaves_nothing_else(data_root: Path) -> None:
    report = fetch("small")
    assert report.is_ok
    assert notes(report) == dict.fromkeys(["train.de", "train.en"], "as published, 2 rows")
    assert contents(data_root / "small") == {"train.de": GERMAN, "train.en": ENGLISH}
    assert {path.name for path in (data_root / "small").iterdir()} == {
        "train.de",
        "train.en",
        "corpus.json",
    }


@pytest.mark.usefixtures("couplets")
def test_fetch_takes_the_members_it_knows_from_one_download(
    server: Behavior, data_root: Path
) -> None:
    report = fetch("small")
    assert contents(data_root / "small") == {"train/in.txt": GERMAN, "train/out.txt": ENGLISH}
    assert len(server.requests) == 1
    assert report.is_ok


@pytest.mark.usefixtures("couplets", "data_root")
def test_a_first_fetch_without_a_published_checksum_records_one_and_says_so() -> None:
    note = notes(fetch("small"))["train/in.txt"]
    assert note.startswith("2 rows, no published sha256 to compare with; sha256 as recorded on 20")


@pytest.mark.usefixtures("couplets")
def test_what_is_recorded_tells_later_whether_it_changed(data_root: Path) -> None:
    fetch("small")
    assert verify("small").is_ok
    record = json.loads((data_root / "small" / "corpus.json").read_text())
    assert record["files"]["train/in.txt"]["sha256"] == sha256(GERMAN)
    (data_root / "small" / "train" / "in.txt").write_bytes(GERMAN + b"drei\n")
    report = verify("small")
    assert not report.is_ok
    assert notes(report)["train/in.txt"].startswith("changed since 20")


@pytest.mark.parametrize("corpus", ["captions", "news", "couplets"])
@pytest.mark.usefixtures("data_root")
def test_what_is_there_is_not_fetched_again(
    server: Behavior, corpus: str, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue(corpus)
    fetch("small")
    server.requests.clear()
    assert fetch("small").is_ok
    assert server.requests == []


@pytest.mark.usefixtures("captions")
def test_a_broken_transfer_leaves_nothing_and_can_be_repeated(
    server: Behavior, data_root: Path
) -> None:
    server.sends_at_most = 15
    with pytest.raises(NetworkError, match="15 bytes read"):
        fetch("small")
    assert contents(data_root / "small") == {}
    server.sends_at_most = None
    assert fetch("small").is_ok


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
    assert "`cli.py data import small`" in message
    assert contents(data_root / "small") == {}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (gzip.compress(b"ein Hund\nzwei Katzen\n"), "not train.de as published: 2 rows, sha256"),
        (gzip.compress(b"ein Hund\n"), "not train.de as published: 1 rows, sha256"),
        (gzip.compress(b""), "in train.de: the file is empty"),
        (gzip.compress(b"ein H\xff"), "train.de.gz:1: in train.de: not valid UTF-8"),
        (gzip.compress(GERMAN)[:-12], "not a valid gz file: Compressed file ended"),
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
    assert fetch("small").is_ok


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (tar_of({"set/in.txt": GERMAN}), "has no set/out.txt"),
        (tar_of({"set/in.txt": GERMAN, "set/out.txt": b"a dog\n"}), "out.txt as published: 1 rows"),
        # 85 lines of rubbish were installed as "770,491 rows", as there is no published sha256.
        (tar_of({"set/in.txt": b"ein\n", "set/out.txt": b"a\n"}), "1 rows, .* expected 2 rows"),
        (TAR[: len(TAR) // 2], r"not a valid gz file"),
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
    server.files["/train.csv"] = NEWS + b'"3"\n'
    with pytest.raises(CorpusError, match=r"/train\.csv: row 3: 1 column"):
        fetch("small")
    assert contents(data_root) == {}


def test_fetch_replaces_a_part_that_was_imported(
    news: Corpus, tmp_path: Path, data_root: Path
) -> None:
    part = NEWS.splitlines(keepends=True)[0]
    (tmp_path / "train.csv").write_bytes(part)
    assert "part of the published set" in notes(import_from(news.name, tmp_path))["train.csv"]
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


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(field="rows", value=math.nan)
@given(
    field=st.sampled_from(["sha256", "size", "rows", "source", "date", "more", "all"]),
    value=json_values,
)
def test_a_damaged_record_is_named(
    captions: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, field: str, value: object
) -> None:
    """A text in place of a number of rows was a traceback in ``data verify``."""
    (tmp_path / "train.de").write_bytes(GERMAN)
    (tmp_path / "train.en").write_bytes(ENGLISH)
    monkeypatch.setenv(DATA_FOLDER_VARIABLE, str(tmp_path / "root"))
    import_from(captions.name, tmp_path)
    path = tmp_path / "root" / "small" / "corpus.json"
    record = json.loads(path.read_text())
    record["files"]["train.de"][field] = value
    path.write_text(json.dumps(value if field == "all" else record))
    try:
        assert len(verify("small").files) == 2
    except UserError as error:  # NaN is no JSON, so the file is refused before its contents
        refusals = ("not a record of a corpus", "not usable JSON")
        assert str(error).startswith(tuple(f"{path}: {refusal}" for refusal in refusals))
    finally:
        path.unlink()


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
