"""Programs that begin as a fork of the test process: they need no seconds to import torch.

They have streams, signals, an exit code and a memory of their own, like every process. Tests about
the start and the end of the interpreter need a new one.
"""

import gc
import importlib
import mmap
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist

import cli
from tasks.task import TASKS

# After this many seconds, processes that have not ended are stopped: they probably deadlock.
_LONGEST = 300.0


class Forked(subprocess.Popen[bytes]):
    """A process that calls ``function`` and ends.

    Args:
        function: its end is the end of the program; it may raise SystemExit.
        env: changes to the environment; None removes a variable.
        streams: those of Popen.
    """

    def __init__(
        self,
        function: Callable[[], object],
        *,
        env: Mapping[str, str | None] | None = None,
        **streams: Any,
    ) -> None:
        self._function = function
        self._variables = env or {}
        # What is imported here is not imported in every child.
        importlib.import_module("torch._dynamo")  # by the first optimizer
        for task in TASKS:
            for name in ("predict", "train"):
                importlib.import_module(f"tasks.{task}.{name}")
        super().__init__(["forked"], **streams)

    def _execute_child(self, *arguments: Any) -> None:
        """Forks instead of starting a program. The arguments are those of Python 3.11 to 3.13."""
        pipes = arguments[10:16]  # both ends of stdin, stdout and stderr; -1: not redirected
        theirs = pipes[0], pipes[3], pipes[5]
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            os._exit(self._run(theirs))
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]

    def _run(self, streams: tuple[int, int, int]) -> int:
        """Calls the function in the new process, and returns the exit code."""
        # Garbage of the parent is never collected here: the end of a store or of a process group
        # waits for a thread, and threads are not forked.
        gc.freeze()
        try:
            for number, stream in enumerate(streams):
                if stream != -1:
                    os.dup2(stream, number)
            os.closerange(3, 1024)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            for ending in (signal.SIGTERM, signal.SIGHUP):
                signal.signal(ending, signal.SIG_DFL)
            sys.stdin = open(0, encoding="utf-8")  # noqa: SIM115
            sys.stdout = open(1, "w", encoding="utf-8")  # noqa: SIM115
            sys.stderr = open(2, "w", encoding="utf-8", buffering=1)  # noqa: SIM115
            for name, value in self._variables.items():
                os.environ.pop(name, None)
                if value is not None:
                    os.environ[name] = value
            torch.set_num_threads(1)
            self._function()
            return 0
        except SystemExit as end:
            if isinstance(end.code, str):
                sys.stderr.write(f"{end.code}\n")
                return 1
            return int(end.code or 0)
        except BaseException:
            traceback.print_exc()
            return 1
        finally:
            sys.stdout.flush()


def run_in_fork(
    function: Callable[[], object], *, env: Mapping[str, str | None] | None = None
) -> subprocess.CompletedProcess[str]:
    """Calls ``function`` in a fork; returns its exit code and output when it has ended."""
    with Forked(function, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            stdout, stderr = process.communicate(timeout=_LONGEST)
        finally:
            process.kill()
    return subprocess.CompletedProcess(
        process.args, process.returncode, stdout.decode(), stderr.decode()
    )


def forked_cli(*arguments: object, **options: Any) -> Forked:
    """Returns a process that runs the command line with ``arguments``."""
    words = list(map(str, arguments))

    def program() -> None:
        sys.argv = ["cli.py", *words]
        cli.main(words)

    return Forked(program, **options)


class Gate:
    """Forked processes wait until their parent opens it, when all are forked.

    A thread of a store answers the first connection and looks up where it is from. A process that
    is forked meanwhile finds the lock of the name resolver taken, for good. So none may connect
    before.
    """

    def __init__(self) -> None:
        self._is_open = mmap.mmap(-1, 1)  # shared with all that are forked from now on

    def open(self) -> None:
        self._is_open[0] = 1

    def wait(self) -> None:
        while not self._is_open[0]:
            time.sleep(0.005)


def forked_group(
    size: int, function: Callable[[], object], *, stop_seconds: float = 5.0
) -> tuple[list[int], str, str]:
    """Runs ``function`` in ``size`` processes with the variables and the store of torchrun.

    When one fails, the others are stopped as by torchrun: with SIGTERM, and those that do not react
    with SIGKILL after ``stop_seconds``.

    Returns:
        Their exit codes, and what they have written to stdout and to stderr.
    """
    store = dist.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    common = {
        "WORLD_SIZE": str(size),
        "MASTER_ADDR": "localhost",
        "MASTER_PORT": str(store.port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
    }
    gate = Gate()

    def begin() -> None:
        gate.wait()
        function()

    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        processes = []
        for rank in map(str, range(size)):
            variables = common | {"RANK": rank, "LOCAL_RANK": rank}
            processes.append(Forked(begin, env=variables, stdout=stdout, stderr=stderr))
        gate.open()
        codes = _watch(processes, stop_seconds)
        stdout.seek(0)
        stderr.seek(0)
        return codes, stdout.read().decode(), stderr.read().decode()


def _watch(processes: Sequence[Forked], stop_seconds: float) -> list[int]:
    deadline, is_stopping = time.monotonic() + _LONGEST, False
    while None in [process.poll() for process in processes]:
        if not is_stopping and any(process.returncode for process in processes):
            deadline, is_stopping = time.monotonic() + stop_seconds, True
            for process in processes:
                process.terminate()
        if time.monotonic() > deadline:
            for process in processes:
                process.kill()
        time.sleep(0.02)
    return [process.returncode for process in processes]
