"""The processes that do one job together, as torchrun starts them.

torchrun tells every process by environment variables who it is and where the others are. Nothing
here imports torch before there are several processes, so that asking costs nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from ..config import check
from ..errors import ConfigError, UserError

if TYPE_CHECKING:
    import torch

# Processes on a busy machine, or on several, do not all come up at the same time.
TIMEOUT = timedelta(minutes=10)

_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")


@dataclass(frozen=True, kw_only=True)
class World:
    """This process among ``size`` that work together.

    ``rank``, from 0, is its number among all of them, ``local_rank`` that among those of its own
    machine.
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
        """Whether this is rank 0, the one that speaks and writes for all."""
        return self.rank == 0


def world_from_environment(variables: Mapping[str, str] = os.environ) -> World | None:
    """The world that torchrun has put this process into; None for a process on its own.

    Raises:
        ConfigError: some of torchrun's variables are there, but not all, or not as numbers.
    """
    if "RANK" not in variables:
        return None
    missing = [name for name in _VARIABLES if name not in variables]
    if missing:
        raise ConfigError(
            f"RANK is set, but not {', '.join(missing)}: start the processes by torchrun, or unset "
            "RANK to work alone"
        )
    return World(
        rank=_number("RANK", variables),
        size=_number("WORLD_SIZE", variables),
        local_rank=_number("LOCAL_RANK", variables),
    )


@contextmanager
def process_group(
    world: World, device: torch.device, *, timeout: timedelta = TIMEOUT
) -> Iterator[None]:
    """Connects the processes of ``world``: by NCCL where they compute on GPUs, else by gloo.

    A body that fails leaves the group as it is, for the operating system to close: to end it
    properly takes the others, who may not answer any more.

    Args:
        device: this process's own.
        timeout: for the others to come, and for every operation that waits for them.

    Raises:
        UserError: the others do not come.
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
                # gloo connects pair by pair: one that has all of its pairs could begin, and end,
                # while another still waits for its own.
                dist.barrier()
    except RuntimeError as error:
        reason = str(error).partition("\n")[0]
        raise UserError(
            f"rank {world.rank}: the {world.size} processes do not find together: {reason}"
        ) from error
    yield
    dist.destroy_process_group()


@contextmanager
def stdout_to_stderr() -> Iterator[None]:
    """Inside the block: some versions of gloo print a greeting on stdout, which is for results."""
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
