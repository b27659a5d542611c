"""Dropout (Srivastava et al. 2014), cheap on a CPU.

``torch.nn.functional.dropout`` draws one random number an element, which on a CPU costs more than
the matrix products around it. Sixteen random bits an element decide just as well: one 64-bit draw
serves four elements. Inside :func:`own_chance` they come from NumPy's SFC64, which is a third as
much work as PyTorch's Mersenne Twister.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

_LEVELS = 1 << 16
_LOWEST = -(1 << 15)


class _Chance(threading.local):
    """Where this thread's random numbers come from; None for PyTorch's own generator."""

    generator: np.random.Generator | None = None


_chance = _Chance()


@contextmanager
def own_chance(seed: int) -> Iterator[None]:
    """Inside the block, this thread's dropout on a CPU has its own stream of random numbers."""
    own = np.random.Generator(np.random.SFC64(seed))
    before, _chance.generator = _chance.generator, own
    try:
        yield
    finally:
        _chance.generator = before


def dropout(x: Tensor, p: float) -> Tensor:
    """``x`` with each element zeroed with probability ``p``, and the others scaled by 1 / (1 - p).

    On a CPU ``p`` is rounded to a multiple of 2^-16 and the scale is that of the rounded
    probability, so the expectation is exact.

    Raises:
        ValueError: ``p`` is not at least 0 and below 1.
    """
    check_probability(p)
    if p == 0.0:
        return x
    if x.device.type != "cpu":
        return F.dropout(x, p)
    if x.dtype in (torch.float32, torch.float64):
        return x.mul(mask_and_scale(x, p))
    # The scale is applied apart from the mask: 1 / (1 - p) would not survive bfloat16's rounding.
    kept, scale = _kept(x, p)
    return x.mul(kept).mul_(scale)


def add_dropout(residual: Tensor, x: Tensor, p: float) -> Tensor:
    """``residual + dropout(x, p)``, in one pass over them on a CPU."""
    check_probability(p)
    if p == 0.0 or x.device.type != "cpu" or x.dtype != residual.dtype:
        return residual + dropout(x, p)
    kept, scale = _kept(x, p)
    return torch.addcmul(residual, x, kept, value=scale)


def mask_and_scale(x: Tensor, p: float) -> Tensor:
    """What dropout multiplies the elements of ``x`` by, on a CPU: 0, or the scale."""
    kept, scale = _kept(x, p)
    return kept.mul_(scale)


def _kept(x: Tensor, p: float) -> tuple[Tensor, float]:
    """Ones and zeros in the shape of ``x``, and what to multiply the elements by that are kept."""
    dropped = min(round(p * _LEVELS), _LEVELS - 1)
    bits = _draws((x.numel() + 3) // 4).view(torch.int16)[: x.numel()].view(x.shape)
    kept = torch.ge(bits, _LOWEST + dropped, out=torch.empty(x.shape, dtype=x.dtype))
    return kept, _LEVELS / (_LEVELS - dropped)


def _draws(count: int) -> Tensor:
    """So many random numbers of 64 bits."""
    lowest, highest = -(1 << 63), (1 << 63) - 1
    if _chance.generator is None:
        return torch.empty(count, dtype=torch.int64).random_(lowest, None)
    draws = _chance.generator.integers(lowest, highest, count, dtype=np.int64, endpoint=True)
    return torch.from_numpy(draws)


def check_probability(p: float) -> None:
    """Refuses, as a ValueError, a ``p`` that is not at least 0 and below 1."""
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

    def added_to(self, residual: Tensor, x: Tensor) -> Tensor:
        """``residual`` plus this layer's output for ``x``."""
        return add_dropout(residual, x, self.p) if self.training else residual + x

    def extra_repr(self) -> str:
        return f"p={self.p}"
