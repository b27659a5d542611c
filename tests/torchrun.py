"""Several processes at a time: started by torchrun, or as forks that find one another as its do."""

import importlib
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import torch.distributed as dist
from torch.distributed import run

from tests.forked import forked

ROOT = Path(__file__).resolve().parents[1]
TIMEOUT = 300


def torchrun(*arguments: object, **streams: Any) -> subprocess.Popen[bytes]:
    """Starts torchrun with ``arguments`` in a fork; its ranks are new processes."""
    # One thread for each process: the machine is shared, and so are the sums' orders.
    env = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = ["--standalone", *map(str, arguments)]
    return forked(partial(run.main, command), env=env, **streams)


def run_ranks(size: int, function: Callable[[], object]) -> subprocess.CompletedProcess[str]:
    """Calls ``function`` in ``size`` forks, with the environment and the store of torchrun.

    A rank that torchrun starts imports torch for seconds.
    """
    importlib.import_module("torch._dynamo")  # not by DistributedDataParallel in every rank
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)  # type: ignore[attr-defined]
    env = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port), "WORLD_SIZE": str(size)}
    env |= {"TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RUN_ID": "forks"}
    with ExitStack() as stack:
        streams = {name: stack.enter_context(TemporaryFile()) for name in ("stdout", "stderr")}
        ranks = []
        for rank in range(size):
            own = env | {"RANK": str(rank), "LOCAL_RANK": str(rank)}
            ranks.append(stack.enter_context(forked(function, env=own, **streams)))
            stack.callback(ranks[-1].kill)
        codes = [rank.wait(TIMEOUT) for rank in ranks]
        for stream in streams.values():
            stream.seek(0)
        texts = {name: stream.read().decode() for name, stream in streams.items()}
    return subprocess.CompletedProcess(ranks[0].args, max(codes), **texts)
