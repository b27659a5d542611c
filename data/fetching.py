"""Corpora into their folders, by download or from copies at hand, and the check that they still
are what they were. A file reaches its place only whole and checked."""

import hashlib
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from transformer_suite.core.errors import CorpusError, NetworkError
from transformer_suite.core.storage.files import read_json, reason_of, write_json
from transformer_suite.data.archives import Package, unpack
from transformer_suite.data.corpora import Corpus, CorpusFile, Packing, corpus_folder, find_corpus
from transformer_suite.data.download import download, writing
from transformer_suite.data.readers import read_labeled_csv, read_lines

RECORD_NAME = "corpus.json"


@dataclass(frozen=True, slots=True)
class FileRecord:
    """What was noted about a file when it came; `source` is an address or a path."""

    sha256: str
    size: int
    rows: int
    source: str
    date: str


@dataclass(frozen=True, slots=True)
class FileReport:
    """One file of a corpus, and in `note` what is to be said of it."""

    name: str
    is_ok: bool
    note: str


@dataclass(frozen=True, slots=True)
class CorpusReport:
    """The outcome of a fetch, an import or a verification, file by file."""

    corpus: Corpus
    folder: Path
    files: tuple[FileReport, ...]

    @property
    def is_ok(self) -> bool:
        return all(file.is_ok for file in self.files)


@dataclass(frozen=True, slots=True)
class _Staged:
    """A file beside its final place, checked."""

    file: CorpusFile
    path: Path
    record: FileRecord


def fetch(name: str, *, show_progress: bool = False) -> CorpusReport:
    """Download what is not there yet of a corpus, check it and put it into its folder.

    Raises:
        NetworkError: names the address and how else to get the corpus.
        CorpusError: what came is not what was published.
        UserError: the folder cannot be written.
    """
    corpus, folder = find_corpus(name), corpus_folder(name)
    downloads = folder / ".download"
    try:
        for url, files in _missing(corpus, folder).items():
            archive = downloads / url.rpartition("/")[2]
            _download(name, url, archive, show_progress=show_progress)
            try:
                package = Package(archive, files[0].packing, tuple(files), origin=url)
                _install(corpus, folder, [package], accepts_parts=False)
            finally:
                # Kept, a wrong or damaged download would only fail again.
                archive.unlink(missing_ok=True)
    finally:
        with suppress(OSError):  # it is not empty when a transfer broke off
            downloads.rmdir()
    return verify(name)


def import_from(name: str, source: str | Path) -> CorpusReport:
    """Copy a corpus from the folder `source`, which holds its files, unpacked or as published.

    Either all files are taken or none. Where `corpus.accepts_parts`, files with fewer rows than
    the published ones are taken as well, and the report says so.

    Raises:
        CorpusError: a file is missing, unreadable, or not what was published.
        UserError: the corpus folder cannot be written.
    """
    corpus, folder = find_corpus(name), corpus_folder(name)
    packages = _local_packages(corpus, Path(source).absolute())
    _install(corpus, folder, packages, accepts_parts=corpus.accepts_parts)
    return verify(name)


def verify(name: str) -> CorpusReport:
    """Compare the files of a corpus with the published checksums, or with those noted on arrival.

    Raises:
        CorpusError: no file of the corpus is there.
    """
    corpus, folder = find_corpus(name), corpus_folder(name)
    if not any((folder / file.name).is_file() for file in corpus.files):
        raise CorpusError(
            folder,
            f"{name} is not there: get it with `cli.py data fetch {name}`, "
            f"or from copies with `cli.py data import {name} --from FOLDER`",
        )
    records = read_record(folder)
    reports = (_verify(file, folder, records.get(file.name)) for file in corpus.files)
    return CorpusReport(corpus, folder, tuple(filter(None, reports)))


def read_record(folder: Path) -> dict[str, FileRecord]:
    """What is noted in a corpus folder, by file name; empty where nothing is.

    Raises:
        UserError: there are notes, but they cannot be read.
    """
    path = folder / RECORD_NAME
    if not path.exists():
        return {}
    content = read_json(path)
    try:
        files = content["files"]  # type: ignore[index]  # checked by the handler below
        return {name: FileRecord(**fields) for name, fields in files.items()}
    except (TypeError, KeyError, AttributeError) as error:
        raise CorpusError(
            path, "not a record of a corpus: remove it, then fetch or import again"
        ) from error


def _download(name: str, url: str, archive: Path, *, show_progress: bool) -> None:
    try:
        download(url, archive, show_progress=show_progress)
    except NetworkError as error:
        raise NetworkError(
            f"cannot download {error}. Try `cli.py data fetch {name}` again (it goes on where "
            f"it stopped), or use copies: `cli.py data import {name} --from FOLDER`"
        ) from error


def _install(
    corpus: Corpus, folder: Path, packages: Iterable[Package], *, accepts_parts: bool
) -> None:
    """Bring the files of all packages into the corpus folder, or, if one is wrong, none of them."""
    with _staging(folder) as staging:
        staged = [item for package in packages for item in _stage(package, staging)]
        _check_published(staged, accepts_parts=accepts_parts)
        _check_aligned(staged)
        _place(corpus, folder, staged)


def _missing(corpus: Corpus, folder: Path) -> dict[str, list[CorpusFile]]:
    """The published files that are not in the folder as published, by address."""
    records = read_record(folder)
    missing: dict[str, list[CorpusFile]] = {}
    for file in corpus.files:
        if file.url is None:
            continue
        path, record = folder / file.name, records.get(file.name)
        sha256 = _sha256(path) if path.is_file() else None
        is_as_fetched = record is not None and (record.source, record.sha256) == (file.url, sha256)
        if sha256 is None or not (sha256 == file.sha256 or is_as_fetched):
            missing.setdefault(file.url, []).append(file)
    return missing


def _local_packages(corpus: Corpus, source: Path) -> list[Package]:
    """Where in `source` the files of the corpus are: as themselves, or in what is published."""
    if not source.is_dir():
        raise CorpusError(source, "not a folder")
    found: dict[tuple[Path, Packing], list[CorpusFile]] = {}
    for file in corpus.files:
        archive = source / (file.url or "").rpartition("/")[2]
        if (source / file.name).is_file():
            found[source / file.name, Packing.PLAIN] = [file]
        elif archive.is_file():
            found.setdefault((archive, file.packing), []).append(file)
        elif file.is_required:
            packed = "" if file.packing is Packing.PLAIN else f" and no {archive.name}"
            raise CorpusError(source, f"has no {file.name}{packed}: is this {corpus.title}?")
    return [Package(*place, tuple(files), str(place[0])) for place, files in found.items()]


@contextmanager
def _staging(folder: Path) -> Iterator[Path]:
    """A folder inside the corpus folder, gone at the end with what is left in it."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        staging = tempfile.TemporaryDirectory(dir=folder, prefix=".staging-")
    with staging as path:
        yield Path(path)


def _stage(package: Package, staging: Path) -> list[_Staged]:
    """Unpack the files of a package into `staging` and look into them."""
    staged = []
    for file, path in unpack(package, staging):
        try:
            rows = _count_rows(path)
        except CorpusError as error:
            inside = "" if package.packing is Packing.PLAIN else f"in {file.name}: "
            raise CorpusError(package.origin, inside + error.reason, error.line) from error
        record = FileRecord(
            sha256=_sha256(path),
            size=path.stat().st_size,
            rows=rows,
            source=package.origin,
            date=datetime.now(UTC).strftime("%Y-%m-%d"),
        )
        staged.append(_Staged(file, path, record))
    return staged


def _count_rows(path: Path) -> int:
    rows = len(read_labeled_csv(path) if path.suffix == ".csv" else read_lines(path))
    if not rows:
        raise CorpusError(path, "the file is empty")
    return rows


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise CorpusError(path, f"cannot read: {reason_of(error)}") from error


def _check_published(staged: Iterable[_Staged], *, accepts_parts: bool) -> None:
    """Refuse a file that is not the published one, nor a part of it where that is allowed."""
    for item in staged:
        file, record = item.file, item.record
        is_part = file.rows is not None and record.rows < file.rows
        if file.sha256 in (None, record.sha256) or (accepts_parts and is_part):
            continue
        raise CorpusError(
            record.source,
            f"not {file.name} as published: {record.rows:,} rows, sha256 {record.sha256}; "
            f"expected {file.rows:,} rows, sha256 {file.sha256}",
        )


def _check_aligned(staged: Iterable[_Staged]) -> None:
    """Files of one split belong together line by line."""
    first: dict[str, _Staged] = {}
    for item in staged:
        other = first.setdefault(item.file.split, item)
        if item.record.rows != other.record.rows:
            raise CorpusError(
                item.record.source,
                f"{item.record.rows:,} lines, but {other.file.name} has {other.record.rows:,}",
            )


def _place(corpus: Corpus, folder: Path, staged: Iterable[_Staged]) -> None:
    """Move checked files to their places and note what they are."""
    records = read_record(folder)
    with writing(folder):
        for item in staged:
            target = folder / item.file.name
            target.parent.mkdir(parents=True, exist_ok=True)
            item.path.replace(target)
            records[item.file.name] = item.record
    files = {name: asdict(record) for name, record in sorted(records.items())}
    write_json(folder / RECORD_NAME, {"corpus": corpus.name, "files": files})


def _verify(file: CorpusFile, folder: Path, record: FileRecord | None) -> FileReport | None:
    """The state of one file; None for one that is neither there nor expected."""
    path = folder / file.name
    if not path.is_file():
        is_expected = file.is_required or record is not None
        return FileReport(file.name, False, "missing") if is_expected else None
    sha256 = _sha256(path)
    if sha256 == file.sha256:
        return FileReport(file.name, True, f"as published, {file.rows:,} rows")
    if record is None:
        expected = f"not as published: sha256 {sha256}" if file.sha256 else "of unknown origin"
        return FileReport(file.name, False, f"{expected}; fetch or import it")
    if sha256 != record.sha256:
        note = f"changed since {record.date}: sha256 {sha256}, was {record.sha256}"
        return FileReport(file.name, False, note)
    return FileReport(
        file.name, True, f"{_origin(file, record)}; sha256 as recorded on {record.date}"
    )


def _origin(file: CorpusFile, record: FileRecord) -> str:
    """How a file that is not known by its checksum relates to the published set."""
    if file.url is None:
        return f"{record.rows:,} rows, not in the published set"
    if file.rows is not None and record.rows < file.rows:
        return f"part of the published set: {record.rows:,} of {file.rows:,} rows"
    return f"{record.rows:,} rows, no published sha256 to compare with"
