"""Work on a corpus that is done once: its results on disk, under a key of all they depend on.

An entry is a safetensors file with a checksum, so reading one runs nothing, and damage is noticed.
It is written in one step, and what it holds is decided by its name: programs that run side by side
can do each other no harm.
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

from transformer_suite.core.errors import CheckpointError, UserError
from transformer_suite.core.progress import say
from transformer_suite.core.storage.checkpoint import load_tensors, save_tensors
from transformer_suite.core.storage.files import atomic_write
from transformer_suite.data.corpora import data_folder

FORMAT_VERSION = 1

_SMALL_BYTES = 1 << 18  # of a corpus: less is worked through in no time
_MAX_BYTES = 2 << 30  # of all entries together, or the newest alone
_FOLDER = "prepared"
_OWN_CODE = sorted(str(path) for path in Path(__file__).parent.glob("*.py"))


def remembered(
    kind: str,
    compute: Callable[[], Mapping[str, Tensor]],
    *,
    files: Sequence[Path],
    settings: Mapping[str, object],
    code: Iterable[str] = (),
) -> Mapping[str, Tensor]:
    """The result of ``compute``, from disk if it has been computed before.

    Args:
        kind: what is computed.
        files: what it is computed from; their contents count, not their names.
        settings: what else decides the result, as plain values.
        code: the source files that compute it; those of this package count in any case.

    What is computed from little is not kept. Where nothing can be written, nothing is.
    """
    path = _entry(kind, files, settings, code)
    if path is None:
        return compute()
    if path.is_file():
        try:
            return _read(path)
        except CheckpointError as error:
            say(f"{error}; it is made anew")
    tensors = compute()
    try:
        save_tensors(path, tensors)
        _remove_old(path)
    except UserError as error:
        say(f"{error}; what was prepared for this run cannot be kept for the next")
    return tensors


def remember_files(
    kind: str,
    make: Callable[[], object],
    folder: Path,
    names: Sequence[str],
    **about: Any,
) -> None:
    """Puts the files ``names`` into ``folder``: by ``make``, or as it has made them before.

    ``about`` are the other arguments of :func:`remembered`.
    """

    def compute() -> dict[str, Tensor]:
        make()
        contents = {name: bytearray((folder / name).read_bytes()) for name in names}
        return {name: torch.frombuffer(c, dtype=torch.uint8) for name, c in contents.items()}

    tensors = remembered(kind, compute, **about)
    for name in names:
        with atomic_write(folder / name) as temporary:
            temporary.write_bytes(tensors[name].numpy().tobytes())


def _entry(
    kind: str, files: Sequence[Path], settings: Mapping[str, object], code: Iterable[str]
) -> Path | None:
    """The file of an entry, there yet or not; None where there should be none."""
    about = {
        "version": FORMAT_VERSION,
        "kind": kind,
        "settings": settings,
        # Text is handled by Python's own tables, which its versions change.
        "python": sys.version_info[:2],
    }
    try:
        if sum(path.stat().st_size for path in files) < _SMALL_BYTES:
            return None
        about["files"] = [_digest(path) for path in files]
        about["code"] = [_digest(Path(name)) for name in (*_OWN_CODE, *code)]
        folder = data_folder() / _FOLDER
    except (OSError, RuntimeError):  # a file that cannot be read, as others will say; no home
        return None
    key = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
    return folder / f"{key}.safetensors"


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read(path: Path) -> Mapping[str, Tensor]:
    tensors = load_tensors(path)
    with suppress(OSError):  # another's, perhaps, to whom it matters when it was last used
        path.touch()
    return tensors


def _remove_old(newest: Path) -> None:
    """Removes what has not been used for longest until the rest is small enough."""
    total = 0
    with suppress(OSError):  # another program may be at it too
        entries = [(path.stat(), path) for path in newest.parent.glob("*.safetensors")]
        for status, path in sorted(entries, key=lambda e: e[0].st_mtime, reverse=True):
            total += status.st_size
            if total > _MAX_BYTES and path != newest:
                path.unlink()
