"""The epochs whose weights a run keeps: the best, and those to be averaged at the end."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

import torch
from torch import nn

from core.progress import log
from core.storage.checkpoint import (
    WEIGHTS_FILE,
    average_weights,
    copy_into,
    load_weights,
    save_weights,
)
from core.storage.files import is_file
from core.training.config import TrainConfig
from core.training.state import STATE_FOLDER, Candidate, Metrics, TrainingState


@dataclass(frozen=True)
class KeptCheckpoints:
    """The weights of some epochs on disk, and the best ones as the model in ``folder``.

    Attributes:
        metric: decides which epoch is best; see :func:`is_better`.
        digests: those of the files that belong to the model, for the header of its weights.
        is_writer: whether this process writes the files; the others only update their state.
    """

    model: nn.Module
    config: TrainConfig
    folder: Path
    metric: str
    digests: Mapping[str, str]
    is_writer: bool

    def keep(self, state: TrainingState, value: float) -> None:
        """Keeps the weights if their metric ``value`` is the best, or if they are averaged."""
        if is_better(self.metric, value, state.best):
            state.best, state.best_epoch = value, state.epoch
            self._save_model()
        if self.config.average < 2 or math.isnan(value):
            return
        state.candidates.append(Candidate(value, state.epoch))
        key = "epoch" if self.config.average_of == "last" else "value"
        is_falling = key == "value" and _falls(self.metric)
        state.candidates.sort(key=attrgetter(key), reverse=not is_falling)
        del state.candidates[self.config.average :]
        if state.epoch in state.kept_epochs:
            self._save(self._path(state.epoch))

    def remove_others(self, state: TrainingState) -> None:
        """Removes the weights that ``state`` does not name, after that state was saved."""
        if not self.is_writer:
            return
        kept = set(map(self._path, state.kept_epochs))
        for path in (self.folder / STATE_FOLDER).glob("epoch-*.safetensors"):
            if path not in kept:
                path.unlink()

    def finish(
        self,
        state: TrainingState,
        validate: Callable[[], Metrics],
        measure_final: Callable[[], float] | None = None,
    ) -> None:
        """Makes the mean of the candidates' weights the model, if it beats the best epoch.

        ``measure_final`` decides, the metric of the model as it will be used; or else ``validate``.
        """
        best = self._path(state.best_epoch)
        load_weights(best if is_file(best) else self.folder / WEIGHTS_FILE, self.model)
        self._save_model()  # the run may have ended before, with an average
        epochs = sorted(candidate.epoch for candidate in state.candidates)
        if self.config.average < 2 or len(epochs) < 2:
            return
        self.model.eval()
        old = state.best if measure_final is None else measure_final()
        average = average_weights([self._path(epoch) for epoch in epochs])
        copy_into(self.model, average, self.folder)
        value = validate()[self.metric] if measure_final is None else measure_final()
        log(
            f"average of epochs {', '.join(map(str, epochs))}: {self.metric} {value:.4g} "
            f"(best epoch: {old:.4g})"
        )
        if is_better(self.metric, value, old):
            self._save_model()
            state.averaged = epochs

    def _save_model(self) -> None:
        dtype = {"fp16": torch.float16, "int8": torch.int8}.get(self.config.weights_on_disk)
        self._save(self.folder / WEIGHTS_FILE, dtype=dtype, digests=self.digests)

    def _save(self, path: Path, **options: Any) -> None:
        if self.is_writer:
            save_weights(path, self.model, **options)

    def _path(self, epoch: int) -> Path:
        return self.folder / STATE_FOLDER / f"epoch-{epoch:03d}.safetensors"


def is_better(metric: str, new: float, old: float | None) -> bool:
    """Returns whether ``new`` is better than ``old``; losses and perplexities fall, others rise."""
    if old is None:
        return not math.isnan(new)
    return new < old if _falls(metric) else new > old


def _falls(metric: str) -> bool:
    return metric.endswith(("loss", "perplexity"))
