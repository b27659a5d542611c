"""Detects a run whose loss has exploded although it is still a number.

One batch may have a loss or a gradient far above the others; clipping takes care of that. A run
diverges when they stay there. So the mean of the last steps is compared with the lowest value that
this mean has had. In a healthy run, the mean falls and then stays. Batches differ, but the means of
ten steps differ little, and neither warm-up nor a rising learning rate makes them many times the
lowest.

A value below 1 counts as 1, because a small change near zero is a large ratio. Gradient norms vary
more than losses, so their limit is the square of the factor.
"""

from __future__ import annotations

from dataclasses import dataclass, field

_STEPS = 10


@dataclass
class RunningMean:
    """The exponential mean of a value over about ten steps, and the lowest that it has been."""

    mean: float | None = None
    lowest: float | None = None

    def add(self, value: float) -> float:
        """Adds the value of the newest step, and returns the mean."""
        mean = value if self.mean is None else self.mean + (value - self.mean) / _STEPS
        self.mean = mean
        self.lowest = mean if self.lowest is None else min(self.lowest, mean)
        return mean

    def limit(self, factor: float) -> float:
        """Returns the largest mean that is not an explosion."""
        return factor * max(1.0, self.lowest or 0.0)


@dataclass
class DivergenceMonitor:
    """The running means of the loss and of the gradient norm."""

    loss: RunningMean = field(default_factory=RunningMean)
    norm: RunningMean = field(default_factory=RunningMean)

    def explosion(self, loss: float, norm: float, factor: float) -> str | None:
        """Adds a step. Returns a description of what has exploded, or None.

        Args:
            loss: the mean loss of the step, in nats.
            norm: the gradient norm before clipping.
            factor: the mean loss may become this many times its lowest value.
        """
        for name, running, value, limit in (
            ("loss", self.loss, loss, factor),
            ("gradient norm", self.norm, norm, factor**2),
        ):
            mean = running.add(value)
            if mean > running.limit(limit):
                return (
                    f"the {name} has exploded to {value:.4g}: the mean of the last steps is "
                    f"{mean:.4g}, and its lowest value was {running.lowest:.4g}"
                )
        return None

    def is_stable(self, loss: float, norm: float, factor: float) -> bool:
        """Returns whether a run of steps with these values would be no explosion."""
        return loss <= self.loss.limit(factor) and norm <= self.norm.limit(factor**2)
