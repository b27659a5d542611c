"""The state of a training run: the numbers that decide how it continues, and its history."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from core.training.divergence import DivergenceMonitor, RunningMean

STATE_FILE = "state.safetensors"
STATE_FOLDER = "training"
"""The subfolder of a run that holds what resuming needs, and prediction does not."""

Metrics = dict[str, float]

# Not in the states of older versions.
_NEWER_NAMES = {"logged", "monitor", "averaged", "conditions", "changes", "precision"}

DIGEST = "sha256:"
"""How the conditions begin that are digests of files."""

_LARGEST = 1 << 53  # up to here, integers are exact as floats


class Sums(NamedTuple):
    """The sums over the steps of an epoch."""

    loss_sum: float = 0.0
    loss_count: int = 0
    norm_sum: float = 0.0
    steps: int = 0
    tokens: int = 0
    positions: int = 0
    seconds: float = 0.0

    def since(self, earlier: Sums) -> Sums:
        """Returns the differences to ``earlier``."""
        return Sums._make(now - then for now, then in zip(self, earlier, strict=True))

    def means(self) -> Metrics:
        """Returns the columns of the curve. Tokens are source and target without padding."""
        return {
            "train_loss": self.loss_sum / self.loss_count,
            "gradient_norm": self.norm_sum / self.steps,
            "tokens_per_second": self.tokens / max(self.seconds, 1e-9),
            "padding_share": 1.0 - self.tokens / max(1, self.positions),
        }


@dataclass
class TrainingState:
    """The numbers of a run; its tensors are in :mod:`.state_file`.

    The sums are those of the current epoch. ``position`` is the number of its batches that are
    done.
    """

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
    """The sums when the last row of ``steps.csv`` was written."""
    best: float | None = None
    best_epoch: int = 0
    candidates: list[tuple[float, int]] = field(default_factory=list)
    """The metric and the number of each epoch whose weights are kept for the average."""
    history: list[Metrics] = field(default_factory=list)
    monitor: DivergenceMonitor = field(default_factory=DivergenceMonitor)
    averaged: list[int] = field(default_factory=list)
    """The epochs whose average is the final model; empty if it is the best epoch alone."""
    conditions: dict[str, str] = field(default_factory=dict)
    """What the run depends on besides its configuration, for example the digests of its corpus."""
    changes: list[str] = field(default_factory=list)
    """How the conditions have changed in the middle of the run, with the user's consent."""
    precision: str = ""
    """What ``train.precision=auto`` has chosen on a CPU: "bf16" or "fp32"; "": nothing yet."""

    @classmethod
    def from_mapping(cls, mapping: dict[str, Any]) -> TrainingState:
        """Returns the state of which ``dataclasses.asdict`` and JSON made ``mapping``.

        Raises:
            ValueError: unknown names, values of a wrong type or out of range, or numbers that
                contradict one another.
        """
        values = dict(_mapping(mapping))
        if "course" in values:  # its name in older versions
            values["monitor"] = values.pop("course")
        names = {field.name for field in dataclasses.fields(cls)}
        _require(names - _NEWER_NAMES <= values.keys() <= names)
        state = cls(**{name: _READERS[name](value) for name, value in values.items()})
        state._check()
        return state

    def _check(self) -> None:
        """Raises a ValueError if the numbers contradict one another."""
        sums, logged = self.sums, self.logged
        counts = (self.position, self.epoch_steps, self.loss_count)
        done = [epoch for _, epoch in self.candidates] + self.averaged
        _require(
            (all(counts) or not any(counts))
            and self.epoch_steps <= min(self.step, self.position)
            and all(now >= then for now, then in zip(sums[1::2], logged[1::2], strict=True))
            and logged.steps <= sums.steps
            and (logged.steps < sums.steps) == (logged.loss_count < sums.loss_count)
            and len(self.history) == self.epoch - 1
            and (self.best is None) == (self.best_epoch == 0)
            and all(1 <= epoch < self.epoch for epoch in done)
            and self.best_epoch < self.epoch
        )

    def differences(self, conditions: Mapping[str, str]) -> list[str]:
        """Returns how ``conditions`` differ from those of the run; each difference as text.

        A state of an older version has no conditions: nothing is known to differ.
        """
        if not self.conditions:
            return []
        names = sorted(self.conditions.keys() | conditions.keys())
        pairs = ((name, self.conditions.get(name), conditions.get(name)) for name in names)
        return [_difference(name, old, new) for name, old, new in pairs if old != new]

    @property
    def sums(self) -> Sums:
        """The sums of the current epoch."""
        counts = (self.tokens, self.positions, self.seconds)
        return Sums(self.loss_sum, self.loss_count, self.norm_sum, self.epoch_steps, *counts)

    @property
    def tokens_per_second(self) -> float:
        """The speed in the current epoch."""
        return self.sums.means()["tokens_per_second"]

    def begin_epoch(self, epoch: int) -> None:
        """Moves to the first batch of ``epoch``."""
        self.epoch = epoch
        self.position = self.epoch_steps = self.loss_count = self.tokens = self.positions = 0
        self.loss_sum = self.norm_sum = self.seconds = 0.0
        self.logged = Sums()

    def epoch_row(self, metrics: Metrics) -> Metrics:
        """Returns the row of the current epoch in the history, with its validation ``metrics``."""
        return {**self._row_of(self.sums, metrics), "seconds": self.seconds}

    def step_row(self) -> Metrics:
        """Returns the row of ``steps.csv`` for the steps since the last row."""
        sums = self.sums.since(self.logged)
        self.logged = self.sums
        return self._row_of(sums, {})

    def _row_of(self, sums: Sums, metrics: Metrics) -> Metrics:
        means = sums.means()
        return {
            "epoch": self.epoch,
            "step": self.step,
            "train_loss": means.pop("train_loss"),
            **metrics,
            "learning_rate": self.learning_rate,
            **means,
        }


def _difference(name: str, old: str | None, new: str | None) -> str:
    name = ascii(name)[1:-1][:100] if not name.isprintable() else name[:100]
    if new is None:
        return f"{name} is missing"
    if old is None:
        return f"{name} is new"
    if new.startswith(DIGEST):
        return f"{name} has changed"
    return f"{name} is {new[:40]!r}, not {old[:40]!r}"


# One function for every kind of field: from a value of JSON to the field's, or a ValueError.


def _require(is_right: bool) -> None:
    if not is_right:
        raise ValueError("not the numbers of a training state")


def _count(value: Any, least: int = 0) -> int:
    _require(type(value) is int and least <= value <= _LARGEST)
    return value


def _epoch(value: Any) -> int:
    return _count(value, 1)


def _number(value: Any, is_allowed: Callable[[float], bool] = math.isfinite) -> float:
    _require(type(value) is float or (type(value) is int and abs(value) <= _LARGEST))
    _require(is_allowed(value))
    return float(value)


def _amount(value: Any) -> float:
    return _number(value, lambda number: 0.0 <= number < math.inf)


def _metric(value: Any) -> float:
    """A measured number, which may be infinite, but not NaN."""
    return _number(value, lambda number: not math.isnan(number))


def _list(value: Any) -> list[Any]:
    _require(type(value) is list)
    return value


def _mapping(value: Any) -> dict[str, Any]:
    _require(type(value) is dict)
    return value


def _text(value: Any) -> str:
    _require(type(value) is str)
    return value


def _precision(value: Any) -> str:
    _require(value in ("", "bf16", "fp32"))
    return _text(value)


def _sums(value: Any) -> Sums:
    values = _list(value) or list(Sums())
    _require(len(values) == len(Sums._fields))
    names = zip(Sums._fields, values, strict=True)
    return Sums(**{name: _READERS[name](number) for name, number in names})


def _candidate(value: Any) -> tuple[float, int]:
    _require(len(_list(value)) == 2)
    return _metric(value[0]), _epoch(value[1])


def _row(value: Any) -> Metrics:
    """A row of the history. What a validation measures may be NaN; the rest may not."""
    row = _mapping(value)
    for number in row.values():
        _number(number, lambda _: True)
    for name in ("epoch", "step"):
        _count(row.get(name))
    for name in ("train_loss", "learning_rate", "seconds"):
        _number(row.get(name))
    return row


def _monitor(value: Any) -> DivergenceMonitor:
    means = _mapping(value)
    _require(means.keys() <= {"loss", "norm"})
    return DivergenceMonitor(**{name: _running_mean(mean) for name, mean in means.items()})


def _running_mean(value: Any) -> RunningMean:
    _require(_mapping(value).keys() == {"mean", "lowest"})
    if value == {"mean": None, "lowest": None}:
        return RunningMean()
    return RunningMean(_number(value["mean"]), _number(value["lowest"]))


_READERS: dict[str, Callable[[Any], Any]] = {
    "epoch": _epoch,
    "position": _count,
    "step": _count,
    "epoch_steps": _count,
    "learning_rate": _amount,
    "loss_sum": _number,
    "loss_count": _count,
    "norm_sum": _amount,
    "steps": _count,
    "tokens": _count,
    "positions": _count,
    "seconds": _amount,
    "logged": _sums,
    "best": lambda value: None if value is None else _metric(value),
    "best_epoch": _count,
    "candidates": lambda value: [_candidate(item) for item in _list(value)],
    "history": lambda value: [_row(item) for item in _list(value)],
    "monitor": _monitor,
    "averaged": lambda value: [_epoch(item) for item in _list(value)],
    "conditions": lambda value: {_text(k): _text(v) for k, v in _mapping(value).items()},
    "changes": lambda value: [_text(item) for item in _list(value)],
    "precision": _precision,
}
