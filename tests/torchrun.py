"""Several processes at a time, started by torchrun."""

import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.forked import Forked, Gate

ROOT = Path(__file__).resolve().parents[1]
TIMEOUT = 300


def torchrun(
    processes: int, *arguments: object, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Runs the Python program in ``arguments`` in so many processes, as users do, to their end."""
    launcher = (sys.executable, "-m", "torch.distributed.run", "--standalone")
    return subprocess.run(
        [*launcher, f"--nproc-per-node={processes}", *map(str, arguments)],
        # One thread for each process: the machine is shared, and so are the sums' orders.
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        **options,
    )


def forked_torchrun(*arguments: object, **options: Any) -> Forked:
    """Starts torchrun with ``arguments``; it and its processes are forks, which import nothing."""
    words = list(map(str, arguments))
    return Forked(lambda: _launch(words), **options)


def _launch(arguments: list[str]) -> None:
    """Is torchrun. In the place of a new interpreter, each of its processes is a fork."""
    from torch.distributed import run
    from torch.distributed.elastic.multiprocessing.subprocess_handler import SubprocessHandler

    gate = Gate()
    started = []

    def start(handler: SubprocessHandler, command: tuple[str, ...], env: dict[str, str]) -> Forked:
        program = command[command.index("-u") + 1 :]
        started.append(Forked(lambda: _work(program, gate), env=env))
        if len(started) == int(env["LOCAL_WORLD_SIZE"]):
            gate.open()
        return started[-1]

    SubprocessHandler._popen = start  # type: ignore[method-assign]
    run.main(arguments)


def _work(program: Sequence[str], gate: Gate) -> None:
    """Is one of the processes."""
    os.setsid()
    signal.alarm(TIMEOUT)
    gate.wait()
    sys.argv = list(program)
    runpy.run_path(program[0], run_name="__main__")
