"""Dropout (Srivastava et al. 2014), fast on a CPU.

``torch.nn.functional.dropout`` draws one random number for every element. On a CPU this takes
longer than the matrix products around it. Sixteen random bits for each element are enough: one
64-bit number serves four elements. NumPy's SFC64 generator, used inside :func:`private_rng`, makes
these numbers three times as fast as PyTorch's Mersenne Twister.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

_LEVELS = 1 << 16
_LOWEST = -(1 << 15)


_rng = threading.local()  # its ``generator``; without one, PyTorch's default generator is used


@contextmanager
def private_rng(seed: int) -> Iterator[None]:
    """Gives dropout on a CPU, in this thread and inside the block, a generator of its own."""
    previous = getattr(_rng, "generator", None)
    _rng.generator = np.random.Generator(np.random.SFC64(seed))
    try:
        yield
    finally:
        _rng.generator = previous


def dropout(x: Tensor, p: float) -> Tensor:
    """Zeroes each element of ``x`` with probability ``p`` and scales the others by 1 / (1 - p).

    On a CPU ``p`` is rounded to a multiple of 2^-16. The scale is that of the rounded probability,
    so the expectation is exact.

    Raises:
        ValueError: ``p`` is not at least 0 and below 1.
    """
    check_probability(p)
    if p == 0.0:
        return x
    if x.device.type != "cpu":
        return F.dropout(x, p)
    dropped = min(round(p * _LEVELS), _LEVELS - 1)
    scale = _LEVELS / (_LEVELS - dropped)
    # Written as floats at once: a boolean mask and its conversion take several times as long.
    random = _random_int64((x.numel() + 3) // 4).view(torch.int16)[: x.numel()].view(x.shape)
    kept = torch.ge(random, _LOWEST + dropped, out=torch.empty(x.shape, dtype=x.dtype))
    if x.dtype in (torch.float32, torch.float64):
        return x * kept.mul_(scale)
    # bfloat16 cannot represent the scale exactly, so it is applied after the mask.
    return x * kept * scale


def _random_int64(count: int) -> Tensor:
    lowest, highest = -(1 << 63), (1 << 63) - 1
    generator = getattr(_rng, "generator", None)
    if generator is None:
        return torch.empty(count, dtype=torch.int64).random_(lowest, None)
    return torch.from_numpy(generator.integers(lowest, highest, count, np.int64, endpoint=True))


def check_probability(p: float) -> None:
    """Raises a ValueError unless ``p`` is at least 0 and below 1."""
    if not 0.0 <= p < 1.0:
        raise ValueError(f"a dropout probability is at least 0 and below 1, not {p}")


class Dropout(nn.Module):
    """:func:`dropout` in training, the identity in evaluation."""

    def __init__(self, p: float) -> None:
        super().__init__()
        check_probability(p)
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        return dropout(x, self.p) if self.training else x

    def extra_repr(self) -> str:
        return f"p={self.p}"
