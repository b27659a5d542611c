"""Downloads one file over HTTPS; it is in place only when it is complete.

Redirects are followed to HTTPS addresses only: others could be read and changed on the way. A
server on this machine may use HTTP.
"""

import http.client
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from tqdm import tqdm

from core.errors import NetworkError
from core.storage.files import atomic_write, reason_of

_TIMEOUT = 30  # seconds without a single byte
_CHUNK = 1 << 16
_LOCAL_HOSTS = ("127.0.0.1", "::1", "localhost")


def download(
    url: str, target: Path, *, max_bytes: int | None = None, show_progress: bool = False
) -> None:
    """Downloads ``url`` to ``target``; a progress bar appears only on a terminal.

    Args:
        max_bytes: a larger answer is given up as soon as it is known to be larger.

    Raises:
        NetworkError: no connection, an HTTP error, an address that is not safe, or an answer that
            is incomplete or too large.
        UserError: the file cannot be written.
    """
    with _open(url) as response:
        if response.headers.get_content_type() == "text/html":
            raise NetworkError(
                f"{url}: the answer is a web page, not the file (a login page of this network?)"
            )
        length = response.headers.get("Content-Length", "")
        total = int(length) if re.fullmatch("[0-9]{1,18}", length) else None
        _check_size(url, total or 0, max_bytes)
        with (
            atomic_write(target) as temporary,
            temporary.open("wb") as file,
            tqdm(
                desc=target.name,
                total=total,
                unit="B",
                unit_scale=True,
                disable=None if show_progress else True,
            ) as bar,
        ):
            for chunk in _chunks(response, url):
                _check_size(url, file.tell() + len(chunk), max_bytes)
                file.write(chunk)
                bar.update(len(chunk))
            if total is not None and file.tell() < total:
                raise NetworkError(
                    f"{url}: the connection ended after {file.tell():,} of {total:,} bytes"
                )


class _SafeRedirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects to safe addresses only."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        _check_address(newurl, req.full_url)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


_OPENER = urllib.request.build_opener(_SafeRedirects)


def _check_address(url: str, origin: str) -> None:
    """Checks that ``url`` has HTTPS, or leads from this machine to itself.

    Raises:
        ValueError: it is not safe, or not an address.
    """
    if urlsplit(url).scheme == "https":
        return
    if not all(_is_local(address) for address in (url, origin)):
        raise ValueError(f"only https addresses are used, not {url[:200]!r}")


def _is_local(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme == "http" and parts.hostname in _LOCAL_HOSTS


def _check_size(url: str, size: int, max_bytes: int | None) -> None:
    if max_bytes is not None and size > max_bytes:
        raise NetworkError(
            f"{url}: the answer is larger than the published file (more than {max_bytes:,} bytes)"
        )


def _open(url: str) -> http.client.HTTPResponse:
    try:
        request = urllib.request.Request(url, headers={"User-Agent": "transformer-suite"})
        _check_address(url, url)
        response: http.client.HTTPResponse = _OPENER.open(request, timeout=_TIMEOUT)
    except urllib.error.HTTPError as error:
        raise NetworkError(f"{url}: HTTP {error.code} {_printable(error.reason)}") from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise NetworkError(f"{url}: {_network_reason(error)}") from error
    return response


def _chunks(response: http.client.HTTPResponse, url: str) -> Iterator[bytes]:
    try:
        while chunk := response.read(_CHUNK):
            yield chunk
    except (OSError, http.client.HTTPException) as error:
        raise NetworkError(f"{url}: {_network_reason(error)}") from error


def _network_reason(error: Exception) -> str:
    """Returns the reason in words; urllib may wrap the error that has it."""
    cause = getattr(error, "reason", error)
    if isinstance(cause, OSError):
        return reason_of(cause)
    return _printable(str(cause)) or type(cause).__name__


def _printable(text: str) -> str:
    """Returns the beginning of a text of the server, without control characters."""
    return "".join(c if c.isprintable() else "?" for c in text[:200])
