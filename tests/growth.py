"""How the running time of a function grows with the size of its input."""

import time
from collections.abc import Callable
from typing import TypeVar

Input = TypeVar("Input")


def growth(work: Callable[[Input], object], small: Input, large: Input) -> float:
    """Returns how many times longer ``work`` takes for ``large``; the best of several attempts."""
    return min(_seconds(work, large) / _seconds(work, small) for _ in range(3))


def _seconds(work: Callable[[Input], object], argument: Input) -> float:
    start = time.process_time()
    work(argument)
    return max(time.process_time() - start, 1e-3)
