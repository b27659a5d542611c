"""Several processes at a time, started by torchrun."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TIMEOUT = 300


def torchrun(*arguments: object, **streams: Any) -> subprocess.Popen[str]:
    """Starts torchrun with ``arguments``; ``streams`` are those of Popen."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", *arguments]
    # One thread for each process: the machine is shared, and so are the sums' orders.
    env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(list(map(str, command)), env=env, text=True, **streams)


def run_torchrun(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Runs torchrun with ``arguments`` until it has ended."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with torchrun(*arguments, **pipes) as process:
        try:
            stdout, stderr = process.communicate(timeout=TIMEOUT)
        finally:
            process.kill()
    return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)
