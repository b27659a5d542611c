"""What a corpus travels in: a file as it is, gzipped, or a member of a tar archive."""

import gzip
import os
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from transformer_suite.core.errors import CorpusError
from transformer_suite.core.storage.files import reason_of
from transformer_suite.data.corpora import CorpusFile, Packing
from transformer_suite.data.download import writing

if TYPE_CHECKING:
    from _typeshed import SupportsRead

_CANNOT_UNPACK = (OSError, EOFError, zlib.error, tarfile.TarError)


@dataclass(frozen=True, slots=True)
class Package:
    """Something on this disk that holds `files` of a corpus; errors name it by its `origin`."""

    path: Path
    packing: Packing
    files: tuple[CorpusFile, ...]
    origin: str


def unpack(package: Package, folder: Path) -> Iterator[tuple[CorpusFile, Path]]:
    """Write the files of a package under `folder`, by their names in the catalogue.

    Raises:
        CorpusError: the package cannot be read, is damaged or lacks a file.
        UserError: `folder` cannot be written.
    """
    for file, content in _contents(package):
        target = folder / file.name
        with writing(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("wb") as copy:
                while chunk := _read_chunk(content, package):
                    copy.write(chunk)
                copy.flush()
                os.fsync(copy.fileno())
        yield file, target


def _contents(package: Package) -> Iterator[tuple[CorpusFile, "SupportsRead[bytes]"]]:
    """The files of a package, open for reading."""
    try:
        if package.packing is Packing.TAR_GZIP:
            yield from _members(package)
            return
        is_gzip = package.packing is Packing.GZIP
        with gzip.open(package.path) if is_gzip else package.path.open("rb") as content:
            yield package.files[0], content
    except _CANNOT_UNPACK as error:
        raise _unreadable(package, error) from error


def _members(package: Package) -> Iterator[tuple[CorpusFile, "SupportsRead[bytes]"]]:
    """The wanted members of an archive. Names in the archive never become paths on this disk."""
    wanted = {file.member: file for file in package.files}
    with tarfile.open(package.path, "r:gz") as archive:
        for member in archive:
            name = member.name.removeprefix("./")
            # Links are not followed: what they name need not be in the archive.
            content = archive.extractfile(member) if name in wanted and member.isreg() else None
            if content is not None:
                yield wanted.pop(name), content
    if wanted:
        raise CorpusError(package.origin, f"has no {', '.join(sorted(map(str, wanted)))}")


def _read_chunk(content: "SupportsRead[bytes]", package: Package) -> bytes:
    """Apart, so that what cannot be read is not taken for what cannot be written."""
    try:
        return content.read(1 << 20)
    except _CANNOT_UNPACK as error:
        raise _unreadable(package, error) from error


def _unreadable(package: Package, error: Exception) -> CorpusError:
    reason = reason_of(error) if isinstance(error, OSError) else str(error)
    is_plain = package.packing is Packing.PLAIN
    fault = "cannot read" if is_plain else f"not a sound {package.packing.value} file"
    return CorpusError(package.origin, f"{fault}: {reason}")
