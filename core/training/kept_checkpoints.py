"""Which epochs' weights a run keeps: the best one's, and those to be averaged at its end."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from ..progress import log
from ..storage.checkpoint import (
    WEIGHTS_FILE,
    average_weights,
    copy_into,
    load_tensors,
    load_weights,
    model_tensors,
    save_weights,
)
from .config import TrainConfig
from .state import STATE_FILE, STATE_FOLDER, Metrics, TrainingState, numbers_of


class KeptWeights:
    """The weights of some epochs on disk, and the best of them as the model in ``folder``.

    Args:
        metric: decides which epoch is best; see :func:`is_better`.
        is_writer: whether this process writes, or only keeps account of what another one does.
    """

    def __init__(
        self,
        model: nn.Module,
        config: TrainConfig,
        folder: Path,
        metric: str,
        *,
        is_writer: bool = True,
    ) -> None:
        self._is_writer = is_writer
        self._model = model
        self._config = config
        self._folder = folder
        self._metric = metric

    def keep(self, state: TrainingState, value: float) -> None:
        """Keeps the weights of the epoch in ``state``, whose metric is ``value``, if it is needed.

        The best epoch so far is the model. The best or the last epochs are for the average.
        """
        if is_better(self._metric, value, state.best):
            state.best, state.best_epoch = value, state.epoch
            self._save_model()
        if self._config.average < 2 or math.isnan(value):
            return
        state.candidates.append((value, state.epoch))
        if self._config.average_of == "last":
            state.candidates.sort(key=lambda c: c[1], reverse=True)
        else:
            state.candidates.sort(key=lambda c: c[0], reverse=not _falls(self._metric))
        del state.candidates[self._config.average :]
        if state.epoch in _epochs_of(state):
            self._save(self._path(state.epoch))

    def remove_others(self, state: TrainingState) -> None:
        """Removes what ``state`` no longer names, once that state is safe on disk."""
        if not self._is_writer:
            return
        kept = set(map(self._path, _epochs_of(state)))
        for path in (self._folder / STATE_FOLDER).glob("epoch-*.safetensors"):
            if path not in kept:
                path.unlink()

    def finish(self, state: TrainingState, validate: Callable[[], Metrics]) -> None:
        """Tries the mean of the candidates' weights, and keeps it if it beats the best epoch."""
        epochs = sorted(epoch for _, epoch in state.candidates)
        if self._config.average >= 2 and len(epochs) >= 2:
            average = average_weights([self._path(epoch) for epoch in epochs])
            copy_into(self._model, average, self._folder)
            self._model.eval()
            value = validate()[self._metric]
            log(
                f"average of epochs {', '.join(map(str, epochs))}: {self._metric} {value:.4g} "
                f"(best epoch: {state.best:.4g})"
            )
            if is_better(self._metric, value, state.best):
                self._save_model()
                state.averaged = epochs
                return
        self._put_back_best(state)

    def _put_back_best(self, state: TrainingState) -> None:
        """Before the run was prolonged, it may have kept an average in the best epoch's place."""
        best = self._path(state.best_epoch)
        if not best.is_file():
            return
        load_weights(best, self._model)
        kept = load_tensors(self._folder / WEIGHTS_FILE)
        weights = model_tensors(self._model).items()
        if not all(torch.equal(kept[name], w.to(kept[name])) for name, w in weights):
            self._save_model()

    def _save_model(self) -> None:
        self._save(self._folder / WEIGHTS_FILE, dtype=disk_dtype(self._config))

    def _save(self, path: Path, *, dtype: torch.dtype | None = None) -> None:
        if self._is_writer:
            save_weights(path, self._model, dtype=dtype)

    def _path(self, epoch: int) -> Path:
        return epoch_file(self._folder, epoch)


def disk_dtype(config: TrainConfig) -> torch.dtype | None:
    """The type of a finished model's weights on disk; None: the one they have."""
    return torch.float16 if config.weights_on_disk == "fp16" else None


def epoch_file(folder: Path, epoch: int) -> Path:
    """Where the run in ``folder`` keeps the weights of ``epoch``, if it keeps them."""
    return folder / STATE_FOLDER / f"epoch-{epoch:03d}.safetensors"


def kept_epochs(folder: Path) -> list[int]:
    """The epochs whose weights the run in ``folder`` has kept (``train.average``), the best first.

    Raises:
        CheckpointError: there is no training state, or it is damaged.
    """
    path = folder / STATE_FOLDER / STATE_FILE
    state, _ = numbers_of(path, load_tensors(path))
    values = {epoch: value for value, epoch in state.candidates}
    if not values or state.best is None:
        return []
    values[state.best_epoch] = state.best
    # The best of them all is at the good end, whichever that is.
    is_rising = state.best == max(values.values())
    return sorted(sorted(values), key=values.__getitem__, reverse=is_rising)


def is_better(metric: str, new: float, old: float | None) -> bool:
    """Whether ``new`` beats ``old``: losses and perplexities fall, everything else rises."""
    if old is None:
        return not math.isnan(new)
    return new < old if _falls(metric) else new > old


def _falls(metric: str) -> bool:
    return metric.endswith(("loss", "perplexity"))


def _epochs_of(state: TrainingState) -> set[int]:
    return {state.best_epoch, *(epoch for _, epoch in state.candidates)}
