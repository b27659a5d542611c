"""Brings corpora into their folders, by download or from local copies, and verifies them.

A file reaches its place only when it is complete and checked.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from core.config import from_mapping
from core.errors import ConfigError, CorpusError, NetworkError, UserError
from core.storage.files import exists, is_file, is_folder, read_json, reason_of, write_json
from data.archives import Archive, unpack
from data.corpora import Corpus, CorpusFile, corpus_folder, find_corpus, total
from data.download import download
from data.readers import read_labeled_csv, read_lines

RECORD_NAME = "corpus.json"

# Headers of archives, and other members that are published with the wanted ones.
_MAX_OVERHEAD = 1 << 24


@dataclass(frozen=True, slots=True)
class FileRecord:
    """What is recorded about a fetched file; ``source`` is an address or a path."""

    sha256: str
    size: int
    rows: int
    source: str
    date: str


@dataclass(frozen=True, slots=True)
class FileReport:
    """The state of one file of a corpus; ``note`` explains it.

    ``is_whole`` is False for a file that lacks some of the published rows.
    """

    name: str
    is_ok: bool
    note: str
    is_whole: bool = True


@dataclass(frozen=True, slots=True)
class CorpusReport:
    """The result of a fetch, an import or a verification, file by file."""

    corpus: Corpus
    folder: Path
    files: tuple[FileReport, ...]

    @property
    def is_ok(self) -> bool:
        return all(file.is_ok for file in self.files)


def fetch(name: str, *, show_progress: bool = False) -> CorpusReport:
    """Downloads and checks the files of a corpus that are missing from its folder.

    Raises:
        NetworkError: a download failed.
        CorpusError: the files are not the published ones.
        UserError: the folder cannot be written.
    """
    corpus, folder = find_corpus(name), corpus_folder(name)
    for url, files in _missing(corpus, folder).items():
        with _staging(folder) as staging:
            path = staging / url.rpartition("/")[2]
            size = total(file.max_size for file in files)
            limit = None if size is None else size + _MAX_OVERHEAD
            try:
                download(url, path, max_bytes=limit, show_progress=show_progress)
            except NetworkError as error:
                raise NetworkError(
                    f"cannot download {error}. Try `cli.py data fetch {name}` again, or import "
                    f"copies of the files: `cli.py data import {name}`"
                ) from error
            archive = Archive(path, tuple(files), origin=url)
            _install(corpus, folder, [archive], accepts_subset=False)
    return verify(name)


def import_from(name: str, source: str | Path) -> CorpusReport:
    """Copies a corpus from the folder ``source``, which holds its files, unpacked or as published.

    Either all files are taken or none. If ``corpus.accepts_subset``, files with fewer rows than the
    published ones are taken as well, and the report says so.

    Raises:
        CorpusError: a file is missing, unreadable, or not the published one.
        UserError: the corpus folder cannot be written.
    """
    corpus, folder = find_corpus(name), corpus_folder(name)
    archives = _local_archives(corpus, Path(source).absolute())
    _install(corpus, folder, archives, accepts_subset=corpus.accepts_subset)
    return verify(name)


def verify(name: str) -> CorpusReport:
    """Compares the files of a corpus with the published checksums, or else the recorded ones.

    Raises:
        CorpusError: no file of the corpus is there.
    """
    corpus, folder = find_corpus(name), corpus_folder(name)
    if not any(is_file(folder / file.name) for file in corpus.files):
        raise CorpusError(
            folder,
            f"{name} is not there: get it with `cli.py data fetch {name}`, "
            f"or import copies of its files with `cli.py data import {name}`",
        )
    records = read_record(folder)
    reports = (_verify(file, folder, records.get(file.name)) for file in corpus.files)
    return CorpusReport(corpus, folder, tuple(filter(None, reports)))


def read_record(folder: Path) -> dict[str, FileRecord]:
    """Returns the records of a corpus folder by file name; none without a record file."""
    path = folder / RECORD_NAME
    content = read_json(path) if exists(path) else {"files": {}}
    try:
        files = content["files"]  # type: ignore[index]  # checked by the handler below
        return {name: from_mapping(FileRecord, fields) for name, fields in files.items()}
    except (TypeError, KeyError, AttributeError, ConfigError) as error:
        raise CorpusError(
            path, "not a record of a corpus: remove it, then fetch or import again"
        ) from error


def _install(
    corpus: Corpus, folder: Path, archives: Iterable[Archive], *, accepts_subset: bool
) -> None:
    """Brings the files of all archives into the corpus folder; none of them if one is wrong."""
    with _staging(folder) as staging:
        staged = {file: record for a in archives for file, record in _stage(a, staging)}
        _check_published(staged, accepts_subset=accepts_subset)
        records = read_record(folder)
        with _writing(folder):
            for file, record in staged.items():
                target = folder / file.name
                target.parent.mkdir(parents=True, exist_ok=True)
                (staging / file.name).replace(target)
                records[file.name] = record
        files = {name: asdict(record) for name, record in sorted(records.items())}
        write_json(folder / RECORD_NAME, {"corpus": corpus.name, "files": files})


def _missing(corpus: Corpus, folder: Path) -> dict[str, list[CorpusFile]]:
    """Returns the files that are not in the folder as published, by address."""
    records = read_record(folder)
    missing: dict[str, list[CorpusFile]] = {}
    for file in corpus.files:
        report = _verify(file, folder, records.get(file.name))
        if file.url is not None and not (report and report.is_ok and report.is_whole):
            missing.setdefault(file.url, []).append(file)
    return missing


def _local_archives(corpus: Corpus, source: Path) -> list[Archive]:
    """Returns where in ``source`` the files of the corpus are, unpacked or as published."""
    if not is_folder(source):
        raise CorpusError(source, "not a folder")
    found: dict[Path, list[CorpusFile]] = {}
    for file in corpus.files:
        published = source / (file.url or "").rpartition("/")[2]
        if is_file(source / file.name):
            found[source / file.name] = [file]
        elif is_file(published):
            found.setdefault(published, []).append(file)
        elif file.is_required:
            packed = f" and no {published.name}" if published.name != file.name else ""
            raise CorpusError(source, f"has no {file.name}{packed}: is this {corpus.title}?")
    return [Archive(path, tuple(files), str(path)) for path, files in found.items()]


@contextmanager
def _staging(folder: Path) -> Iterator[Path]:
    """A temporary folder inside the corpus folder."""
    with _writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        staging = tempfile.TemporaryDirectory(dir=folder, prefix=".staging-")
    with staging as path:
        yield Path(path)


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UserError(f"{folder}: cannot write: {reason_of(error)}") from error


def _stage(archive: Archive, staging: Path) -> Iterator[tuple[CorpusFile, FileRecord]]:
    """Unpacks the files of an archive into ``staging`` and reads them through."""
    unpack(archive, staging)
    for file in archive.files:
        path = staging / file.name
        try:
            rows = len(read_labeled_csv(path) if path.suffix == ".csv" else read_lines(path))
            if not rows:
                raise CorpusError(path, "the file is empty")
        except CorpusError as error:
            inside = f"in {file.name}: " if archive.path.suffix == ".gz" else ""
            raise CorpusError(archive.origin, inside + error.reason, error.line) from error
        size, date = path.stat().st_size, datetime.now(UTC).strftime("%Y-%m-%d")
        yield file, FileRecord(_sha256(path), size, rows, archive.origin, date)


def _sha256(path: Path) -> str:
    import pooch

    try:
        return pooch.file_hash(path)
    except OSError as error:
        raise CorpusError(path, f"cannot read: {reason_of(error)}") from error


def _check_published(staged: Mapping[CorpusFile, FileRecord], *, accepts_subset: bool) -> None:
    """Refuses files that are neither the published ones nor, if allowed, a subset of their rows.

    Files of one split that have different numbers of lines are refused, too.
    """
    first: dict[str, CorpusFile] = {}
    for file, record in staged.items():
        is_subset = accepts_subset and file.rows is not None and record.rows < file.rows
        is_published = file.rows in (None, record.rows) and file.sha256 in (None, record.sha256)
        if not (is_subset or is_published):
            raise CorpusError(
                record.source,
                f"not {file.name} as published: {record.rows:,} rows, sha256 {record.sha256}; "
                f"expected {file.rows:,} rows, sha256 {file.sha256 or 'unknown'}",
            )
        aligned = first.setdefault(file.split, file)
        if record.rows != staged[aligned].rows:
            reason = f"{record.rows:,} lines, but {aligned.name} has {staged[aligned].rows:,}"
            raise CorpusError(record.source, reason)


def _verify(file: CorpusFile, folder: Path, record: FileRecord | None) -> FileReport | None:
    """Returns the state of one file; None for an optional file that was never there."""
    path = folder / file.name
    if not is_file(path):
        is_expected = file.is_required or record is not None
        return FileReport(file.name, False, "missing") if is_expected else None
    sha256 = _sha256(path)
    if sha256 == file.sha256:
        return FileReport(file.name, True, f"as published, {file.rows:,} rows")
    if record is None:
        reason = f"not as published: sha256 {sha256}" if file.sha256 else "of unknown origin"
        return FileReport(file.name, False, f"{reason}; fetch or import it")
    if sha256 != record.sha256:
        note = f"changed since {record.date}: sha256 {sha256}, was {record.sha256}"
        return FileReport(file.name, False, note)
    is_whole = file.rows is None or record.rows >= file.rows
    if not is_whole:
        origin = f"part of the published set: {record.rows:,} of {file.rows:,} rows"
    elif file.url is None:
        origin = f"{record.rows:,} rows, not in the published set"
    else:
        origin = f"{record.rows:,} rows, no published sha256 to compare with"
    note = f"{origin}; sha256 as recorded on {record.date}"
    return FileReport(file.name, True, note, is_whole)
