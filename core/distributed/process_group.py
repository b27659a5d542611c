"""The processes that train one model together: how they communicate, and how they end.

Every process computes on its own shard of every batch. All take the same decisions from the same
numbers, so that their models stay equal. Only the main process (rank 0) writes files.
"""

import gc
import json
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from datetime import timedelta
from typing import TypeVar

import torch
import torch.distributed as dist

from core.distributed.world import World
from core.errors import Interrupted, UserError
from core.progress import silence

T = TypeVar("T")


class Disconnected(UserError):
    """Another process has ended, or does not answer in time."""


class ProcessGroup(World):
    """The processes that train together, seen from one of them; by default, this one alone.

    Every method waits until all processes have called it, except :meth:`shard`.
    """

    def shard(self, examples: Sequence[T]) -> Sequence[T]:
        """Returns every ``size``-th of ``examples``, from this process's rank on; maybe none.

        Of examples sorted by length, the total lengths of two shards differ by the longest at most.
        """
        return examples[self.rank :: self.size]

    def sum(self, numbers: Sequence[float]) -> Sequence[float]:
        """Returns the sum over all processes, number by number."""
        if self.size == 1:
            return numbers
        totals = torch.tensor(numbers, dtype=torch.float64)
        with connection():
            dist.all_reduce(totals)
        return totals.tolist()

    def any(self, flag: bool) -> bool:
        """Returns whether ``flag`` is true in any process."""
        return self.sum([flag])[0] > 0

    def barrier(self) -> None:
        """Waits until all processes have called it."""
        self.sum([0])

    def broadcast(self, compute: Callable[[], T], *, source: int = 0) -> T:
        """Returns what ``compute`` returns in the process ``source``, to all, as JSON."""
        if self.size == 1:
            return compute()
        text = json.dumps(compute()).encode() if self.rank == source else b""
        (length,) = self.sum([len(text)])
        message = torch.zeros(int(length), dtype=torch.uint8)
        if self.rank == source:
            message = torch.frombuffer(bytearray(text), dtype=torch.uint8)
        with connection():
            dist.broadcast(message, src=source)
        return json.loads(message.numpy().tobytes())

    def gather(self, results: Sequence[T]) -> list[T]:
        """Returns the results for all examples, given those for this process's :meth:`shard`."""
        shards = [self.broadcast(lambda: [*results], source=rank) for rank in range(self.size)]
        return [shards[i % self.size][i // self.size] for i in range(sum(map(len, shards)))]

    def is_same(self, value: object) -> bool:
        """Returns whether all processes have the same ``value``, which is sent as JSON."""
        return not self.any(value != self.broadcast(lambda: value))

    @contextmanager
    def main_process_first(self) -> Iterator[None]:
        """Runs the body in the main process, and then in the others, which find its files."""
        if not self.is_main:
            self.barrier()
        yield
        if self.is_main:
            self.barrier()


ALONE = ProcessGroup()


@contextmanager
def joined_group(world: World, device: torch.device, *, timeout: float) -> Iterator[ProcessGroup]:
    """Connects the processes of ``world``: by gloo, and for tensors on GPUs by NCCL.

    Only the main process logs. If the body fails in one process alone, its connections are left for
    the operating system to close: an orderly end needs the others, which may not answer.

    Processes wait ``timeout`` seconds for one another, and notice at once when one ends. Raises a
    UserError if they do not find one another at the start, and Disconnected in later operations.
    """
    if world.size == 1:
        yield ALONE
        return
    is_gpu = device.type == "cuda"
    if is_gpu:
        # The end of a backward pass then raises a DistError after the timeout. Without it, the
        # program is blocked in a copy, until a thread of NCCL aborts it.
        os.environ.setdefault("TORCH_NCCL_BLOCKING_WAIT", "1")
        torch.cuda.set_device(device)
    group = ProcessGroup(**vars(world))
    with nullcontext() if world.is_main else silence():
        try:
            with _stdout_to_stderr():
                dist.init_process_group(
                    "cpu:gloo,cuda:nccl" if is_gpu else "gloo",
                    rank=world.rank,
                    world_size=world.size,
                    timeout=timedelta(seconds=timeout),
                    device_id=device if is_gpu else None,
                )
                # gloo connects pair by pair: a process with all of its pairs could begin and end
                # while another one still waits for its own.
                group.barrier()
        except RuntimeError as error:
            reason = str(error).partition("\n")[0]
            raise UserError(
                f"rank {world.rank}: the {world.size} processes cannot connect: {reason}"
            ) from error
        try:
            yield group
            group.barrier()
        except Interrupted:  # all stop at the same step
            _ignore_sigterm()
            dist.destroy_process_group()
            raise
        except UserError:
            _ignore_sigterm()
            raise
        # DistributedDataParallel holds the group, in a cycle of references. Once it is collected,
        # the threads of the group end here, not while the program ends: that could abort it.
        gc.collect()
        dist.destroy_process_group()


@contextmanager
def connection() -> Iterator[None]:
    """Turns a failure of the network in the body into :class:`Disconnected`."""
    try:
        yield
    except RuntimeError as error:
        # gloo has no type for its errors. Others are those of a GPU, or of its memory.
        if isinstance(error, dist.DistError) or "/gloo/" in str(error):
            raise Disconnected(
                "another process was killed, has failed or does not answer (torchrun names it)"
            ) from error
        raise


def _ignore_sigterm() -> None:
    """Lets this process finish its error message: torchrun stops all as soon as one ends."""
    with suppress(ValueError):  # not the main thread
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


@contextmanager
def _stdout_to_stderr() -> Iterator[None]:
    """Redirects stdout, which is for results, to stderr: some versions of gloo write to it."""
    ours = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(ours, 1)
        os.close(ours)
