"""Several processes at a time, started as users start them."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TIMEOUT = 300


def command(processes: int, *arguments: object) -> list[str]:
    launcher = (sys.executable, "-m", "torch.distributed.run", "--standalone")
    return [*launcher, f"--nproc-per-node={processes}", *map(str, arguments)]


def environment() -> dict[str, str]:
    """One thread for each process: the machine is shared, and so are the sums' orders."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


def torchrun(
    processes: int, *arguments: object, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Runs the Python program in ``arguments`` in so many processes, to their end."""
    return subprocess.run(
        command(processes, *arguments),
        env=environment(),
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        **options,
    )
