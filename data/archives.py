"""The files in which corpora are published: plain, gzipped, or members of a tar archive.

pooch unpacks archives too, but without a limit of the size, and it follows links.
"""

from __future__ import annotations

import gzip
import tarfile
import tempfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

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
    path, (first, *_) = archive.path, archive.files
    try:
        require_regular_file(path)
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as content:
            if path.name.endswith(".tar.gz"):
                _unpack_tar(archive, content, folder)
            else:
                _copy(content, folder / first.name, first.max_size)
    except _CANNOT_UNPACK as error:
        reason = reason_of(error) if isinstance(error, OSError) else str(error)
        kind = f"not a valid {path.suffix[1:]} file" if path.suffix == ".gz" else "cannot read"
        raise CorpusError(archive.origin, f"{kind}: {reason}") from error


def _unpack_tar(archive: Archive, content: SupportsRead[bytes], folder: Path) -> None:
    """Writes the wanted members. Names in the archive never become paths on this disk."""
    size = total(file.max_size for file in archive.files)
    limit = None if size is None else size + _MAX_UNWANTED_BYTES
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as place:
        _copy(content, Path(place, "tar"), limit)
        with tarfile.open(Path(place, "tar"), "r:") as tar:
            # Links are not followed: they may lead out of the archive.
            members = {m.name.removeprefix("./"): m for m in tar if m.isreg()}
            missing = sorted({str(file.member) for file in archive.files} - members.keys())
            if missing:
                raise CorpusError(archive.origin, f"has no {', '.join(missing)}")
            for file in archive.files:
                if (member := tar.extractfile(members[str(file.member)])) is not None:
                    _copy(member, folder / file.name, file.max_size)


def _copy(content: SupportsRead[bytes], target: Path, most: int | None) -> None:
    """Copies at most ``most`` bytes: a few bytes of gzip can become gigabytes."""
    with atomic_write(target) as temporary, temporary.open("wb") as file:
        while chunk := content.read(1 << 20):
            if most is not None and file.tell() + len(chunk) > most:
                raise ValueError(f"it has more than {most:,} bytes, the published size")
            file.write(chunk)
