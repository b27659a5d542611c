"""Files that are either wholly there or not there at all."""

import errno
import json
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..errors import UserError

# What a full or failing disk says in the middle of a write, when no file name comes with the error.
_DISK_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS})

# What files are called until they are whole: by `_name_beside`, and by safetensors, which
# writes into a file of its own first.
_PARTIAL = re.compile(r"\..*\.[0-9a-f]{12}\.partial(\..*)?|\.tmp[0-9A-Za-z]{6}")


def reason_of(error: OSError) -> str:
    """The operating system's reason in words, without the number and the path."""
    return error.strerror or str(error) or type(error).__name__


def require_regular_file(path: str | Path) -> None:
    """Raises an OSError for a pipe, a socket or a device: reading one may never end.

    A missing file raises the usual FileNotFoundError; a folder passes, as ``open`` refuses it.
    """
    mode = Path(path).stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise OSError(errno.EINVAL, "not a regular file", str(path))


@contextmanager
def atomic_write(path: str | Path) -> Iterator[Path]:
    """Yield the path of an empty temporary file beside `path`; it becomes `path` on a clean exit.

    The body writes to the yielded path by whatever means it likes (the suffix is kept, for
    libraries which look at it). If the body raises, `path` is as it was before and the temporary
    file is gone. Missing parent folders are made.

    Raises:
        UserError: the folder or the file cannot be written (no space, no permission, ...).
    """
    target = Path(path)
    if target.exists() and not target.is_file():
        # Renaming over /dev/null would work, for root, and be a bad surprise.
        raise UserError(f"{target}: cannot write: not a regular file")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = _empty_file_beside(target)
    except OSError as error:
        raise UserError(f"{target}: cannot write: {reason_of(error)}") from error
    try:
        yield temporary
        _sync(temporary)
        temporary.replace(target)
        _sync(target.parent)
    except OSError as error:
        # The body may do other work, whose errors are not about this file.
        if error.errno in _DISK_ERRORS or error.filename in (temporary, str(temporary)):
            raise UserError(f"{target}: cannot write: {reason_of(error)}") from error
        raise
    finally:
        with suppress(OSError):
            temporary.unlink()


@contextmanager
def new_folder(path: str | Path) -> Iterator[Path]:
    """Yield the path of an empty temporary folder beside `path`; it becomes `path` on a clean exit.

    If the body raises, the temporary folder is gone with all that is in it. Missing parent folders
    are made.

    Raises:
        UserError: the folder cannot be written, or there is something at `path` already.
    """
    target = Path(path)
    temporary = _name_beside(target)
    try:
        temporary.mkdir(parents=True)
        yield temporary
        temporary.rename(target)
        _sync(target.parent)
    except OSError as error:
        raise UserError(f"{target}: cannot write: {reason_of(error)}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def remove_partial_files(folder: str | Path) -> None:
    """Remove what writers that were killed have left in `folder`; nobody may be writing there."""
    for path in Path(folder).glob(".*"):
        if _PARTIAL.fullmatch(path.name) and path.is_file():
            path.unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> None:
    """Write `text` as UTF-8, atomically, with line ends exactly as they stand in `text`."""
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="")


def append(path: str | Path, content: bytes) -> None:
    """Write `content` at the end of `path`, which is made if it is not there, as its folder is.

    Not atomic: after a crash or on a full disk the file may end in a part of `content`.

    Raises:
        UserError: the folder or the file cannot be written (no space, no permission, ...).
    """
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.write(content)
    except OSError as error:
        raise UserError(f"{path}: cannot write: {reason_of(error)}") from error


def read_text(path: str | Path, *, errors: str = "strict") -> str:
    """The text of a UTF-8 file; `errors` is what becomes of bytes that are no text.

    Raises:
        UserError: the file cannot be read, or is not UTF-8.
    """
    try:
        require_regular_file(path)
        return Path(path).read_text(encoding="utf-8", errors=errors)
    except OSError as error:
        raise UserError(f"{path}: cannot read: {reason_of(error)}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not valid UTF-8 (byte {error.start})") from error


def write_json(path: str | Path, obj: object) -> None:
    """Write `obj` as indented UTF-8 JSON, atomically. Infinities and NaN are a ValueError."""
    write_text(path, json.dumps(obj, ensure_ascii=False, indent=2, allow_nan=False) + "\n")


def read_json(path: str | Path) -> object:
    """Read one JSON document.

    Raises:
        UserError: the file cannot be read, is not UTF-8 or is not JSON; names the file and line.
    """
    try:
        return json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise UserError(f"{path}:{error.lineno}: not valid JSON: {error.msg}") from error
    except RecursionError as error:
        raise UserError(f"{path}: not usable JSON: nested too deeply") from error


def _empty_file_beside(target: Path) -> Path:
    """A new file in the target's folder, with the permissions any new file would have there."""
    # Not tempfile: it makes files that nobody else may read, and the rename would keep that.
    temporary = _name_beside(target)
    temporary.touch(exist_ok=False)
    return temporary


def _name_beside(target: Path) -> Path:
    """What `target` is called until it is whole: as nothing else is."""
    name = f".{target.stem[:40]}.{secrets.token_hex(6)}.partial{target.suffix[:20]}"
    return target.with_name(name)


def _sync(path: Path) -> None:
    """Ask the disk to hold `path` now. Folders cannot be synced everywhere: no harm then."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        if path.is_dir():
            return
        raise
    try:
        os.fsync(handle)
    except OSError:
        if not path.is_dir():
            raise
    finally:
        os.close(handle)
