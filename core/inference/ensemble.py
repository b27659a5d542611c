"""Several models that search as one: their probabilities are averaged at every step."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from core.errors import ConfigError
from core.inference.incremental_model import DecoderState, IncrementalModel


@dataclass
class EnsembleState:
    """What decoding carries from step to step: the state of each model."""

    states: list[DecoderState]

    @property
    def memory_mean(self) -> Tensor:
        """That of the first model."""
        return self.states[0].memory_mean

    def select(self, rows: Tensor, sentences: Tensor | None = None) -> None:
        """As ``DecoderState.select``, in every state."""
        for state in self.states:
            state.select(rows, sentences)


class Ensemble:
    """The mean of several models of one vocabulary, used in a search like one model.

        p(y_t | y_<t, x) = (1 / M) sum_m p_m(y_t | y_<t, x)

    The sizes of the models may differ, those of their vocabularies may not.

    Raises:
        ConfigError: no model, or vocabularies that differ; the message names the model and both.
    """

    def __init__(self, models: Sequence[IncrementalModel]) -> None:
        if not models:
            raise ConfigError("an ensemble needs at least one model")
        self.models = list(models)
        self.vocab_size = models[0].vocab_size
        # The longest sequence that all of them have positions for.
        self.max_len = min(model.max_len for model in models)
        first = _vocabulary(models[0])
        for number, model in enumerate(self.models[1:], start=2):
            if _vocabulary(model) != first:
                raise ConfigError(
                    "the models of an ensemble must share one vocabulary: the first has "
                    f"{first}, number {number} has {_vocabulary(model)}"
                )

    def start(self, src: Tensor) -> EnsembleState:
        """Encodes ``src`` ``[S, B]`` with every model, with one row for each sentence."""
        return EnsembleState([model.start(src) for model in self.models])

    def step(self, tokens: Tensor, state: EnsembleState) -> Tensor:
        """Returns the logarithm ``[R, V]`` of the mean probability of each token after ``tokens``
        ``[R]``; the state advances by one position."""
        pairs = zip(self.models, state.states, strict=True)
        return mean_log_probs([model.step(tokens, own) for model, own in pairs])


def mean_log_probs(logits: Sequence[Tensor]) -> Tensor:
    """Returns the logarithm of the mean of M models' probabilities; of one model, its logits."""
    if len(logits) == 1:
        return logits[0].float()
    log_probs = torch.stack([x.float() for x in logits]).log_softmax(dim=-1)
    return log_probs.logsumexp(dim=0) - math.log(len(logits))


StepModel = IncrementalModel | Ensemble
"""What a search needs of a model."""


def _vocabulary(model: IncrementalModel) -> str:
    return f"{model.src_vocab_size} source and {model.vocab_size} target words"
