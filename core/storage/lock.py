"""A lock that keeps a second writer out of a folder."""

import errno
import fcntl
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from core.errors import UserError, escape
from core.progress import log
from core.storage.files import reason_of, writing

# The errors of file systems that have no locks; some network file systems are among them.
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)

# A link is not followed, and a pipe without a reader is an error instead of a wait.
_READ_WRITE = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK


@contextmanager
def only_writer(folder: Path, lock: Path) -> Iterator[Callable[[], None]]:
    """Keeps other callers with this ``lock`` out. Raises a UserError if another process holds it.

    The operating system holds the lock on the open file ``lock``, so the lock ends with the
    process, even by ``kill -9``. The file itself stays; it names the process for error messages. On
    a file system without locks, the context logs a warning and continues without one.

    Yields a function that raises a UserError if the lock is not at its path any more: the folder
    has been removed or renamed, and what is there now may belong to another process.
    """
    with writing(lock):
        lock.parent.mkdir(parents=True, exist_ok=True)
        file = os.fdopen(os.open(lock, _READ_WRITE, 0o666), "r+b", buffering=0)
    # It stays open: the system could give the number of a removed file to a new one.
    with file:
        with writing(lock):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                holder = escape((file.read(200) or b"unknown").decode(errors="replace"))
                raise UserError(
                    f"{folder}: another run is writing in this folder (process {holder}); "
                    "wait for its end, or choose another folder"
                ) from error
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    raise
                log(
                    f"{folder}: cannot be locked ({reason_of(error)}): "
                    "make sure that no other run writes in it"
                )
            file.truncate(0)
            file.write(f"{os.getpid()} on {socket.gethostname()}".encode())

        def check_place() -> None:
            with suppress(OSError):
                if os.path.samestat(os.fstat(file.fileno()), lock.stat()):
                    return
            raise UserError(
                f"{folder}: this folder has been removed, renamed or replaced while the program "
                "was writing in it: the program ends without saving"
            )

        yield check_place
