"""Learning-rate schedules: functions from the step number (the first step is 1) to the rate."""

from __future__ import annotations

import math
from collections.abc import Callable

Schedule = Callable[[int], float]


class CustomSchedule:
    """The paper's schedule (Vaswani et al. 2017, equation 3).

        lr(step) = factor * d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5)

    It rises in a straight line for ``warmup_steps`` steps and then falls with the root of the step.
    """

    def __init__(self, d_model: int, warmup_steps: int = 4000, factor: float = 1.0) -> None:
        if d_model < 1 or warmup_steps < 1:
            raise ValueError(
                f"d_model and warmup_steps are at least 1, not {d_model} and {warmup_steps}"
            )
        self.d_model = d_model
        self.warmup_steps = warmup_steps
        self.factor = factor

    def __call__(self, step: int) -> float:
        _check_step(step)
        return self.factor * self.d_model**-0.5 * min(step**-0.5, step * self.warmup_steps**-1.5)


def inverse_sqrt(peak: float, warmup_steps: int) -> Schedule:
    """Equation 3 with its peak named: ``peak`` is reached at ``warmup_steps``."""

    def rate(step: int) -> float:
        _check_step(step)
        if step < warmup_steps:
            return peak * step / warmup_steps
        return peak * math.sqrt(max(warmup_steps, 1) / step)

    return rate


def cosine(peak: float, warmup_steps: int, total_steps: int) -> Schedule:
    """A straight rise to ``peak``, then half a cosine to zero at ``total_steps``.

    Loshchilov and Hutter (2017), without restarts. After ``total_steps`` the rate stays zero.
    """

    def rate(step: int) -> float:
        _check_step(step)
        if step < warmup_steps:
            return peak * step / warmup_steps
        done = (step - warmup_steps) / max(1, total_steps - warmup_steps)
        return peak * 0.5 * (1.0 + math.cos(math.pi * min(1.0, done)))

    return rate


def constant(peak: float, warmup_steps: int) -> Schedule:
    """A straight rise to ``peak``, then no change."""

    def rate(step: int) -> float:
        _check_step(step)
        return peak * min(1.0, step / max(1, warmup_steps))

    return rate


def _check_step(step: int) -> None:
    if step < 1:
        raise ValueError(f"steps are counted from 1, not {step}")
