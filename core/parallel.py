"""Independent batches in parallel, each on a processor core of its own.

A decoding step is many small operations. If each is split over the cores, it waits for its slowest
part. Batches that each have a core never wait for one another.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_on_cores(
    function: Callable[[Item], Result], items: Sequence[Item], *, workers: int | None = None
) -> Iterator[Result]:
    """Returns ``function`` of every item, in the order of the items, several computed at a time.

    There are as many workers as PyTorch may use threads, or ``workers`` if that is less. Together
    they use no more threads than PyTorch may: a single worker may still split its operations.
    Threads suffice, because PyTorch releases the interpreter while it computes.
    """
    threads = torch.get_num_threads()
    count = max(1, min(threads, len(items), threads if workers is None else workers))
    if count == 1:
        return map(function, items)
    return _map_in_threads(function, items, count, threads // count)


def _map_in_threads(
    function: Callable[[Item], Result], items: Sequence[Item], count: int, threads: int
) -> Iterator[Result]:
    """Yields the results of ``count`` threads, which split operations over ``threads`` each."""
    # New threads inherit the setting made here. This thread computes nothing meanwhile.
    with at_most(threads):
        pool = ThreadPoolExecutor(count)
        try:
            yield from pool.map(function, items)
        finally:
            pool.shutdown(cancel_futures=True)


def map_ahead(function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """Yields ``function`` of every item; a thread computes the next one while one is in use."""
    with ThreadPoolExecutor(1) as pool:
        last: Future[Result] | None = None
        for item in items:
            following = pool.submit(function, item)
            if last is not None:
                yield last.result()
            last = following
        if last is not None:
            yield last.result()


@contextmanager
def at_most(threads: int) -> Iterator[None]:
    """Splits operations inside the block over at most this many threads, never over more."""
    before = torch.get_num_threads()
    torch.set_num_threads(min(threads, before))
    try:
        yield
    finally:
        torch.set_num_threads(before)
