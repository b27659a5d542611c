"""Several trained models that generate as one."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import overload

import torch
from torch import Tensor

from transformer_suite.core.errors import CheckpointError, ConfigError
from transformer_suite.core.inference.ensemble import Ensemble
from transformer_suite.core.inference.incremental_model import IncrementalModel, StepModel
from transformer_suite.core.model.sequence_to_sequence import SequenceToSequence
from transformer_suite.data.vocabulary import Vocabulary


class TrainedModels(Sequence[SequenceToSequence]):
    """The models of a predictor: one, or several that work as an ensemble.

    Searches use snapshots of the weights, made when they are first asked for and kept
    (:class:`IncrementalModel`). Weights that change afterwards need new ``TrainedModels``. Several
    threads may search at the same time.

    Args:
        models: at least one, of one vocabulary, in evaluation mode.

    Raises:
        ConfigError: there is none.
    """

    def __init__(self, models: Sequence[SequenceToSequence]) -> None:
        if not models:
            raise ConfigError("a predictor needs at least one model")
        self._models = tuple(models)
        self._lock = threading.Lock()
        self._step_models: dict[bool, StepModel] = {}

    def __len__(self) -> int:
        """Returns how many models there are."""
        return len(self._models)

    @overload
    def __getitem__(self, index: int) -> SequenceToSequence: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[SequenceToSequence]: ...
    def __getitem__(self, index: int | slice) -> SequenceToSequence | Sequence[SequenceToSequence]:
        """Returns one of the models, or some of them."""
        return self._models[index]

    @property
    def max_len(self) -> int:
        """The longest sequence that all models have positions for."""
        return min(model.config.max_len for model in self._models)

    def step_model(self, *, int8: bool = False) -> StepModel:
        """Returns what searches use, with float or with 8-bit weights.

        Raises:
            ConfigError: ``int8`` on another device than a CPU; vocabularies of different sizes.
        """
        with self._lock:
            if int8 not in self._step_models:
                made = [IncrementalModel(model, int8=int8) for model in self._models]
                self._step_models[int8] = made[0] if len(made) == 1 else Ensemble(made)
            return self._step_models[int8]


def check_alike(folders: Sequence[Path], facts: Sequence[Mapping[str, str | Vocabulary]]) -> None:
    """Refuses models that read or write other texts than the first.

    Args:
        facts: what must be one in all models, by what it is called, for each folder.

    Raises:
        ConfigError: no folder.
        CheckpointError: names the two folders, and what differs.
    """
    if not folders:
        raise ConfigError("a predictor needs at least one model")
    for folder, others in zip(folders, facts, strict=True):
        for name, fact in facts[0].items():
            if others[name] != fact:
                raise CheckpointError(
                    f"{folders[0]} and {folder} cannot search as one: their {name} differs, "
                    f"{_difference(fact, others[name])}"
                )


def mean_logits(models: Sequence[SequenceToSequence], src: Tensor, tgt: Tensor) -> Tensor:
    """Returns the logits ``[T, B, V]`` for ``src`` ``[S, B]`` and ``tgt`` ``[T, B]``.

    Those of several models are the logarithms of their mean probabilities.
    """
    if len(models) == 1:
        logits: Tensor = models[0](src, tgt)
        return logits
    log_probs = [model(src, tgt).float().log_softmax(dim=-1) for model in models]
    return torch.stack(log_probs).logsumexp(dim=0) - math.log(len(log_probs))


def _difference(first: str | Vocabulary, second: str | Vocabulary) -> str:
    if isinstance(first, str) or isinstance(second, str) or len(first) != len(second):
        return f"{first} and {second}"
    number = next(i for i, word in enumerate(first.itos) if word != second.itos[i])
    return f"word {number} is {first.itos[number]!r} and {second.itos[number]!r}"
