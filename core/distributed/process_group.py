"""The processes that train one model together: how they communicate, and how they end.

Every process computes on its own shard of every batch. All take the same decisions from the same
numbers, so that their models stay equal. Only the main process (rank 0) writes files.
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
from torch.distributed.distributed_c10d import _set_pg_timeout

from core.distributed.world import World, process_group, stdout_to_stderr
from core.errors import Interrupted, UserError
from core.progress import silence

# Without a limit, processes wait this long. A process that dies is noticed at once, because its
# connections close.
_TIMEOUT = timedelta(days=30)

# After a failure, processes wait this long for the others to report. torchrun waits 30 seconds.
_REPORT_SECONDS = 5.0

T = TypeVar("T")


class Disconnected(Exception):
    """Another process cannot be reached."""


class ProcessGroup:
    """The processes that train together, seen from one of them.

    Every method waits until all processes have called it, except :meth:`shard` and those that set
    limits.

    Args:
        world: None: a group of this process alone.
    """

    def __init__(self, world: World | None = None) -> None:
        self.rank = world.rank if world else 0
        self.size = world.size if world else 1
        self._limit = self._main_process_limit = _TIMEOUT
        self._group: dist.ProcessGroup | None = None
        if self.size > 1:
            with stdout_to_stderr():
                self._group = dist.new_group(backend="gloo", timeout=_TIMEOUT)
                self.barrier()

    @property
    def is_main(self) -> bool:
        """Whether this is the main process, which logs and writes files for all."""
        return self.rank == 0

    def set_time_limit(self, seconds: float) -> None:
        """Sets how long this process waits for the others in each operation."""
        self._set_limit(timedelta(seconds=seconds))

    def set_main_process_limit(self, seconds: float) -> None:
        """Sets how long this process waits while the main process works and the others wait for it.

        This is also the limit until :meth:`set_time_limit` sets another one.
        """
        self._main_process_limit = timedelta(seconds=seconds)
        self._set_limit(self._main_process_limit)

    def _set_limit(self, limit: timedelta) -> None:
        if self._group is not None and limit != self._limit:
            _set_pg_timeout(limit, self._group)
            _set_pg_timeout(limit, dist.group.WORLD)  # which the gradients have
        self._limit = limit

    @contextmanager
    def _waiting_for_main(self) -> Iterator[None]:
        limit = self._limit
        self._set_limit(self._main_process_limit)
        yield
        self._set_limit(limit)

    def shard(self, examples: Sequence[T]) -> Sequence[T]:
        """Returns this process's shard of ``examples``, which may be empty.

        It is every ``size``-th example: when the examples are sorted by length, the total lengths
        of any two shards differ by at most the longest example.
        """
        return examples[self.rank :: self.size]

    def sum(self, numbers: Sequence[float]) -> Sequence[float]:
        """Returns the sum over all processes, number by number."""
        if self._group is None:
            return numbers
        totals = torch.tensor(numbers, dtype=torch.float64)
        with connection():
            dist.all_reduce(totals, group=self._group)
        return totals.tolist()

    def any(self, flag: bool) -> bool:
        """Returns whether ``flag`` is true in any process."""
        return self.sum([flag])[0] > 0

    def barrier(self) -> None:
        """Waits until all processes have called it."""
        self.sum([0])

    def broadcast(self, compute: Callable[[], T]) -> T:
        """Returns the result of ``compute`` in the main process; the others do not call it.

        The result is sent as JSON.
        """
        if self._group is None:
            return compute()
        text = json.dumps(compute()).encode() if self.is_main else b""
        with nullcontext() if self.is_main else self._waiting_for_main():
            (length,) = self.sum([len(text)])
        message = torch.zeros(int(length), dtype=torch.uint8)
        if self.is_main:
            message = torch.frombuffer(bytearray(text), dtype=torch.uint8)
        with connection():
            dist.broadcast(message, src=0, group=self._group)
        return json.loads(message.numpy().tobytes())

    def is_same(self, value: object) -> bool:
        """Returns whether all processes have the same ``value``, which is sent as JSON."""
        return not self.any(value != self.broadcast(lambda: value))

    @contextmanager
    def main_process_first(self) -> Iterator[None]:
        """Runs the body in the main process, and then in the others, which find its files."""
        if not self.is_main:
            with self._waiting_for_main():
                self.barrier()
        yield
        if self.is_main:
            self.barrier()


@contextmanager
def joined_group(world: World, device: torch.device, *, advice: str = "") -> Iterator[ProcessGroup]:
    """Connects the processes of ``world``; at the end, each waits for all others.

    Only the main process logs. An error that all processes raise has its message in one of them
    and is empty in the others, so that it is shown once.

    Args:
        device: this process's own.
        advice: what the user can do when another process has died.

    Raises:
        UserError: another process has died; the message names it.
    """
    if world.size == 1:
        yield ProcessGroup()
        return
    stop: Interrupted | None = None
    with process_group(world, device), nullcontext() if world.is_main else silence():
        report = _FailureReport(world)
        try:
            group = ProcessGroup(world)
            yield group
            group.barrier()
        except Interrupted as error:
            _ignore_sigterm()
            stop = Interrupted() if report.is_shown(error) else error
        except UserError as error:
            _ignore_sigterm()
            report.leave(is_explained=True)
            if report.is_shown(error):
                raise UserError() from error
            raise
        except Disconnected as error:
            _ignore_sigterm()
            report.leave(is_explained=False)
            raise report.explanation(error, advice) from error
        except Exception:
            report.leave(is_explained=True)
            raise
    if stop is not None:
        raise stop


@contextmanager
def connection() -> Iterator[None]:
    """Turns a failure of ``torch.distributed`` in the body into an error of its own type.

    Raises:
        Disconnected: another process cannot be reached.
    """
    try:
        yield
    except torch.OutOfMemoryError:  # a RuntimeError, too
        raise
    except RuntimeError as error:
        raise Disconnected(str(error)) from error


def _ignore_sigterm() -> None:
    """Lets this process finish its error message after another one has failed.

    torchrun sends SIGTERM to all processes as soon as one fails, and SIGKILL some time later.
    """
    with suppress(ValueError):  # not the main thread
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


class _FailureReport:
    """Which processes have failed, and which error messages have been shown.

    It is kept in torchrun's store, which outlives the processes.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        self._store = dist.TCPStore(*address, is_master=False)  # type: ignore[attr-defined]

    def leave(self, *, is_explained: bool) -> None:
        """Records that this process has failed, and whether it shows the reason."""
        with suppress(dist.DistError):
            self._store.set(f"group/left/{self._world.rank}", "")
            if is_explained:
                self._store.set("group/explained", "")

    def is_shown(self, error: Exception) -> bool:
        """Returns whether another process shows this error; if none does, this one will."""
        key = hashlib.sha256(str(error).encode()).hexdigest()
        rank = str(self._world.rank)
        with suppress(dist.DistError):
            return self._store.compare_set(f"group/shown/{key}", "", rank).decode() != rank
        return not self._world.is_main  # torchrun has been killed

    def explanation(self, lost: Disconnected, advice: str) -> UserError:
        """Returns the error of a process that has lost the others; empty if another shows it."""
        if missing := self._missing():
            numbers = ", ".join(map(str, missing))
            ranks = f"rank {numbers} of {self._world.size}"
            reason = f"{ranks} does not answer: killed, crashed, or it hangs"
        else:
            reason = f"the processes cannot reach each other: {lost}"
            with suppress(dist.DistError):
                if self._store.check(["group/explained"]):
                    return UserError()
        error = UserError(f"{reason}; {advice}" if advice else reason)
        return UserError() if self.is_shown(error) else error

    def _missing(self) -> list[int]:
        missing = list(range(self._world.size))
        deadline = time.monotonic() + _REPORT_SECONDS
        with suppress(dist.DistError):
            while missing and time.monotonic() < deadline:
                missing = [r for r in missing if not self._store.check([f"group/left/{r}"])]
                time.sleep(0.1)
        return missing
