"""The files in which corpora are published: plain, gzipped, or members of a tar archive.

pooch unpacks archives too, but without a limit of the size, and it follows links.
"""

from __future__ import annotations

import gzip
import io
import shutil
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from core.errors import CorpusError
from core.storage.files import atomic_write, reason_of, require_regular_file
from data.corpora import CorpusFile, total

if TYPE_CHECKING:
    from _typeshed import SupportsRead

_CANNOT_UNPACK = (OSError, EOFError, zlib.error, tarfile.TarError, ValueError)

# An archive may have other members than the wanted ones, of at most this size in all.
_MAX_UNWANTED_BYTES = 1 << 28


@dataclass(frozen=True, slots=True)
class Archive:
    """A local file that contains ``files`` of a corpus; errors name it by its ``origin``.

    Its name says what it is: ``.tar.gz`` has several files, any other one, maybe as ``.gz``.
    """

    path: Path
    files: tuple[CorpusFile, ...]
    origin: str


def unpack(archive: Archive, folder: Path) -> None:
    """Writes the files of an archive under ``folder``, with their names in the catalog.

    Raises:
        CorpusError: the archive is damaged, or lacks a file, or a file is larger than published.
        UserError: ``folder`` cannot be written.
    """
    path, is_tar = archive.path, archive.path.name.endswith(".tar.gz")
    size = total(file.max_size for file in archive.files)
    limit = None if size is None else size + is_tar * _MAX_UNWANTED_BYTES
    try:
        require_regular_file(path)
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as content:
            limited = _Limited(content, limit)
            members = _members(archive, limited) if is_tar else [(archive.files[0], limited)]
            for file, member in members:
                with atomic_write(folder / file.name) as temporary, temporary.open("wb") as copy:
                    shutil.copyfileobj(member, copy)
    except _CANNOT_UNPACK as error:
        reason = reason_of(error) if isinstance(error, OSError) else str(error)
        kind = f"not a valid {path.suffix[1:]} file" if path.suffix == ".gz" else "cannot read"
        raise CorpusError(archive.origin, f"{kind}: {reason}") from error


def _members(archive: Archive, content: _Limited) -> Iterator[tuple[CorpusFile, IO[bytes]]]:
    """Yields the wanted members. Names in the archive never become paths on this disk."""
    wanted = {file.member: file for file in archive.files}
    with tarfile.open(fileobj=content, mode="r|") as tar:
        for member in tar:
            name = member.name.removeprefix("./")
            # Links are not followed: they may lead out of the archive.
            opened = tar.extractfile(member) if name in wanted and member.isreg() else None
            if opened is None:
                continue
            file = wanted.pop(name)
            if file.max_size is not None and member.size > file.max_size:
                raise ValueError(f"{file.name} has more than {file.max_size:,} bytes")
            yield file, opened
    while content.read(1 << 20):
        pass  # the checksum of gzip comes after the last member
    if wanted:
        raise CorpusError(archive.origin, f"has no {', '.join(sorted(map(str, wanted)))}")


class _Limited(io.RawIOBase):
    """Reads ``file``, but not more than ``limit`` bytes.

    A few bytes of gzip can become gigabytes, also in names and members that nobody wants.
    """

    def __init__(self, file: SupportsRead[bytes], limit: int | None) -> None:
        self._file, self._limit, self._count = file, limit, 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        content = self._file.read(size)
        self._count += len(content)
        if self._limit is not None and self._count > self._limit:
            raise ValueError(f"it has more than {self._limit:,} bytes, the published size")
        return content
