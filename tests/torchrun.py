"""Several processes at a time, started by torchrun."""

import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tests.forked import Forked, Gate, run_in_fork

ROOT = Path(__file__).resolve().parents[1]
TIMEOUT = 300


def torchrun(processes: int, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Runs the Python program in ``arguments`` under a torchrun of its own until it has ended."""
    launcher = (sys.executable, "-m", "torch.distributed.run", "--standalone")
    return subprocess.run(
        [*launcher, f"--nproc-per-node={processes}", *map(str, arguments)],
        # One thread for each process: the machine is shared, and so are the sums' orders.
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )


def run_forked_torchrun(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Runs torchrun with ``arguments`` in a fork until it has ended."""
    return run_in_fork(partial(_launch, arguments))


def forked_torchrun(*arguments: object, **streams: Any) -> Forked:
    """Starts torchrun with ``arguments`` in a fork; ``streams`` are those of Popen."""
    return Forked(partial(_launch, arguments), **streams)


def _launch(arguments: Sequence[object]) -> None:
    """Runs torchrun in this process. Where it would start an interpreter, this process is forked.

    The forks need not import torch again.
    """
    from torch.distributed import run
    from torch.distributed.elastic.multiprocessing.subprocess_handler import SubprocessHandler

    gate = Gate()
    started = []

    def start(handler: SubprocessHandler, command: tuple[str, ...], env: dict[str, str]) -> Forked:
        program = command[command.index("-u") + 1 :]
        started.append(Forked(partial(_work, program, gate), env=env))
        if len(started) == int(env["LOCAL_WORLD_SIZE"]):
            gate.open()
        return started[-1]

    SubprocessHandler._popen = start  # type: ignore[method-assign]
    run.main(list(map(str, arguments)))


def _work(program: Sequence[str], gate: Gate) -> None:
    """Runs the program of one rank in this process."""
    os.setsid()
    signal.alarm(TIMEOUT)
    gate.wait()
    sys.argv = list(program)
    runpy.run_path(program[0], run_name="__main__")
