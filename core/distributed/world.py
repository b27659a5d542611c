"""The processes that torchrun has started: their number, and the connection between them.

torchrun sets environment variables that tell every process its rank and the address of the others.
Nothing here imports torch before there are several processes: a command that only asks stays fast.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from core.config import check
from core.errors import ConfigError, UserError

if TYPE_CHECKING:
    import torch

# On a busy machine, or on several machines, processes do not all start at the same time.
TIMEOUT = timedelta(minutes=10)

_PR_SET_PDEATHSIG = 1  # of Linux, in <sys/prctl.h>

_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")


@dataclass(frozen=True, kw_only=True)
class World:
    """One of ``size`` processes that work together.

    ``rank`` is its number among all processes, ``local_rank`` its number among those of its own
    machine; both count from 0.
    """

    rank: int
    size: int
    local_rank: int

    def __post_init__(self) -> None:
        check(self.size >= 1, "WORLD_SIZE", self.size, "at least 1")
        check(0 <= self.rank < self.size, "RANK", self.rank, f"from 0 to {self.size - 1}")
        local = self.local_rank
        check(0 <= local < self.size, "LOCAL_RANK", local, f"from 0 to {self.size - 1}")

    @property
    def is_main(self) -> bool:
        """Whether this is rank 0, which logs and writes files for all."""
        return self.rank == 0


def world_from_environment(variables: Mapping[str, str] = os.environ) -> World | None:
    """Returns the world that torchrun has started this process in; None without torchrun.

    Raises:
        ConfigError: some of torchrun's variables are missing, or are not numbers.
    """
    if "RANK" not in variables:
        return None
    missing = [name for name in _VARIABLES if name not in variables]
    if missing:
        raise ConfigError(
            f"RANK is set, but not {', '.join(missing)}: start the processes by torchrun, or unset "
            "RANK to use one process"
        )
    return World(
        rank=_number("RANK", variables),
        size=_number("WORLD_SIZE", variables),
        local_rank=_number("LOCAL_RANK", variables),
    )


def end_with_torchrun() -> None:
    """Makes the system send SIGTERM to this process as soon as the torchrun that started it ends.

    A torchrun that is killed by ``kill -9`` cannot stop its processes. Only Linux can do this; it
    does nothing elsewhere, and without torchrun.
    """
    if "TORCHELASTIC_RUN_ID" not in os.environ or not sys.platform.startswith("linux"):
        return
    import ctypes

    parent = os.getppid()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it has ended meanwhile
        os.kill(os.getpid(), signal.SIGTERM)


@contextmanager
def process_group(
    world: World, device: torch.device, *, timeout: timedelta = TIMEOUT
) -> Iterator[None]:
    """Connects the processes of ``world``: by NCCL on GPUs, otherwise by gloo.

    If the body fails, the connections are left for the operating system to close: an orderly end
    needs the other processes, which may not answer.

    Args:
        device: this process's own.
        timeout: of the start, and of every operation that waits for other processes.

    Raises:
        UserError: the processes do not find one another in time.
    """
    import torch
    import torch.distributed as dist

    is_gpu = device.type == "cuda"
    if is_gpu:
        torch.cuda.set_device(device)
    try:
        with stdout_to_stderr():
            dist.init_process_group(
                "nccl" if is_gpu else "gloo",
                rank=world.rank,
                world_size=world.size,
                timeout=timeout,
                device_id=device if is_gpu else None,
            )
            if not is_gpu:
                # gloo connects pair by pair: a process with all of its pairs could begin and end
                # while another one still waits for its own.
                dist.barrier()
    except RuntimeError as error:
        reason = str(error).partition("\n")[0]
        raise UserError(
            f"rank {world.rank}: the {world.size} processes cannot connect: {reason}"
        ) from error
    yield
    dist.destroy_process_group()


@contextmanager
def stdout_to_stderr() -> Iterator[None]:
    """Redirects stdout, which is for results, to stderr: some versions of gloo write to it."""
    ours = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(ours, 1)
        os.close(ours)


def _number(name: str, variables: Mapping[str, str]) -> int:
    try:
        return int(variables[name])
    except ValueError as error:
        raise ConfigError(f"{name} must be a number, not {variables[name]!r}") from error
