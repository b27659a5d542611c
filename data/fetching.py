"""Downloads corpora into their folders, and verifies them.

pooch transfers files and computes checksums. What it lacks is here: addresses with HTTPS alone, as
others could be read and changed on the way; limits of what is downloaded and unpacked; archives
whose links and names lead nowhere. A file reaches its place when it is complete and checked.
"""

import gzip
import io
import shutil
import sys
import tarfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any, BinaryIO, cast
from urllib.parse import urljoin, urlsplit

from core.errors import CorpusError, NetworkError, shorten
from core.storage.files import atomic_write, is_file, reason_of, require_regular_file, writing
from data.corpora import Corpus, CorpusFile, corpus_folder, find_corpus
from data.readers import csv_rows, iter_lines, reading

_TIMEOUT = 30  # seconds without a single byte
_LOCAL_HOSTS = ("127.0.0.1", "::1", "localhost")
# Without compression on the way, the sizes are those of the file.
_HEADERS = {"User-Agent": "transformer-suite", "Accept-Encoding": "identity"}
_MAX_REASON = 300

# Bytes in all, above those of the wanted files: headers, and other members of an archive.
_MAX_OVERHEAD = 1 << 24
_MAX_UNWANTED_BYTES = 1 << 28

_CANNOT_UNPACK = (OSError, EOFError, zlib.error, tarfile.TarError, ValueError)


@dataclass(frozen=True, slots=True)
class FileReport:
    """The state of a file of a corpus, and whether it has all published rows."""

    name: str
    note: str
    is_ok: bool = True
    is_whole: bool = True


def fetch(name: str, *, show_progress: bool = False) -> list[FileReport]:
    """Downloads the files of a corpus that are missing from its folder, or not as published.

    Raises a NetworkError if a download fails, a CorpusError if a file is not the published one.
    """
    corpus, folder = find_corpus(name), corpus_folder(name)
    missing: dict[str, list[CorpusFile]] = {}
    for file in corpus.files:
        if file.url is not None and not _inspect(corpus, file, folder).is_whole:
            missing.setdefault(file.url, []).append(file)
    for url, files in missing.items():
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
        with writing(folder), TemporaryDirectory(dir=folder, prefix=".staging-") as temporary:
            staging = Path(temporary)
            path = staging / url.rpartition("/")[2]
            limit = sum(file.max_size or 0 for file in files) + _MAX_OVERHEAD
            try:
                download(url, path, max_bytes=limit, show_progress=show_progress)
            except NetworkError as error:
                raise NetworkError(
                    f"cannot download {error}. Try `cli.py data fetch {name}` again, or put copies "
                    f"of the files, unpacked, into {folder}"
                ) from error
            unpack(path, files, staging, origin=url)
            for file in files:
                report = _inspect(corpus, file, staging)
                if not report.is_whole:
                    raise CorpusError(url, f"{file.name}: {report.note}")
            for file in files:
                (folder / file.name).parent.mkdir(exist_ok=True)
                (staging / file.name).replace(folder / file.name)
    return verify(name)


def verify(name: str) -> list[FileReport]:
    """Compares files with published checksums or row counts. Raises a CorpusError without files."""
    corpus, folder = find_corpus(name), corpus_folder(name)
    if not any(is_file(folder / file.name) for file in corpus.files):
        raise CorpusError(folder, f"{name} is not there: get it with `cli.py data fetch {name}`")
    files = (file for file in corpus.files if file.is_required or is_file(folder / file.name))
    return [_inspect(corpus, file, folder) for file in files]


def download(
    url: str, target: Path, *, max_bytes: int | None = None, show_progress: bool = False
) -> None:
    """Downloads ``url`` to ``target``; a progress bar appears only on a terminal.

    A server on this machine may use HTTP.

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

    get = pooch.HTTPDownloader(
        progressbar=show_progress and sys.stderr.isatty(),
        timeout=_TIMEOUT,
        headers=_HEADERS,
        hooks={"response": _check_response},
    )
    try:
        _check_address(url, url)
        with _writing(target, max_bytes) as file:
            get(url, file, None)
    except (RequestException, HTTPError, ValueError) as error:
        raise NetworkError(f"{url}: {shorten(str(error), _MAX_REASON)}") from error


def unpack(path: Path, files: Sequence[CorpusFile], folder: Path, *, origin: str) -> None:
    """Writes the files at ``path`` under ``folder``, with their names in the catalog.

    The name of ``path`` says what it is: ``.tar.gz`` has several files, any other one, maybe as
    ``.gz``. Names in an archive never become paths on this disk.

    Raises:
        CorpusError: the archive, named by its ``origin``, is damaged, lacks a file or is too large.
        UserError: ``folder`` cannot be written.
    """
    try:
        require_regular_file(path)
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as content:
            if not path.name.endswith(".tar.gz"):
                _copy(content, folder / files[0].name, files[0].max_size)
                return
            # Unpacked at first, within a limit: tarfile holds a name of any length in memory.
            archive = folder / ".tar"
            _copy(content, archive, sum(f.max_size or 0 for f in files) + _MAX_UNWANTED_BYTES)
        with tarfile.open(archive, "r:") as tar:
            # Links are not followed: they may lead out of the archive.
            members = {m.name.removeprefix("./"): m for m in tar if m.isreg()}
            missing = sorted({str(file.member) for file in files} - members.keys())
            if missing:
                raise CorpusError(origin, f"has no {', '.join(missing)}")
            for file in files:
                member = tar.extractfile(members[str(file.member)])
                _copy(cast(IO[bytes], member), folder / file.name, file.max_size)
        archive.unlink()
    except _CANNOT_UNPACK as error:
        reason = reason_of(error) if isinstance(error, OSError) else str(error)
        kind = f"not a valid {path.suffix[1:]} file" if path.suffix == ".gz" else "cannot read"
        raise CorpusError(origin, f"{kind}: {reason}") from error


def _inspect(corpus: Corpus, file: CorpusFile, folder: Path) -> FileReport:
    """Returns the state of a file, which may be missing."""
    import pooch

    path = folder / file.name
    wrong = FileReport(file.name, "missing", is_ok=False, is_whole=False)
    if not is_file(path):
        return wrong
    try:
        with reading(path):
            sha256 = pooch.file_hash(path)
        if sha256 == file.sha256:
            return FileReport(file.name, f"as published, {file.rows:,} rows")
        rows = sum(1 for _ in (csv_rows(path) if path.suffix == ".csv" else iter_lines(path)))
    except CorpusError as error:
        place = "" if error.line is None else f"line {error.line}: "
        return replace(wrong, note=place + error.reason)
    if file.rows is None and rows:
        return FileReport(file.name, f"{rows:,} rows, not in the published set")
    if rows == file.rows and file.sha256 is None:
        note = f"{rows:,} rows as published, no published sha256 to compare with"
        return FileReport(file.name, note)
    if corpus.accepts_subset and 0 < rows < (file.rows or 0):
        note = f"part of the published set: {rows:,} of {file.rows:,} rows"
        return FileReport(file.name, note, is_whole=False)
    expected = f"{file.rows or 1:,} rows, sha256 {file.sha256 or 'unknown'}"
    note = f"not as published: {rows:,} rows, sha256 {sha256}; expected {expected}"
    return replace(wrong, note=note)


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
            raise ValueError(f"larger than the published file: more than {self._most:,} bytes")
        return self._file.write(content)


@contextmanager
def _writing(target: Path, most: int | None) -> Iterator[_LimitedFile]:
    with atomic_write(target) as temporary, temporary.open("wb") as file:
        yield _LimitedFile(file, most)


def _copy(content: Any, target: Path, most: int | None) -> None:
    """Copies at most ``most`` bytes: a few bytes of gzip can become gigabytes."""
    with _writing(target, most) as file:
        shutil.copyfileobj(content, file)
