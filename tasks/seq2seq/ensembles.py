"""Several trained models that generate as one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from transformer_suite.core.errors import CheckpointError
from transformer_suite.core.inference.ensemble import Ensemble
from transformer_suite.core.model.sequence_to_sequence import SequenceToSequence
from transformer_suite.data.vocabulary import Vocabulary

Model = SequenceToSequence | Ensemble


def model_of(models: Sequence[SequenceToSequence]) -> Model:
    """One model as it is, several as an ensemble.

    Raises:
        ConfigError: there is none.
    """
    return models[0] if len(models) == 1 else Ensemble(models)


def models_of(model: Model) -> list[SequenceToSequence]:
    """The models that an ensemble, or one model, is made of."""
    return model.models if isinstance(model, Ensemble) else [model]


def check_alike(folders: Sequence[Path], facts: Sequence[Mapping[str, str | Vocabulary]]) -> None:
    """Refuses models that read or write other texts than the first.

    Args:
        facts: what must be one in all models, by what it is called, for each folder.

    Raises:
        CheckpointError: names the two folders, and what differs.
    """
    for folder, others in zip(folders, facts, strict=True):
        for name, fact in facts[0].items():
            if others[name] != fact:
                raise CheckpointError(
                    f"{folders[0]} and {folder} cannot search as one: their {name} differs, "
                    f"{_difference(fact, others[name])}"
                )


def logits_of(model: Model) -> Callable[[Tensor, Tensor], Tensor]:
    """From ``src`` ``[S, B]`` and ``tgt`` ``[T, B]`` to logits ``[T, B, V]``.

    Those of an ensemble are the logarithms of its models' mean probabilities.
    """
    if not isinstance(model, Ensemble):
        return model

    def mean(src: Tensor, tgt: Tensor) -> Tensor:
        log_probs = [one(src, tgt).float().log_softmax(dim=-1) for one in model.models]
        return torch.stack(log_probs).logsumexp(dim=0) - math.log(len(log_probs))

    return mean


def vocab_size(model: Model) -> int:
    """V, the number of the target words."""
    return models_of(model)[0].generator.out_features


def max_len(model: Model) -> int:
    """The longest sequence that ``model`` has positions for."""
    return model.max_len if isinstance(model, Ensemble) else model.config.max_len


def _difference(first: str | Vocabulary, second: str | Vocabulary) -> str:
    if isinstance(first, str) or isinstance(second, str) or len(first) != len(second):
        return f"{first} and {second}"
    number = next(i for i, word in enumerate(first.itos) if word != second.itos[i])
    return f"word {number} is {first.itos[number]!r} and {second.itos[number]!r}"
