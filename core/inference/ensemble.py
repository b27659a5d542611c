"""Several models that search as one: their probabilities are averaged at every step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..errors import ConfigError
from ..model.sequence_to_sequence import DecoderState, SequenceToSequence


@dataclass
class EnsembleState:
    """What decoding carries from step to step: each model's own state."""

    states: list[DecoderState]

    def select(self, rows: Tensor, sentences: Tensor | None = None) -> None:
        """As :meth:`core.model.sequence_to_sequence.DecoderState.select`, in every state."""
        for state in self.states:
            state.select(rows, sentences)


class Ensemble:
    """The mean of several models of one vocabulary, to search with as with one model.

        p(y_t | y_<t, x) = (1 / M) sum_m p_m(y_t | y_<t, x)

    Their sizes may differ, their vocabularies may not: what is checked here is that these are
    equally large and have the same special tokens.

    Args:
        models: M models, each in evaluation mode, or dropout falsifies the result.

    Raises:
        ConfigError: no model, or vocabularies that differ; the message names the model and both.
    """

    def __init__(self, models: Sequence[SequenceToSequence]) -> None:
        if not models:
            raise ConfigError("an ensemble needs at least one model")
        self.models = list(models)
        self.special = models[0].special
        # The longest sequence that all of them have positions for.
        self.max_len = min(model.config.max_len for model in models)
        first = _vocabulary(models[0])
        for number, model in enumerate(self.models[1:], start=2):
            if _vocabulary(model) != first:
                raise ConfigError(
                    "the models of an ensemble must share one vocabulary: the first has "
                    f"{first}, number {number} has {_vocabulary(model)}"
                )

    def start(self, src: Tensor) -> EnsembleState:
        """Encodes ``src`` ``[S, B]`` by every model, with one row a sentence."""
        return EnsembleState([model.start(src) for model in self.models])

    def step(self, tokens: Tensor, state: EnsembleState) -> Tensor:
        """The logarithm ``[R, V]`` of the mean probability of the words after ``tokens`` ``[R]``.

        The state moves on by one position.
        """
        log_probs = torch.stack(
            [
                model.step(tokens, own).float().log_softmax(dim=-1)
                for model, own in zip(self.models, state.states, strict=True)
            ]
        )
        return log_probs.logsumexp(dim=0) - math.log(len(self.models))


def _vocabulary(model: SequenceToSequence) -> str:
    """What can be known of a model's vocabulary without its words."""
    src, tgt = len(model.src_embedding.weight), len(model.tgt_embedding.weight)
    return f"{src} source and {tgt} target words with {model.special}"
