"""The state of a training run: the numbers that decide how it continues, and its history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from core.config import Measurement, check, check_range
from core.errors import shorten
from core.training.divergence import DivergenceMonitor

STATE_FILE = "state.safetensors"
STATE_FOLDER = "training"
"""The subfolder of a run that holds what resuming needs, and prediction does not."""

Metrics = dict[str, float]

DIGEST = "sha256:"
"""How the conditions begin that are digests of files."""


@dataclass(kw_only=True)
class Sums:
    """Sums over steps. Tokens are source and target without padding, positions with it."""

    steps: int = 0
    loss: float = 0.0
    targets: int = 0
    norm: float = 0.0
    tokens: int = 0
    positions: int = 0
    seconds: float = 0.0

    def since(self, earlier: Sums) -> Sums:
        """Returns the differences to ``earlier``."""
        return Sums(**{name: value - getattr(earlier, name) for name, value in vars(self).items()})

    @property
    def tokens_per_second(self) -> float:
        """The speed."""
        return self.tokens / max(self.seconds, 1e-9)


@dataclass(frozen=True, kw_only=True)
class CurveRow:
    """A row of the training curve: the means over some steps, and the metrics after the last."""

    epoch: int = 0
    step: int = 0
    train_loss: float = 0.0
    metrics: dict[str, Measurement] = field(default_factory=dict)
    learning_rate: float = 0.0
    gradient_norm: float = 0.0
    tokens_per_second: float = 0.0
    padding_share: float = 0.0
    seconds: float | None = None

    def columns(self) -> Metrics:
        """Returns the values by the names of their columns."""
        columns: Metrics = {}
        for column in fields(self):
            value = getattr(self, column.name)
            if value is not None:
                columns |= value if column.name == "metrics" else {column.name: value}
        return columns


@dataclass(frozen=True)
class Candidate:
    """An epoch whose weights are kept for the average."""

    value: Measurement = 0.0
    epoch: int = 0


@dataclass
class TrainingState:
    """The numbers of a run; its tensors are in :mod:`.state_file`.

    Attributes:
        position: the number of batches of this epoch that are done.
        sums: over this epoch.
        logged: these sums when the last row of ``steps.csv`` was written.
        best, best_epoch: the best metric, and its epoch; None and 0 before there is one.
        averaged: the epochs whose average is the final model; empty if it is the best epoch alone.
        conditions: what the run depends on besides its configuration, for example the digests of
            its corpus.
        changes: how the conditions have changed in the middle of the run, with the user's consent.
        precision: what ``train.precision=auto`` has chosen on a CPU: "bf16" or "fp32"; "": nothing
            yet.

    Raises:
        ConfigError: a number that no run has.
    """

    epoch: int = 1
    position: int = 0
    step: int = 0
    learning_rate: float = 0.0
    sums: Sums = field(default_factory=Sums)
    logged: Sums = field(default_factory=Sums)
    best: Measurement | None = None
    best_epoch: int = 0
    candidates: list[Candidate] = field(default_factory=list)
    history: list[CurveRow] = field(default_factory=list)
    monitor: DivergenceMonitor = field(default_factory=DivergenceMonitor)
    averaged: list[int] = field(default_factory=list)
    conditions: dict[str, str] = field(default_factory=dict)
    changes: list[str] = field(default_factory=list)
    precision: str = ""

    def __post_init__(self) -> None:
        check_range("epoch", self.epoch, 1, 1 << 53)
        for name in ("position", "step", "best_epoch"):
            check_range(name, getattr(self, name), 0, 1 << 53)
        check(self.precision in ("", "bf16", "fp32"), "precision", self.precision, "bf16 or fp32")

    @property
    def kept_epochs(self) -> set[int]:
        """The epochs whose weights are needed."""
        return {self.best_epoch, *(candidate.epoch for candidate in self.candidates)}

    def begin_epoch(self) -> None:
        """Moves to the first batch of the next epoch."""
        self.epoch += 1
        self.position, self.sums, self.logged = 0, Sums(), Sums()

    def curve_row(
        self, sums: Sums, metrics: Metrics | None = None, *, seconds: float | None = None
    ) -> CurveRow:
        """Returns the row of the curve for the steps of ``sums``, which end with this one."""
        return CurveRow(
            epoch=self.epoch,
            step=self.step,
            train_loss=sums.loss / max(1, sums.targets),
            metrics=metrics or {},
            learning_rate=self.learning_rate,
            gradient_norm=sums.norm / max(1, sums.steps),
            tokens_per_second=sums.tokens_per_second,
            padding_share=1.0 - sums.tokens / max(1, sums.positions),
            seconds=seconds,
        )

    def differences(self, conditions: Mapping[str, str]) -> list[str]:
        """Returns how ``conditions`` differ from those of the run; each difference as text."""
        names = sorted(self.conditions.keys() | conditions.keys())
        pairs = ((name, self.conditions.get(name), conditions.get(name)) for name in names)
        return [_difference(name, old, new) for name, old, new in pairs if old != new]


def _difference(name: str, old: str | None, new: str | None) -> str:
    name = shorten(name)
    if new is None:
        return f"{name} is missing"
    if old is None:
        return f"{name} is new"
    if new.startswith(DIGEST):
        return f"{name} has changed"
    return f"{name} is {new[:40]!r}, not {old[:40]!r}"
