"""The temperature that makes the probabilities of a classifier those of its being right."""

from __future__ import annotations

import torch
from torch import Tensor

from tasks.classification.config import MAX_TEMPERATURE, MIN_TEMPERATURE

_STEPS = 50  # each divides the interval by two


def scaled(log_probabilities: Tensor, temperature: float) -> Tensor:
    """Returns probabilities ``[N, C]`` at another temperature (Guo et al. 2017, section 4.2)."""
    return (log_probabilities / temperature).softmax(dim=-1)


def fit_temperature(probabilities: Tensor, labels: Tensor) -> float:
    """Returns the temperature that makes the true classes most likely.

    It changes no decision. The loss is convex in the inverse temperature: its derivative, the mean
    logit minus that of the true class, rises with it, and is zero at the minimum. As in Platt
    (1999, section 2.2), the true class of N texts has the probability (N + 1) / (N + 2): a few
    texts that are all right do not make a model certain.

    Args:
        probabilities: ``[N, C]``, at temperature 1, of texts that the model was not trained on.
        labels: ``[N]``, their true classes.
    """
    tiny = torch.finfo(torch.float32).tiny
    logits = probabilities.double().clamp(min=tiny).log()
    of_truth = logits.gather(1, labels.unsqueeze(1)).mean()
    of_truth = torch.lerp(of_truth, logits.mean(), 1.0 / (len(labels) + 2))
    low, high = 1.0 / MAX_TEMPERATURE, 1.0 / MIN_TEMPERATURE
    for _ in range(_STEPS):
        middle = (low + high) / 2
        expected = (scaled(logits, 1.0 / middle) * logits).sum(dim=1).mean()
        if expected < of_truth:
            low = middle
        else:
            high = middle
    return 2.0 / (low + high)
