"""A lock that keeps a second writer out of a folder."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from ..errors import UserError
from ..progress import log
from .files import read_text, reason_of

# The errors of file systems that have no locks; some network file systems are among them.
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


@contextmanager
def only_writer(folder: Path, lock: Path) -> Iterator[None]:
    """Keeps every other caller with the same ``lock`` out while the context lasts.

    The operating system holds the lock on the open file ``lock``, so the lock ends with the
    process, even by ``kill -9``. The file itself stays. A second file beside it names the process
    that holds the lock, for the error message.

    On a file system without locks, the context logs a warning and continues without one.

    Args:
        folder: the folder to protect, for the messages.

    Raises:
        UserError: another process holds the lock, or ``lock`` cannot be written.
    """
    holder = lock.with_name(f"{lock.name}.holder")
    file_lock = FileLock(lock)
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        file_lock.acquire(timeout=0)
    except Timeout as error:
        raise UserError(
            f"{folder}: another run is writing in this folder (process {_read_holder(holder)}); "
            "wait for its end, or choose another folder"
        ) from error
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise UserError(f"{lock}: cannot write: {reason_of(error)}") from error
        log(
            f"{folder}: cannot be locked ({reason_of(error)}): "
            "make sure that no other run writes in it"
        )
    try:
        try:
            holder.write_text(f"{os.getpid()} on {socket.gethostname()}")
        except OSError as error:
            raise UserError(f"{holder}: cannot write: {reason_of(error)}") from error
        yield
    finally:
        file_lock.release()


def _read_holder(path: Path) -> str:
    try:
        return read_text(path, errors="replace")[:200] or "unknown"
    except UserError:  # the other process has the lock and has not written its name yet
        return "unknown"
