"""One writer a folder, whatever becomes of it."""

import errno
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from core.errors import UserError
from core.storage.lock import only_writer

ROOT = Path(__file__).resolve().parents[3]
HOLD = """
import sys
from pathlib import Path
from core.storage.lock import only_writer
with only_writer(Path(sys.argv[1]), lock=Path(sys.argv[2])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    return tmp_path / "training" / "lock"


@contextmanager
def held_by_another_process(folder: Path, lock: Path) -> Iterator[subprocess.Popen[bytes]]:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    command = [sys.executable, "-c", HOLD, str(folder), str(lock)]
    with subprocess.Popen(command, cwd=ROOT, **pipes) as process:
        try:
            assert process.stdout and process.stdout.readline() == b"held\n"
            yield process
        finally:
            process.kill()


def test_a_second_writer_is_refused_and_told_of_the_first(tmp_path: Path, lock: Path) -> None:
    with held_by_another_process(tmp_path, lock) as holder:
        who = f"{tmp_path}: another run is writing .*process {holder.pid} on {socket.gethostname()}"
        for _ in range(2):  # the refused one takes nothing away
            with pytest.raises(UserError, match=who), only_writer(tmp_path, lock):
                pytest.fail("two writers")
        assert holder.stdin
        holder.stdin.close()
        assert holder.wait(60) == 0
    with only_writer(tmp_path, lock):
        assert lock.read_text().startswith(f"{os.getpid()} on ")


def test_a_killed_writer_holds_nothing(tmp_path: Path, lock: Path) -> None:
    """What it has written stays: it is no lock by itself."""
    with held_by_another_process(tmp_path, lock) as holder:
        holder.send_signal(signal.SIGKILL)
        holder.wait(60)
        assert lock.read_text().startswith(f"{holder.pid} on ")
        with only_writer(tmp_path, lock):
            pass


def test_an_error_in_the_work_gives_the_lock_back(tmp_path: Path, lock: Path) -> None:
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), only_writer(tmp_path, lock):
            raise ZeroDivisionError


def test_without_locks_the_work_continues_with_a_warning(
    tmp_path: Path, lock: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a network file system that has none."""

    def none(handle: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", none)
    worked = False
    with only_writer(tmp_path, lock):
        worked = True
    assert worked
    assert f"{tmp_path}: cannot be locked (No locks available)" in capsys.readouterr().err


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    wrong = pytest.raises(UserError, match=r"file/lock: cannot write: ")
    with wrong, only_writer(tmp_path, tmp_path / "file" / "lock"):
        pass


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_only_regular_files_are_written(tmp_path: Path, lock: Path, kind: str) -> None:
    """``--resume`` overwrote what a link in the folder pointed to, and hung at a named pipe."""
    other = tmp_path / "other"
    other.write_text("mine")
    lock.parent.mkdir()
    if kind == "link":
        lock.symlink_to(other)
    else:
        os.mkfifo(lock)
    with pytest.raises(UserError, match="lock: cannot write"), only_writer(tmp_path, lock):
        pass
    assert other.read_text() == "mine"
