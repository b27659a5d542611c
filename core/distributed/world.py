"""The processes that torchrun has started: their number, and which of them fails first.

torchrun sets environment variables that tell every process its rank and the address of the others.
Nothing here imports torch before there are several processes: a command that only asks stays fast.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from core.config import check
from core.errors import ConfigError

_STORE_TIMEOUT = timedelta(seconds=5)

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


def _number(name: str, variables: Mapping[str, str]) -> int:
    try:
        return int(variables[name])
    except ValueError as error:
        raise ConfigError(f"{name} must be a number, not {variables[name]!r}") from error
