"""One writer a folder: a lock that the operating system takes back however its holder ends."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # only Unix has it
    fcntl = None  # type: ignore[assignment]

from ..errors import UserError
from ..progress import say
from .files import reason_of


@contextmanager
def only_writer(folder: Path, lock: Path) -> Iterator[None]:
    """Lets nobody else who asks write in ``folder`` as long as the context lasts.

    It is the open file ``lock`` that is locked (``flock``), not its being there: the lock ends with
    the process, by ``kill -9`` too, and what the file says is of interest only while it is held.
    Where there are no such locks, on some network file systems, that is said on stderr, and the
    work goes on without one.

    Raises:
        UserError: somebody else holds it, or ``lock`` cannot be written.
    """
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise UserError(f"{lock}: cannot write: {reason_of(error)}") from error
    try:
        _acquire(handle, folder)
        try:
            os.ftruncate(handle, 0)
            os.write(handle, f"{os.getpid()} on {socket.gethostname()}".encode())
        except OSError as error:
            raise UserError(f"{lock}: cannot write: {reason_of(error)}") from error
        yield
    finally:
        os.close(handle)


def _acquire(handle: int, folder: Path) -> None:
    reason = "this system has no flock"
    if fcntl is not None:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError as error:
            holder = os.pread(handle, 200, 0).decode(errors="replace") or "unknown"
            raise UserError(
                f"{folder}: another run is writing in this folder (process {holder}); "
                "wait for its end, or name another --out"
            ) from error
        except OSError as error:
            reason = reason_of(error)
    say(f"{folder}: cannot be locked ({reason}): see that no other run writes in it")
