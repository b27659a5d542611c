"""The files in which corpora are published: plain, gzipped, or members of a tar archive."""

import gzip
import io
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import CorpusError
from core.storage.files import atomic_write, reason_of, require_regular_file
from data.corpora import ArchiveFormat, CorpusFile

if TYPE_CHECKING:
    from _typeshed import SupportsRead

_CANNOT_UNPACK = (OSError, EOFError, zlib.error, tarfile.TarError, ValueError)

# An archive may have other members than the wanted ones, of at most this size in all.
_MAX_UNWANTED_BYTES = 1 << 28


@dataclass(frozen=True, slots=True)
class Archive:
    """A local file that contains ``files`` of a corpus; errors name it by its ``origin``."""

    path: Path
    format: ArchiveFormat
    files: tuple[CorpusFile, ...]
    origin: str


def unpack(archive: Archive, folder: Path) -> Iterator[tuple[CorpusFile, Path]]:
    """Writes the files of an archive under ``folder``, with their names in the catalog.

    Raises:
        CorpusError: the archive is damaged, or lacks a file, or a file is larger than published.
        UserError: ``folder`` cannot be written.
    """
    for file, content in _contents(archive):
        target = folder / file.name
        with atomic_write(target) as temporary, temporary.open("wb") as copy:
            while chunk := _read_chunk(content, archive):
                copy.write(chunk)
                if file.max_size is not None and copy.tell() > file.max_size:
                    raise CorpusError(
                        archive.origin,
                        f"not {file.name} as published: more than {file.max_size:,} bytes",
                    )
        yield file, target


def _contents(archive: Archive) -> Iterator[tuple[CorpusFile, "SupportsRead[bytes]"]]:
    """Yields the files of an archive, open for reading."""
    try:
        require_regular_file(archive.path)
        if archive.format is ArchiveFormat.TAR_GZIP:
            yield from _members(archive)
            return
        is_gzip = archive.format is ArchiveFormat.GZIP
        with gzip.open(archive.path) if is_gzip else archive.path.open("rb") as content:
            yield archive.files[0], content
    except _CANNOT_UNPACK as error:
        raise _unreadable(archive, error) from error


def _members(archive: Archive) -> Iterator[tuple[CorpusFile, "SupportsRead[bytes]"]]:
    """Yields the wanted members. Names in the archive never become paths on this disk."""
    wanted = {file.member: file for file in archive.files}
    sizes = [file.max_size for file in archive.files]
    limit = sum(size or 0 for size in sizes) + _MAX_UNWANTED_BYTES if all(sizes) else None
    with (
        gzip.open(archive.path) as content_of_tar,
        _Limited(content_of_tar, limit) as limited,
        tarfile.open(fileobj=limited, mode="r|") as tar,
    ):
        for member in tar:
            name = member.name.removeprefix("./")
            # Links are not followed: they may lead out of the archive.
            content = tar.extractfile(member) if name in wanted and member.isreg() else None
            if content is not None:
                yield wanted.pop(name), content
        while limited.read(1 << 20):
            pass  # the checksum of gzip comes after the last member
    if wanted:
        raise CorpusError(archive.origin, f"has no {', '.join(sorted(map(str, wanted)))}")


class _Limited(io.RawIOBase):
    """Reads ``file``, but not more than ``limit`` bytes.

    Names and members that nobody wants are read as well, and a few bytes of gzip can become
    gigabytes.
    """

    def __init__(self, file: "SupportsRead[bytes]", limit: int | None) -> None:
        self._file, self._limit = file, limit
        self._count = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        content = self._file.read(size)
        self._count += len(content)
        if self._limit is not None and self._count > self._limit:
            raise tarfile.ReadError(f"it has more than {self._limit:,} bytes")
        return content


def _read_chunk(content: "SupportsRead[bytes]", archive: Archive) -> bytes:
    """Reads on; an error here is the archive's, not that of the file being written."""
    try:
        return content.read(1 << 20)
    except _CANNOT_UNPACK as error:
        raise _unreadable(archive, error) from error


def _unreadable(archive: Archive, error: Exception) -> CorpusError:
    reason = reason_of(error) if isinstance(error, OSError) else str(error)
    is_plain = archive.format is ArchiveFormat.PLAIN
    fault = "cannot read" if is_plain else f"not a valid {archive.format.value} file"
    return CorpusError(archive.origin, f"{fault}: {reason}")
