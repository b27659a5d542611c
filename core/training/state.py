"""Where a training run stands: the numbers that decide how it goes on, and its curve's rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from ..errors import CheckpointError
from .divergence import Course, Level

STATE_FILE = "state.safetensors"
STATE_FOLDER = "training"
"""In a run's folder: what is needed to go on, and nobody needs to predict."""

Metrics = dict[str, float]


class Sums(NamedTuple):
    """What is summed over the steps of an epoch."""

    loss_sum: float = 0.0
    loss_count: int = 0
    norm_sum: float = 0.0
    steps: int = 0
    tokens: int = 0
    positions: int = 0
    seconds: float = 0.0

    def since(self, earlier: Sums) -> Sums:
        """What has come since ``earlier``."""
        return Sums._make(now - then for now, then in zip(self, earlier, strict=True))

    def means(self) -> Metrics:
        """The curve's columns. Tokens are those of source and target, without padding."""
        return {
            "train_loss": self.loss_sum / self.loss_count,
            "gradient_norm": self.norm_sum / self.steps,
            "tokens_per_second": self.tokens / max(self.seconds, 1e-9),
            "padding_share": 1.0 - self.tokens / max(1, self.positions),
        }


@dataclass
class TrainingState:
    """Where a run stands, apart from its tensors. The sums are over the epoch so far."""

    epoch: int = 1
    position: int = 0
    step: int = 0
    epoch_steps: int = 0
    learning_rate: float = 0.0
    loss_sum: float = 0.0
    loss_count: int = 0
    norm_sum: float = 0.0
    tokens: int = 0
    positions: int = 0
    seconds: float = 0.0
    logged: Sums = field(default_factory=Sums)
    """The sums when the newest row of the steps' curve was written."""
    best: float | None = None
    best_epoch: int = 0
    candidates: list[tuple[float, int]] = field(default_factory=list)
    history: list[Metrics] = field(default_factory=list)
    course: Course = field(default_factory=Course)
    averaged: list[int] = field(default_factory=list)
    """The epochs whose mean is the model that was kept; none where it is the best epoch's own."""

    @classmethod
    def from_mapping(cls, mapping: dict[str, Any]) -> TrainingState:
        """The state that ``asdict`` made ``mapping`` of, and JSON may have changed."""
        state = cls(**mapping)
        state.candidates = [(value, epoch) for value, epoch in state.candidates]
        # States of before had none of these.
        state.logged = Sums(*mapping.get("logged", ()))
        course = mapping.get("course", {})
        state.course = Course(**{name: Level(**level) for name, level in course.items()})
        return state

    @property
    def sums(self) -> Sums:
        """Over the epoch so far."""
        return Sums(
            loss_sum=self.loss_sum,
            loss_count=self.loss_count,
            norm_sum=self.norm_sum,
            steps=self.epoch_steps,
            tokens=self.tokens,
            positions=self.positions,
            seconds=self.seconds,
        )

    @property
    def tokens_per_second(self) -> float:
        """In the epoch so far."""
        return self.sums.means()["tokens_per_second"]

    def begin_epoch(self, epoch: int) -> None:
        """Moves on to the first batch of ``epoch``."""
        self.epoch = epoch
        self.position = self.epoch_steps = self.loss_count = self.tokens = self.positions = 0
        self.loss_sum = self.norm_sum = self.seconds = 0.0
        self.logged = Sums()

    def epoch_row(self, metrics: Metrics) -> Metrics:
        """The epoch in the history, with what its validation measured."""
        means = self.sums.means()
        return {
            "epoch": self.epoch,
            "step": self.step,
            "train_loss": means.pop("train_loss"),
            **metrics,
            "learning_rate": self.learning_rate,
            **means,
            "seconds": self.seconds,
        }

    def step_row(self) -> Metrics:
        """The steps since the row before, or since the epoch began."""
        means = self.sums.since(self.logged).means()
        self.logged = self.sums
        return {
            "epoch": self.epoch,
            "step": self.step,
            "train_loss": means.pop("train_loss"),
            "learning_rate": self.learning_rate,
            **means,
        }


def numbers_of(
    path: Path, tensors: Mapping[str, Tensor]
) -> tuple[TrainingState, dict[str, object]]:
    """The state at ``path``, whose ``tensors`` these are, and the settings it was made with.

    Raises:
        CheckpointError: it is no training state, or of a program that writes other ones.
    """
    try:
        numbers = json.loads(tensors["numbers"].numpy().tobytes())
        return TrainingState.from_mapping(numbers["state"]), numbers["train"]
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"{path}: not a training state, or that of another version of this program"
        ) from error
