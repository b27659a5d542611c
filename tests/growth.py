"""How the running time of a function grows with the size of its input."""

import math
import time
from collections.abc import Callable
from typing import TypeVar

Input = TypeVar("Input")


def growth(work: Callable[[Input], object], small: Input, large: Input, *, most: float) -> float:
    """Returns how many times longer ``work`` takes for ``large``.

    It is measured again if it is not below ``most``: the best of up to three attempts.
    """
    best = math.inf
    for _ in range(3):
        best = min(best, _seconds(work, large) / _seconds(work, small))
        if best < most:
            break
    return best


def _seconds(work: Callable[[Input], object], argument: Input) -> float:
    start = time.process_time()
    work(argument)
    return max(time.process_time() - start, 1e-3)
