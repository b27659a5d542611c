"""Downloads one file over HTTP; it is in place only when it is complete."""

import http.client
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from tqdm import tqdm

from transformer_suite.core.errors import NetworkError
from transformer_suite.core.storage.files import atomic_write, reason_of

_TIMEOUT = 30  # seconds without a single byte
_CHUNK = 1 << 16


def download(url: str, target: Path, *, show_progress: bool = False) -> None:
    """Downloads ``url`` to ``target``; a progress bar appears only on a terminal.

    Raises:
        NetworkError: no connection, an HTTP error, or an incomplete transfer.
        UserError: the file cannot be written.
    """
    with _open(url) as response:
        if response.headers.get_content_type() == "text/html":
            raise NetworkError(
                f"{url}: the answer is a web page, not the file (a login page of this network?)"
            )
        length = response.headers.get("Content-Length", "")
        total = int(length) if length.isdecimal() else None
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
                file.write(chunk)
                bar.update(len(chunk))
            if total is not None and file.tell() < total:
                raise NetworkError(
                    f"{url}: the connection ended after {file.tell():,} of {total:,} bytes"
                )


def _open(url: str) -> http.client.HTTPResponse:
    try:
        request = urllib.request.Request(url, headers={"User-Agent": "transformer-suite"})
        response: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=_TIMEOUT)
    except urllib.error.HTTPError as error:
        raise NetworkError(f"{url}: HTTP {error.code} {error.reason}") from error
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
    return str(cause) or type(cause).__name__
