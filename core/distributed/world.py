"""The processes that torchrun has started: their number, and which of them fails first.

torchrun sets environment variables that tell every process its rank and the address of the others.
Nothing here imports torch before there are several processes: a command that only asks stays fast.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from core.errors import ConfigError

_STORE_TIMEOUT = timedelta(seconds=5)

_NUMBERS = ("RANK", "WORLD_SIZE", "LOCAL_RANK")


@dataclass(frozen=True, kw_only=True)
class World:
    """One of ``size`` processes: its number among all, and among those of its machine, from 0."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0

    @property
    def is_main(self) -> bool:
        """Whether this is rank 0, which logs and writes files for all."""
        return self.rank == 0


def world_from_environment(variables: Mapping[str, str] = os.environ) -> World:
    """Returns the world that torchrun set up, or one process. Raises a ConfigError if unclear."""
    if "RANK" not in variables:
        return World()
    try:
        rank, size, local_rank = (int(variables[name]) for name in _NUMBERS)
    except (KeyError, ValueError) as error:
        raise ConfigError(
            f"RANK is set, but {', '.join(_NUMBERS)} are not all numbers: start the processes by "
            "torchrun, or unset RANK to use one process"
        ) from error
    if not 0 <= rank < size:
        raise ConfigError(f"RANK must be from 0 to {size - 1}, not {rank}")
    return World(rank=rank, size=size, local_rank=local_rank)


def is_first_to_fail() -> bool:
    """Returns whether no other process of torchrun has failed before this one, which it records.

    Only the first one says why: all may fail alike, or because of it. torchrun's store of keys and
    values outlives the processes.
    """
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return True
    import torch.distributed as dist

    address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    key = f"transformer-suite/failed/{os.environ.get('TORCHELASTIC_RESTART_COUNT')}"
    try:
        store = dist.TCPStore(*address, is_master=False, timeout=_STORE_TIMEOUT)  # type: ignore[attr-defined]
        return store.add(key, 1) == 1
    except dist.DistError:  # torchrun has ended
        return True
