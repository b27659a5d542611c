"""Learning-rate schedules: functions from the number of a step to its learning rate.

The first step is 1. ``torch.optim.lr_scheduler.LambdaLR`` counts from 0, so step 0 has the rate of
step 1. (LambdaLR multiplies: give its optimizer ``lr=1.0``.)
"""

import math
from collections.abc import Callable

from torch.optim import Optimizer

from core.training.config import TrainConfig

Schedule = Callable[[int], float]


class CustomSchedule:
    """The paper's schedule (Vaswani et al. 2017, equation 3).

        lr(step) = factor * d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5)

    It rises linearly for ``warmup_steps`` steps and then falls with the square root of the step.

    Args:
        d_model: D.
        warmup_steps: the step of the highest rate.
        optimizer: its learning rates are set by :meth:`step`.
        factor: multiplies every rate.

    Raises:
        ValueError: a size below 1.
    """

    def __init__(
        self,
        d_model: int,
        warmup_steps: int = 4000,
        optimizer: Optimizer | None = None,
        *,
        factor: float = 1.0,
    ) -> None:
        if d_model < 1 or warmup_steps < 1:
            raise ValueError(
                f"d_model and warmup_steps are at least 1, not {d_model} and {warmup_steps}"
            )
        self.d_model = d_model
        self.warmup_steps = warmup_steps
        self.optimizer = optimizer
        self.factor = factor
        self.steps = 0

    def step(self) -> float:
        """Sets and returns the rate of the next step. Raises a ValueError without an optimizer."""
        if self.optimizer is None:
            raise ValueError("step() needs CustomSchedule(d_model, optimizer=optimizer)")
        rate = self()
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        return rate

    def __call__(self, step: int | None = None) -> float:
        """Returns the rate of ``step``; without one, that of the next step since the last call."""
        if step is None:
            self.steps += 1
            step = self.steps
        step = max(1, step)
        return self.factor * self.d_model**-0.5 * min(step**-0.5, step * self.warmup_steps**-1.5)


def make_schedule(config: TrainConfig, *, d_model: int, total_steps: int) -> Schedule:
    """Returns the schedule that ``config`` names. "noam" (the paper's) has a peak of its own."""
    peak = config.learning_rate
    warmup_steps = config.warmup_steps or max(1, round(config.warmup * total_steps))
    if config.schedule == "noam":
        return CustomSchedule(d_model, warmup_steps)
    if config.schedule == "cosine":
        return cosine(peak, warmup_steps, total_steps)
    if config.schedule == "constant":
        return _after_warmup(peak, warmup_steps, lambda step: 1.0)
    return inverse_sqrt(peak, warmup_steps)


def inverse_sqrt(peak: float, warmup_steps: int) -> Schedule:
    """Returns equation 3 with the factor that makes ``peak`` the rate at ``warmup_steps``."""
    return _after_warmup(peak, warmup_steps, lambda step: math.sqrt(max(warmup_steps, 1) / step))


def cosine(peak: float, warmup_steps: int, total_steps: int) -> Schedule:
    """Returns a linear warmup to ``peak``, then half a cosine to zero at ``total_steps``.

    Loshchilov and Hutter (2017), without restarts. After ``total_steps`` the rate stays zero.
    """

    def share(step: int) -> float:
        done = (step - warmup_steps) / max(1, total_steps - warmup_steps)
        return 0.5 * (1.0 + math.cos(math.pi * min(1.0, done)))

    return _after_warmup(peak, warmup_steps, share)


def _after_warmup(peak: float, warmup_steps: int, share: Schedule) -> Schedule:
    """Returns a linear warmup to ``peak``, and then the ``share`` of it at each step."""

    def rate(step: int) -> float:
        step = max(1, step)
        return peak * step / warmup_steps if step < warmup_steps else peak * share(step)

    return rate
