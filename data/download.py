"""Downloads one file over HTTPS with pooch, which moves it to its place when it is complete.

What pooch lacks is here: redirects lead to HTTPS addresses only, because others could be read and
changed on the way, and an answer that is too large is given up. A server on this machine may use
HTTP.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urljoin, urlsplit

from core.errors import NetworkError, UserError, shorten
from core.storage.files import reason_of

_TIMEOUT = 30  # seconds without a single byte
_CHUNK = 1 << 16
_LOCAL_HOSTS = ("127.0.0.1", "::1", "localhost")
# Without compression on the way, the sizes are those of the file.
_HEADERS = {"User-Agent": "transformer-suite", "Accept-Encoding": "identity"}
_MAX_REASON = 300


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
    import pooch
    from requests import RequestException
    from urllib3.exceptions import HTTPError

    def limited(url: str, output: str, _: object) -> None:
        with Path(output).open("wb") as file:
            get(url, _LimitedFile(file, max_bytes), None)

    get = pooch.HTTPDownloader(
        progressbar=show_progress and sys.stderr.isatty(),
        chunk_size=_CHUNK,
        timeout=_TIMEOUT,
        headers=_HEADERS,
        hooks={"response": _check_response},
    )
    pooch.get_logger().setLevel("WARNING")
    try:
        _check_address(url, url)
        pooch.retrieve(
            url, known_hash=None, fname=target.name, path=target.parent, downloader=limited
        )
    except (RequestException, HTTPError, ValueError) as error:
        raise NetworkError(f"{url}: {shorten(str(error), _MAX_REASON)}") from error
    except OSError as error:
        raise UserError(f"{target}: cannot write: {reason_of(error)}") from error


def _check_response(response: Any, **options: object) -> None:
    """Raises a ValueError if a response leads to an address that is not safe, or is a web page."""
    if response.is_redirect:
        _check_address(urljoin(response.url, response.headers["Location"]), response.url)
    elif response.ok and response.headers.get("Content-Type", "").startswith("text/html"):
        raise ValueError("the answer is a web page, not the file (a login page of this network?)")


def _check_address(url: str, origin: str) -> None:
    """Raises a ValueError unless ``url`` has HTTPS, or leads from this machine to itself."""
    parts = urlsplit(url), urlsplit(origin)
    is_local = all(p.scheme == "http" and p.hostname in _LOCAL_HOSTS for p in parts)
    if parts[0].scheme != "https" and not is_local:
        raise ValueError(f"only https addresses are used, not {url[:200]!r}")


class _LimitedFile(io.RawIOBase):
    """Writes to ``file``, but not more than ``most`` bytes."""

    def __init__(self, file: BinaryIO, most: int | None) -> None:
        self._file, self._most = file, most

    def write(self, content: Any) -> int:
        if self._most is not None and self._file.tell() + len(content) > self._most:
            raise ValueError(
                f"the answer is larger than the published file (more than {self._most:,} bytes)"
            )
        return self._file.write(content)
