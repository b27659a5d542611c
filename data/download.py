"""One file over HTTP, resumed where an earlier attempt ended, in place only when it is complete."""

import http.client
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from tqdm import tqdm

from transformer_suite.core.errors import NetworkError, UserError
from transformer_suite.core.storage.files import reason_of

_TIMEOUT = 30  # seconds without a single byte
_CHUNK = 1 << 16
_CONTENT_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+|\*)")


def download(url: str, target: Path, *, show_progress: bool = False) -> None:
    """Download `url` to `target`; a bar with `show_progress`, on stderr, if that is a terminal.

    What has come so far is kept in `target` + ".part" when the transfer breaks off, and the next
    call asks the server for the rest only, provided the file there is still the same.

    Raises:
        NetworkError: no connection, an HTTP error, or a transfer that broke off.
        UserError: the file cannot be written.
    """
    part = target.with_name(target.name + ".part")
    tag_file = target.with_name(target.name + ".tag")
    with writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        offset = part.stat().st_size if part.exists() else 0
        tag = tag_file.read_text(encoding="utf-8") if tag_file.exists() else ""
    response = _open(url, offset, tag)
    if response is not None and not _continues(response, offset):
        response.close()
        response = None
    if response is None:
        with writing(part):
            part.unlink()
        response = _open(url, 0, "")
    assert response is not None  # only a request for a range can be refused that way
    with response:
        if response.status != http.HTTPStatus.PARTIAL_CONTENT:
            offset = 0
        if response.headers.get_content_type() == "text/html":
            raise NetworkError(
                f"{url}: the answer is a web page, not the file (a login page of this network?)"
            )
        total = _total(response, offset)
        if not offset:
            # In this order: a new tag beside an old beginning would mix two versions of the file.
            with writing(part):
                part.unlink(missing_ok=True)
                tag_file.write_text(_tag(response), encoding="utf-8")
        with (
            writing(part),
            part.open("ab") as file,
            tqdm(
                desc=target.name,
                total=total,
                initial=offset,
                unit="B",
                unit_scale=True,
                disable=None if show_progress else True,
            ) as bar,
        ):
            received = offset + _receive(response, url, file, bar)
    if total is not None and received < total:
        raise NetworkError(f"{url}: the connection ended after {received:,} of {total:,} bytes")
    with writing(target):
        part.replace(target)
        tag_file.unlink()


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Say which file cannot be written, when the body fails to."""
    try:
        yield
    except OSError as error:
        raise UserError(f"{path}: cannot write: {reason_of(error)}") from error


def _open(url: str, offset: int, tag: str) -> http.client.HTTPResponse | None:
    """The server's answer to a request for `url` from `offset` on; None if it has no such part."""
    request = urllib.request.Request(url, headers={"User-Agent": "transformer-suite"})
    if offset:
        request.add_header("Range", f"bytes={offset}-")
        if tag:
            # The whole file comes instead if it is not the one of which we have the beginning.
            request.add_header("If-Range", tag)
    try:
        response: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=_TIMEOUT)
    except urllib.error.HTTPError as error:
        if offset and error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            return None
        raise NetworkError(f"{url}: HTTP {error.code} {error.reason}") from error
    except (OSError, http.client.HTTPException) as error:
        raise NetworkError(f"{url}: {_network_reason(error)}") from error
    return response


def _continues(response: http.client.HTTPResponse, offset: int) -> bool:
    """Whether the answer is the whole file, or the very rest of it that was asked for."""
    if response.status != http.HTTPStatus.PARTIAL_CONTENT:
        return True
    match = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
    return match is not None and int(match[1]) == offset


def _total(response: http.client.HTTPResponse, offset: int) -> int | None:
    length = response.headers.get("Content-Length", "")
    return offset + int(length) if length.isdigit() else None


def _tag(response: http.client.HTTPResponse) -> str:
    """What names this very version of the file to the server; weak tags may not be used for it."""
    etag: str = response.headers.get("ETag", "")
    modified: str = response.headers.get("Last-Modified", "")
    return modified if not etag or etag.startswith("W/") else etag


def _receive(
    response: http.client.HTTPResponse, url: str, file: BinaryIO, bar: "tqdm[None]"
) -> int:
    received = 0
    while True:
        try:
            chunk = response.read(_CHUNK)
        except (OSError, http.client.HTTPException) as error:
            raise NetworkError(f"{url}: {_network_reason(error)}") from error
        if not chunk:
            return received
        file.write(chunk)
        bar.update(len(chunk))
        received += len(chunk)


def _network_reason(error: Exception) -> str:
    """Why, in words: urllib wraps the reason once more."""
    cause = getattr(error, "reason", error)
    if isinstance(cause, OSError):
        return reason_of(cause)
    return str(cause) or type(cause).__name__
