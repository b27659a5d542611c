"""The state of a training run: everything that decides how it continues, and its file.

The tensors of the file are called

* ``model.NAME``: the weights and buffers
* ``optimizer.NAME.SLOT``: the optimizer's moments of a weight, and the number of its steps
* ``ema.NAME``: the moving average of a weight, and ``ema.n_averaged``
* ``numbers``: :class:`TrainingState`, as the bytes of its JSON: the file's checksum covers it too

Random numbers are not in it: every step has a seed of its own. A file with a right checksum may
still be crafted, or come from another version of this program, so every name, shape and type is
checked before anything of it is used.
"""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from core.config import Measurement, check_range, from_mapping
from core.errors import CheckpointError, shorten
from core.storage.checkpoint import load_tensors, save_tensors

HISTORY_FILE = "history.csv"
"""The training curve by epoch."""
STEPS_FILE = "steps.csv"
"""The training curve by step: a row for ``train.log_every`` steps, with means within the epoch."""
STATE_FILE = "state.safetensors"
STATE_FOLDER = "training"
"""The subfolder of a run that holds what resuming needs, and prediction does not."""

Metrics = dict[str, float]

Tensors = Mapping[str, Tensor]

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

    def __add__(self, other: "Sums") -> "Sums":
        return Sums(**{name: value + getattr(other, name) for name, value in vars(self).items()})

    def __sub__(self, other: "Sums") -> "Sums":
        return Sums(**{name: value - getattr(other, name) for name, value in vars(self).items()})

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
        for name, value in vars(self).items():
            if value is not None:
                columns |= value if name == "metrics" else {name: value}
        return columns


def as_csv(rows: Sequence[CurveRow]) -> str:
    """Returns ``rows`` as CSV with a header."""
    text, records = io.StringIO(), [row.columns() for row in rows]
    names = list(dict.fromkeys(name for record in records for name in record))
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()


@dataclass(frozen=True)
class Candidate:
    """An epoch whose weights are kept for the average."""

    value: Measurement = 0.0
    epoch: int = 0


@dataclass
class TrainingState:
    """The numbers of a run.

    Attributes:
        position: the number of batches of this epoch that are done.
        sums: over this epoch.
        logged: these sums at the last of the ``steps``.
        history, steps: the training curve by epoch and by step.
        best, best_epoch: the best metric, and its epoch; None and 0 before there is one.
        averaged: the epochs whose average is the final model; empty if it is the best epoch alone.
        conditions: what the run depends on besides its configuration, such as its corpus' digests.
        changes: how the conditions have changed in the middle of the run, with the user's consent.
        loss_scale: what the loss is multiplied by in fp16, so that small gradients are not zero.
        scaled_steps: the number of steps since it changed.

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
    steps: list[CurveRow] = field(default_factory=list)
    averaged: list[int] = field(default_factory=list)
    conditions: dict[str, str] = field(default_factory=dict)
    changes: list[str] = field(default_factory=list)
    loss_scale: float = 65536.0
    scaled_steps: int = 0

    def __post_init__(self) -> None:
        check_range("epoch", self.epoch, 1, 1 << 53)
        check_range("loss_scale", self.loss_scale, 0.5, 2.0**60)
        for name in ("position", "step", "best_epoch", "scaled_steps"):
            check_range(name, getattr(self, name), 0, 1 << 53)

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
        found = []
        for name in sorted(self.conditions.keys() | conditions.keys()):
            old, new = self.conditions.get(name), conditions.get(name)
            if new is None:
                found.append(f"{shorten(name)} is missing")
            elif old is None:
                found.append(f"{shorten(name)} is new")
            elif old != new:
                is_digest = new.startswith(DIGEST)
                how = "has changed" if is_digest else f"is {new[:40]!r}, not {old[:40]!r}"
                found.append(f"{shorten(name)} {how}")
        return found


def save_state(path: Path, state: TrainingState, tensors: Tensors) -> None:
    """Writes the state of a run atomically, or raises a UserError and keeps the old file."""
    numbers = json.dumps({"state": asdict(state)}).encode()
    content = torch.frombuffer(bytearray(numbers), dtype=torch.uint8)
    save_tensors(path, {**tensors, "numbers": content})


def load_state(path: Path) -> tuple[TrainingState, Tensors]:
    """Returns what :func:`save_state` wrote. Raises a CheckpointError for any other file."""
    tensors = load_tensors(path)
    if "random.cpu" in tensors:
        init = path.parents[1]
        raise CheckpointError(f"{path}: made by an older version; start again with init={init}")
    try:
        numbers = json.loads(tensors.pop("numbers").numpy().tobytes())
        state = from_mapping(TrainingState, numbers["state"])
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: not a training state, or of another version") from error
    return state, tensors


def copy_tensors(saved: Tensors, tensors: Tensors, source: Path) -> None:
    """Copies all ``saved`` tensors; or none, and raises a CheckpointError, if one does not fit."""
    for name in sorted(saved.keys() | tensors.keys()):
        found, wanted = _kind(saved.get(name)), _kind(tensors.get(name))
        if found != wanted:
            raise CheckpointError(
                f"{source}: not the weights of this model: {shorten(name)} is {found}, not {wanted}"
            )
    with torch.no_grad():
        for name, tensor in tensors.items():
            tensor.copy_(saved[name])


def _kind(tensor: Tensor | None) -> str:
    return "missing" if tensor is None else f"{tensor.dtype} {list(tensor.shape)}"
