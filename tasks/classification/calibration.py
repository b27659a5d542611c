"""Calibrated probabilities: of the texts that get 80%, 80% should be classified correctly."""

from __future__ import annotations

import torch
from torch import Tensor

from transformer_suite.tasks.classification.config import MAX_TEMPERATURE, MIN_TEMPERATURE

BINS = 15
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


def expected_calibration_error(probabilities: Tensor, labels: Tensor, *, bins: int = BINS) -> float:
    """Returns the mean difference of confidence and accuracy (Guo et al. 2017, equation 3).

    The texts are grouped by their highest probability, into ``bins`` intervals of equal width
    that include their upper ends.

    Args:
        probabilities: ``[N, C]``.
        labels: ``[N]``, the true classes.
    """
    confidence, predicted = probabilities.double().max(dim=1)
    is_right = (predicted == labels).double()
    of_bin = (confidence * bins).ceil().long().clamp(1, bins) - 1
    gap = torch.zeros(bins, dtype=torch.double).index_add_(0, of_bin, is_right - confidence)
    return (gap.abs().sum() / max(1, len(labels))).item()
