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
from data.download import _check_address, download
from tests.data.web_server import Behavior

CONTENT = random.Random(0).randbytes(300_000)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "new" / "file.bin"


@pytest.fixture
def url(server: Behavior) -> str:
    server.files["/file.bin"] = CONTENT
    return f"{server.address}/file.bin"


def test_a_file_comes_whole_and_leaves_nothing_beside_it(url: str, target: Path) -> None:
    download(url, target)
    assert target.read_bytes() == CONTENT
    assert list(target.parent.iterdir()) == [target]


def test_a_broken_transfer_says_how_far_it_came(server: Behavior, url: str, target: Path) -> None:
    server.sends_at_most = 200_000
    with pytest.raises(NetworkError, match="ended after 200,000 of 300,000 bytes"):
        download(url, target)
    assert list(target.parent.iterdir()) == []
    server.sends_at_most = None
    download(url, target)
    assert target.read_bytes() == CONTENT


def test_an_answer_of_unknown_length_is_taken_when_it_is_complete(
    server: Behavior, url: str, target: Path
) -> None:
    server.is_chunked = True
    download(url, target)
    assert target.read_bytes() == CONTENT


def test_an_answer_of_unknown_length_that_is_cut_off_is_not_taken(
    server: Behavior, url: str, target: Path
) -> None:
    server.is_chunked = True
    server.sends_at_most = 200_000
    with pytest.raises(NetworkError, match="IncompleteRead"):
        download(url, target)
    assert not target.exists()


def test_an_http_error_is_named_with_the_address(server: Behavior, target: Path) -> None:
    with pytest.raises(NetworkError, match=rf"{server.address}/none: HTTP 404 Not Found"):
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


def test_nobody_at_the_address(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, but nobody listens
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/file.bin"
        with pytest.raises(NetworkError, match=f"{url}: Connection refused"):
            download(url, target)


def test_a_name_that_does_not_exist(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    with pytest.raises(NetworkError, match=r"https://no-such-host\.invalid/a: "):
        download("https://no-such-host.invalid/a", target)


def test_a_silent_server_is_given_up(
    url: str, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("data.download._TIMEOUT", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/a"
        with pytest.raises(NetworkError, match=f"{address}: timed out"):
            download(address, target)


def test_a_folder_that_cannot_be_made_is_a_user_error(url: str, tmp_path: Path) -> None:
    (tmp_path / "a_file").touch()
    with pytest.raises(UserError, match="cannot write"):
        download(url, tmp_path / "a_file" / "file.bin")


def test_a_full_disk_is_not_blamed_on_the_network(
    url: str, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("data.download._chunks", full)
    with pytest.raises(UserError, match=r"file\.bin: cannot write: No space left") as caught:
        download(url, target)
    assert not isinstance(caught.value, NetworkError)


def test_without_a_terminal_there_is_no_bar(
    url: str, target: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    download(url, target, show_progress=True)
    assert capsys.readouterr() == ("", "")


def test_on_a_terminal_there_is_a_bar_on_stderr(
    url: str,
    target: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    download(url, target, show_progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert "file.bin: 100%" in err


def test_a_length_that_is_no_number_is_ignored(server: Behavior, url: str, target: Path) -> None:
    """A superscript two counts as a digit for ``str.isdigit``, but not for ``int``."""
    server.length = "\u00b2"
    download(url, target)
    assert target.read_bytes() == CONTENT


def test_a_redirect_to_a_bad_address_is_an_error_of_the_network(
    server: Behavior, url: str, target: Path
) -> None:
    server.redirect = "http://[::1/file.bin"
    with pytest.raises(NetworkError, match=url):
        download(url, target)


@pytest.mark.parametrize(
    "redirect",
    ["ftp://127.0.0.1/file.bin", "http://files.invalid/file.bin", "file:///etc/passwd", "data:,x"],
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
@given(redirect=header_values, scheme=st.sampled_from(["", "http://127.0.0.1:", "https://[", "//"]))
def test_any_redirect_is_followed_or_an_error_of_the_network(
    server: Behavior, url: str, target: Path, scheme: str, redirect: str
) -> None:
    """Malformed addresses were tracebacks."""
    server.redirect = scheme + redirect
    try:
        download(url, target)
    except NetworkError as error:
        assert str(error).startswith(url)
    else:
        assert target.read_bytes() == CONTENT


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(length=header_values | st.integers().map(str) | st.integers(1, 9).map(lambda n: "9" * n**4))
def test_any_length_is_ignored_or_an_error_of_the_network(
    server: Behavior, url: str, target: Path, length: str
) -> None:
    server.length = length
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
    with pytest.raises(NetworkError, match=r"larger than the published file .*299,999 bytes"):
        download(url, target, max_bytes=len(CONTENT) - 1)
    assert not target.exists()
    download(url, target, max_bytes=len(CONTENT))
    assert target.read_bytes() == CONTENT
