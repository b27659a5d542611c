"""Files and folders that are written completely or not at all."""

import errno
import json
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from core.errors import UserError

# The errors of a full or failing disk. In the middle of a write, they name no file.
_DISK_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS})

# The names of unfinished files: by ``_name_beside``, and by safetensors, which writes to a
# temporary file of its own.
_PARTIAL = re.compile(r"\..*\.[0-9a-f]{12}\.partial(\..*)?|\.tmp[0-9A-Za-z]{6}")


def reason_of(error: OSError) -> str:
    """Returns the reason of the operating system, without the error number and the path."""
    return error.strerror or str(error) or type(error).__name__


def is_file(path: str | Path) -> bool:
    """Returns whether ``path`` is a regular file or a link to one.

    Raises a UserError, unlike :meth:`Path.is_file`, if the system does not say (no permission...).
    """
    return stat.S_ISREG(_mode(path))


def is_folder(path: str | Path) -> bool:
    """As :func:`is_file`, for a folder."""
    return stat.S_ISDIR(_mode(path))


def exists(path: str | Path) -> bool:
    """As :func:`is_file`, for anything."""
    return _mode(path) != 0


def require_regular_file(path: str | Path) -> None:
    """Raises an OSError for a pipe, a socket or a device: reading one may never end.

    A missing file raises the usual FileNotFoundError; a folder passes, as ``open`` refuses it.
    """
    mode = Path(path).stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise OSError(errno.EINVAL, "not a regular file", str(path))


@contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """Makes an OSError in the body a UserError that says that ``path`` cannot be written."""
    try:
        yield
    except OSError as error:
        raise UserError(f"{path}: cannot write: {reason_of(error)}") from error


@contextmanager
def atomic_write(path: str | Path) -> Iterator[Path]:
    """Yields an empty temporary file beside ``path``, and renames it to ``path`` after the body.

    The temporary file has the suffix of ``path``, because some libraries look at it. If the body
    raises, ``path`` is unchanged and the temporary file is removed. Missing parent folders are
    made. Raises a UserError if the file or its folder cannot be written.
    """
    target = Path(path)
    if exists(target) and not is_file(target):
        # As root, renaming would replace /dev/null.
        raise UserError(f"{target}: cannot write: not a regular file")
    # tempfile makes files that only their owner can read; the renamed file would stay so.
    temporary = _name_beside(target)
    try:
        with writing(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            temporary.touch(exist_ok=False)
        yield temporary
        _sync(temporary)
        temporary.replace(target)
        _sync(target.parent)
    except OSError as error:
        # Other errors of the body are not about this file.
        if error.errno in _DISK_ERRORS or error.filename in (temporary, str(temporary)):
            raise UserError(f"{target}: cannot write: {reason_of(error)}") from error
        raise
    finally:
        with suppress(OSError):
            temporary.unlink()


@contextmanager
def new_folder(path: str | Path) -> Iterator[Path]:
    """Yields an empty temporary folder beside ``path``, and renames it to ``path`` after the body.

    If the body raises, the temporary folder is removed. Missing parent folders are made. Raises a
    UserError if the folder cannot be written, or ``path`` exists.
    """
    target = Path(path)
    temporary = _name_beside(target)
    try:
        with writing(target):
            temporary.mkdir(parents=True)
            yield temporary
            temporary.rename(target)
            _sync(target.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def remove_partial_files(folder: str | Path) -> None:
    """Removes the unfinished files of killed writers; nobody may be writing in ``folder``."""
    for path in Path(folder).glob(".*"):
        if _PARTIAL.fullmatch(path.name) and path.is_file():
            path.unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> None:
    """Writes ``text`` as UTF-8, atomically, and leaves its line ends as they are."""
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="")


def read_text(path: str | Path, *, error_class: type[UserError] = UserError) -> str:
    """Returns the text of a UTF-8 file; an error if it cannot be read, or is not UTF-8."""
    try:
        require_regular_file(path)
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise error_class(f"{path}: cannot read: {reason_of(error)}") from error
    except UnicodeDecodeError as error:
        raise error_class(f"{path}: not valid UTF-8 (byte {error.start})") from error


def write_json(path: str | Path, obj: object) -> None:
    """Writes ``obj`` as indented JSON, atomically. Raises a ValueError for infinities and NaN."""
    write_text(path, json.dumps(obj, ensure_ascii=False, indent=2, allow_nan=False) + "\n")


def read_json(path: str | Path, *, error_class: type[UserError] = UserError) -> object:
    """Returns the content of a JSON file; an error if it cannot be read or is not JSON."""
    text = read_text(path, error_class=error_class)
    try:
        return parsed(text)
    except ValueError as error:
        raise error_class(f"{path}: {error}") from error


def parsed(text: str) -> Any:
    """Returns the content of a JSON text. Raises a ValueError if it is not JSON or not Unicode."""
    try:
        content = json.loads(text)
        json.dumps(content, ensure_ascii=False, allow_nan=False).encode()
        return content
    except json.JSONDecodeError as error:
        raise ValueError(f"not valid JSON: {error}") from error
    except (RecursionError, ValueError) as error:
        known = {RecursionError: "nested too deeply", UnicodeEncodeError: "half a surrogate pair"}
        reason = known.get(type(error), "a number that is too large, or NaN")
        raise ValueError(f"not usable JSON: {reason}") from error


def _mode(path: str | Path) -> int:
    """Returns the type and the permissions of what is at ``path``; 0 if there is nothing."""
    try:
        return Path(path).stat().st_mode
    except (FileNotFoundError, NotADirectoryError, ValueError):  # ValueError: a null character
        return 0
    except OSError as error:
        raise UserError(f"{path}: cannot read: {reason_of(error)}") from error


def _name_beside(target: Path) -> Path:
    stem, suffix = target.stem[:40], target.suffix[:20]
    return target.with_name(f".{stem}.{secrets.token_hex(6)}.partial{suffix}")


def _sync(path: Path) -> None:
    """Syncs ``path`` to the disk. Not all systems can sync folders; this is no error."""
    with suppress(OSError) if path.is_dir() else nullcontext():
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
