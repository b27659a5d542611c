"""Downloads over good, bad and broken connections, against a server on this machine."""

import errno
import os
import random
import socket
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.errors import NetworkError, UserError
from data.fetching import _check_address, _LimitedFile, download
from tests.data.web_server import Behavior

CONTENT = random.Random(0).randbytes(300_000)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "new" / "file.bin"


@pytest.fixture
def url(server: Behavior) -> str:
    server.files["/file.bin"] = CONTENT
    return f"{server.address}/file.bin"


@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_file_comes_whole_or_not_at_all(
    server: Behavior, url: str, target: Path, is_chunked: bool
) -> None:
    """Its length may be unknown."""
    server.is_chunked, server.sends_at_most = is_chunked, 200_000
    with pytest.raises(NetworkError, match=rf"{url}: .*(IncompleteRead|ended prematurely)"):
        download(url, target)
    assert list(target.parent.iterdir()) == []
    server.sends_at_most = None
    download(url, target)
    assert target.read_bytes() == CONTENT
    assert list(target.parent.iterdir()) == [target]


def test_an_http_error_is_named_with_the_address(server: Behavior, target: Path) -> None:
    with pytest.raises(NetworkError, match=rf"{server.address}/none: 404 .*Not Found"):
        download(f"{server.address}/none", target)
    assert not target.exists()


def test_a_web_page_in_place_of_the_file_is_refused(
    server: Behavior, url: str, target: Path
) -> None:
    """Hotel and campus networks answer every request with their login page, status 200."""
    server.content_type = "text/html; charset=utf-8"
    with pytest.raises(NetworkError, match="a web page, not the file"):
        download(url, target)
    assert not target.exists()


@pytest.mark.parametrize(("busy", "reason"), [(False, "Connection refused"), (True, "timed out")])
def test_a_server_that_does_not_answer(
    target: Path, monkeypatch: pytest.MonkeyPatch, busy: bool, reason: str
) -> None:
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr("data.fetching._TIMEOUT", 0.05)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        if busy:  # nobody listens, or nobody answers
            taken.listen()
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/file.bin"
        with pytest.raises(NetworkError, match=f"{url}: .*{reason}"):
            download(url, target)


def test_what_cannot_be_written_is_not_blamed_on_the_network(
    url: str, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(_LimitedFile, "write", full)
    with pytest.raises(UserError, match=r"file\.bin: cannot write: No space left") as caught:
        download(url, target)
    assert not isinstance(caught.value, NetworkError)
    target.parent.rmdir()
    target.parent.touch()
    with pytest.raises(UserError, match="cannot write"):
        download(url, target)


def test_a_bar_is_on_stderr_and_on_a_terminal_only(
    url: str, target: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    download(url, target, show_progress=True)
    assert capsys.readouterr() == ("", "")
    target.unlink()
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    download(url, target, show_progress=True)
    out, err = capsys.readouterr()
    assert (out, "100%" in err) == ("", True)


@pytest.mark.parametrize(
    "redirect",
    [
        *("ftp://127.0.0.1/file.bin", "http://files.invalid/file.bin", "file:///etc/passwd"),
        *("data:,x", "http://[::1/file.bin"),
    ],
)
def test_only_https_redirects_are_followed(
    server: Behavior, url: str, target: Path, redirect: str
) -> None:
    """A redirect to ftp was followed: anybody on the way could change the file."""
    server.redirect = redirect
    with pytest.raises(NetworkError, match=url):
        download(url, target)
    assert not target.exists()


def test_https_does_not_lead_to_http_on_this_machine() -> None:
    local = "http://127.0.0.1:80/a"
    _check_address(local, "http://localhost/a")
    with pytest.raises(ValueError, match="only https"):
        _check_address(local, "https://example.org/a")


header_values = st.text(st.characters(min_codepoint=32, max_codepoint=255), max_size=40)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    redirect=st.just("") | header_values,
    scheme=st.sampled_from(["", "http://127.0.0.1:", "https://[", "//"]),
    length=st.just("") | header_values | st.integers().map(str),
)
def test_any_header_is_understood_or_an_error_of_the_network(
    server: Behavior, url: str, target: Path, scheme: str, redirect: str, length: str
) -> None:
    """Malformed addresses were tracebacks."""
    server.redirect, server.length = scheme + redirect, length
    target.unlink(missing_ok=True)
    try:
        download(url, target)
    except NetworkError as error:
        assert str(error).startswith(url)
    else:
        assert CONTENT.startswith(target.read_bytes())


@pytest.mark.parametrize("is_chunked", [False, True])
def test_an_answer_that_is_too_large_is_given_up(
    server: Behavior, url: str, target: Path, is_chunked: bool
) -> None:
    """A wrong file of any size filled the disk before its checksum was compared."""
    server.is_chunked = is_chunked
    with pytest.raises(NetworkError, match=r"larger than the published file: .*299,999 bytes"):
        download(url, target, max_bytes=len(CONTENT) - 1)
    assert not target.exists()
    download(url, target, max_bytes=len(CONTENT))
    assert target.read_bytes() == CONTENT
