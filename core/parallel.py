"""Independent batches side by side, one processor core each.

A step of decoding is many small operations. Split over the cores, each of them waits for the
slowest part; several batches, each on a core of its own, never wait for one another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_on_cores(
    function: Callable[[Item], Result], items: Sequence[Item], *, workers: int | None = None
) -> Iterator[Result]:
    """``function`` of every item, in their order, several at a time.

    There are as many workers as torch may use threads, or ``workers`` if that is less. Together
    they use no more threads than torch would: with one worker an operation may still be split.
    torch releases the interpreter while it computes, so threads are enough.
    """
    threads = torch.get_num_threads()
    count = max(1, min(threads, len(items), threads if workers is None else workers))
    return map(function, items) if count == 1 else _map_in_threads(function, items, count)


def _map_in_threads(
    function: Callable[[Item], Result], items: Sequence[Item], count: int
) -> Iterator[Result]:
    # New threads inherit the setting made here. This thread computes nothing meanwhile.
    with at_most(torch.get_num_threads() // count):
        pool = ThreadPoolExecutor(count)
        try:
            yield from pool.map(function, items)
        finally:
            pool.shutdown(cancel_futures=True)


@contextmanager
def at_most(threads: int) -> Iterator[None]:
    """Operations inside the block are split among so many threads, or fewer if it was fewer."""
    before = torch.get_num_threads()
    torch.set_num_threads(min(threads, before))
    try:
        yield
    finally:
        torch.set_num_threads(before)
