"""A cache on disk for what is computed from a corpus: vocabularies and encoded texts.

An entry is a safetensors file with a checksum: reading one runs no code, and damage is noticed. Its
name is a hash of everything that decides its content, and it is written atomically, so programs
that run at the same time can share the cache.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from core.errors import CheckpointError, UserError
from core.progress import log
from core.storage.checkpoint import load_tensors, save_tensors
from core.storage.files import atomic_write, is_file
from data.corpora import data_folder

FORMAT_VERSION = 2

_MIN_CORPUS_BYTES = 1 << 18  # a smaller corpus is processed in an instant
_MAX_BYTES = 2 << 30  # of all entries together; the newest entry stays even if it is larger
_FOLDER = "prepared"
_NAME = "name of this entry"  # a tensor in each entry
_OWN_CODE = sorted(str(path) for path in Path(__file__).parent.glob("*.py"))


def cached(
    kind: str,
    compute: Callable[[], Mapping[str, Tensor]],
    *,
    files: Sequence[Path],
    settings: Mapping[str, object],
    code: Iterable[str] = (),
) -> Mapping[str, Tensor]:
    """Returns the result of ``compute``, from the cache if it was computed before.

    Results for a small corpus are not cached. A cache that cannot be written is only reported.

    Args:
        kind: names what is computed.
        files: the input files. Their contents are part of the key, their names are not.
        settings: everything else that decides the result, as plain values.
        code: the source files that compute the result, apart from those of this package.
    """
    path = _entry_path(kind, files, settings, code)
    if path is None:
        return compute()
    try:
        if is_file(path):
            entry = _load_entry(path)
            with suppress(OSError):  # the file may belong to another user
                path.touch()  # marks the entry as recently used
            return entry
    except UserError as error:  # damaged, or in a folder of another user
        log(f"{error}; it is computed again")
    computed = compute()
    try:
        save_tensors(path, {**computed, _NAME: _as_tensor(path.name)})
        _remove_old_entries(path)
    except UserError as error:
        log(f"{error}; the prepared data cannot be cached for the next run")
    return computed


def cached_files(
    kind: str, make: Callable[[], object], folder: Path, names: Sequence[str], **key: Any
) -> None:
    """Puts the files ``names`` into ``folder``: from the cache, or else by calling ``make``.

    ``key`` are the other arguments of :func:`cached`.
    """

    def compute() -> dict[str, Tensor]:
        make()
        contents = {name: bytearray((folder / name).read_bytes()) for name in names}
        return {name: torch.frombuffer(c, dtype=torch.uint8) for name, c in contents.items()}

    tensors = cached(kind, compute, **key)
    for name in names:
        with atomic_write(folder / name) as temporary:
            temporary.write_bytes(tensors[name].numpy().tobytes())


def _load_entry(path: Path) -> dict[str, Tensor]:
    """Returns the tensors of an entry.

    Raises:
        CheckpointError: it is damaged, or has the name of another entry.
    """
    tensors = load_tensors(path)
    name = tensors.pop(_NAME, None)
    if name is None or not torch.equal(name, _as_tensor(path.name)):
        raise CheckpointError(f"{path}: damaged: the content of another entry")
    return tensors


def _as_tensor(text: str) -> Tensor:
    return torch.tensor(list(text.encode()), dtype=torch.uint8)


def _entry_path(
    kind: str, files: Sequence[Path], settings: Mapping[str, object], code: Iterable[str]
) -> Path | None:
    """Returns the path of an entry, or None if the result is not to be cached."""
    key = {
        "version": FORMAT_VERSION,
        "kind": kind,
        "settings": settings,
        # Python's own Unicode tables, which decide how text is split, change with its version.
        "python": sys.version_info[:2],
    }
    try:
        if not all(path.is_file() for path in files):  # the reader says what is wrong
            return None
        if sum(path.stat().st_size for path in files) < _MIN_CORPUS_BYTES:
            return None
        key["files"] = [_digest(path) for path in files]
        key["code"] = [_digest(Path(name)) for name in (*_OWN_CODE, *code)]
        folder = data_folder() / _FOLDER
    except (OSError, RuntimeError):  # unreadable, which the reader reports; no home folder
        return None
    digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()
    return folder / f"{digest}.safetensors"


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _remove_old_entries(newest: Path) -> None:
    """Removes the least recently used entries until the others fit into ``_MAX_BYTES``."""
    total = 0
    with suppress(OSError):  # another program may remove entries at the same time
        entries = [(path.stat(), path) for path in newest.parent.glob("*.safetensors")]
        for status, path in sorted(entries, key=lambda e: e[0].st_mtime, reverse=True):
            total += status.st_size
            if total > _MAX_BYTES and path != newest:
                path.unlink()
