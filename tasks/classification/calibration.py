"""Calibrated probabilities: of the texts that get 80%, 80% should be classified correctly."""

from __future__ import annotations

import torch
from torch import Tensor

from tasks.classification.config import MAX_TEMPERATURE, MIN_TEMPERATURE

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


def binned(probabilities: Tensor, labels: Tensor) -> Tensor:
    """Groups texts by their highest probability, the confidence, into ``BINS`` equal intervals.

    Each interval includes its upper end.

    Args:
        probabilities: ``[N, C]``.
        labels: ``[N]``, the true classes.

    Returns:
        ``[BINS, 3]``: of each interval, the sum of the confidences, the number of texts that are
        right, and the number of texts.
    """
    confidence, predicted = probabilities.double().max(dim=1)
    is_right = (predicted == labels).double()
    of_bin = (confidence * BINS).ceil().long().clamp(1, BINS) - 1
    columns = torch.stack([confidence, is_right, torch.ones_like(confidence)], dim=1)
    return torch.zeros(BINS, 3, dtype=torch.double).index_add_(0, of_bin, columns)


def expected_calibration_error(probabilities: Tensor, labels: Tensor) -> float:
    """Returns the mean difference of confidence and accuracy (Guo et al. 2017, equation 3).

    Args:
        probabilities: ``[N, C]``.
        labels: ``[N]``, the true classes.
    """
    confidence, right, _ = binned(probabilities, labels).unbind(dim=1)
    return ((right - confidence).abs().sum() / max(1, len(labels))).item()
