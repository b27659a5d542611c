"""Processes that train one model together: what they tell each other, and how they end.

Every process computes on its own share of every batch, and all take the same decisions from the
same numbers, so that their models stay equal. Only the first writes files.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from datetime import timedelta
from typing import TypeVar

import torch
import torch.distributed as dist

from ..errors import Interrupted, UserError
from ..progress import silence
from .world import World, process_group, stdout_to_stderr

# The others wait for the first one's validation however long it takes. A process that has died is
# noticed without this, by its closed connections.
_PATIENCE = timedelta(days=30)

# How long those that are left wait for each other to tell who is missing. torchrun gives them 30.
_ROLL_CALL_SECONDS = 5.0

T = TypeVar("T")


class Disconnected(Exception):
    """Another process cannot be reached any more."""


class ProcessGroup:
    """This process and those that it trains with; without a ``world`` it is by itself.

    Every method but :meth:`share` waits until all processes have called it.
    """

    def __init__(self, world: World | None = None) -> None:
        self.rank = world.rank if world else 0
        self.size = world.size if world else 1
        self._group: dist.ProcessGroup | None = None
        if self.size > 1:
            with stdout_to_stderr():
                self._group = dist.new_group(backend="gloo", timeout=_PATIENCE)
                self.barrier()

    @property
    def is_main(self) -> bool:
        """Whether this is the process that speaks and writes for all."""
        return self.rank == 0

    def shard(self, examples: Sequence[T]) -> Sequence[T]:
        """This process's part of ``examples``; it may be empty.

        Every ``size``-th of them: of examples sorted by length, the sums of all parts' lengths
        differ by no more than the longest one.
        """
        return examples[self.rank :: self.size]

    def sum(self, numbers: Sequence[float]) -> Sequence[float]:
        """The sums over all processes, number by number."""
        if self._group is None:
            return numbers
        totals = torch.tensor(numbers, dtype=torch.float64)
        with connection():
            dist.all_reduce(totals, group=self._group)
        return totals.tolist()

    def any(self, flag: bool) -> bool:
        """Whether ``flag`` holds in any process."""
        return self.sum([flag])[0] > 0

    def barrier(self) -> None:
        """Returns when all processes are here."""
        self.sum([0])

    def broadcast(self, compute: Callable[[], T]) -> T:
        """What ``compute`` gives in the first process; in the others it is not called.

        It is sent as JSON.
        """
        if self._group is None:
            return compute()
        text = json.dumps(compute()).encode() if self.is_main else b""
        (length,) = self.sum([len(text)])
        message = torch.zeros(int(length), dtype=torch.uint8)
        if self.is_main:
            message = torch.frombuffer(bytearray(text), dtype=torch.uint8)
        with connection():
            dist.broadcast(message, src=0, group=self._group)
        return json.loads(message.numpy().tobytes())

    def is_same(self, value: object) -> bool:
        """Whether all processes have the same ``value``; it is sent as JSON."""
        return not self.any(value != self.broadcast(lambda: value))

    @contextmanager
    def main_process_first(self) -> Iterator[None]:
        """The first process goes through the body, and then the others, who find what it left."""
        if not self.is_main:
            self.barrier()
        yield
        if self.is_main:
            self.barrier()


@contextmanager
def joined_group(world: World, device: torch.device, *, advice: str = "") -> Iterator[ProcessGroup]:
    """Connects the processes of ``world`` for the body, and lets none leave before the others.

    Only the first one says how the work goes. What ends all of them alike is said by one; the
    errors of the others are empty.

    Args:
        device: this process's own.
        advice: what to do when another process has died.

    Raises:
        UserError: another process has died; it is named.
    """
    if world.size == 1:
        yield ProcessGroup()
        return
    stop: Interrupted | None = None
    with process_group(world, device), nullcontext() if world.is_main else silence():
        register = _Register(world)
        try:
            group = ProcessGroup(world)
            yield group
            group.barrier()
        except Interrupted as error:
            _outlast_torchrun()
            stop = Interrupted() if register.is_said(error) else error
        except UserError as error:
            _outlast_torchrun()
            register.leave(is_explained=True)
            if register.is_said(error):
                raise UserError() from error
            raise
        except Disconnected as error:
            _outlast_torchrun()
            register.leave(is_explained=False)
            raise register.explanation(error, advice) from error
        except Exception:
            register.leave(is_explained=True)
            raise
    if stop is not None:
        raise stop


@contextmanager
def connection() -> Iterator[None]:
    """Makes a failure of ``torch.distributed`` in the body one that can be told from others.

    Raises:
        Disconnected: another process cannot be reached any more.
    """
    try:
        yield
    except RuntimeError as error:
        raise Disconnected(str(error)) from error


def _outlast_torchrun() -> None:
    """It ends all processes as soon as one has failed, which the others may still have to explain.

    It kills those that take too long.
    """
    with suppress(ValueError):  # not the main thread
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


class _Register:
    """Which processes have ended in an error, and what has been said about it.

    It is kept in the store by which torchrun brought them together, and which outlives them.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        self._store = dist.TCPStore(*address, is_master=False)  # type: ignore[attr-defined]

    def leave(self, *, is_explained: bool) -> None:
        """Notes that this process has failed, and whether it says why."""
        with suppress(dist.DistError):
            self._store.set(f"group/left/{self._world.rank}", "")
            if is_explained:
                self._store.set("group/explained", "")

    def is_said(self, error: Exception) -> bool:
        """Whether another process says the same; if not, the others hear that this one does."""
        key = hashlib.sha256(str(error).encode()).hexdigest()
        rank = str(self._world.rank)
        with suppress(dist.DistError):
            return self._store.compare_set(f"group/said/{key}", "", rank).decode() != rank
        return False

    def explanation(self, lost: Disconnected, advice: str) -> UserError:
        """The error of a process that has lost the others; empty where one of them says it."""
        missing = self._missing()
        if missing:
            numbers = ", ".join(map(str, missing))
            reason = f"rank {numbers} of {self._world.size} does not answer: killed, or crashed"
        elif self._is_explained():
            return UserError()
        else:
            reason = f"the processes cannot reach each other: {lost}"
        error = UserError(f"{reason}; {advice}" if advice else reason)
        return UserError() if self.is_said(error) else error

    def _missing(self) -> list[int]:
        missing = list(range(self._world.size))
        deadline = time.monotonic() + _ROLL_CALL_SECONDS
        with suppress(dist.DistError):
            while missing and time.monotonic() < deadline:
                missing = [
                    rank for rank in missing if not self._store.check([f"group/left/{rank}"])
                ]
                time.sleep(0.1)
        return missing

    def _is_explained(self) -> bool:
        with suppress(dist.DistError):
            return self._store.check(["group/explained"])
        return False
