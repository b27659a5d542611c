"""Runs that go wrong: when a loss that is still a number has exploded.

A single batch may have a loss or a gradient far beyond the others'; clipping deals with that. A run
has exploded when they stay there. So the mean of the last steps is compared with the least that
this mean has been. A healthy run's mean falls and then stays: batches differ, but ten of them in a
row do not, and neither warm-up nor a rising learning rate takes it to many times its lowest.

Near zero anything is many times anything: a loss below one nat, or a gradient shorter than one,
counts as one. Gradients' lengths differ more than losses do: they are allowed the square.
"""

from __future__ import annotations

from dataclasses import dataclass, field

_STEPS = 10


@dataclass
class Level:
    """The mean of a quantity over about the last ten steps, and the lowest that mean has been."""

    mean: float | None = None
    lowest: float | None = None

    def add(self, value: float) -> None:
        """Takes in the newest step's value; older ones fade out."""
        self.mean = value if self.mean is None else self.mean + (value - self.mean) / _STEPS
        self.lowest = self.mean if self.lowest is None else min(self.lowest, self.mean)

    def limit(self, factor: float) -> float:
        """The mean beyond which there is an explosion."""
        return factor * max(1.0, self.lowest or 0.0)


@dataclass
class Course:
    """How the loss and the length of its gradient have gone so far, step by step."""

    loss: Level = field(default_factory=Level)
    norm: Level = field(default_factory=Level)

    def explosion(self, loss: float, norm: float, factor: float) -> str | None:
        """Takes in a step; what has exploded with it, in words, or None.

        Args:
            loss: the step's mean loss, in nats. norm: the length of its gradient, unclipped.
            factor: how many times its lowest mean the mean of the loss may become.
        """
        for name, level, value, times in (
            ("loss", self.loss, loss, factor),
            ("gradient's norm", self.norm, norm, factor**2),
        ):
            level.add(value)
            assert level.mean is not None
            if level.mean > level.limit(times):
                return (
                    f"the {name} has exploded to {value:.4g}: the mean of the last steps is "
                    f"{level.mean:.4g}, and has been {level.lowest:.4g}"
                )
        return None

    def is_calm(self, loss: float, norm: float, factor: float) -> bool:
        """Whether a step like this, if more of its kind came, would be no explosion."""
        return loss <= self.loss.limit(factor) and norm <= self.norm.limit(factor**2)
