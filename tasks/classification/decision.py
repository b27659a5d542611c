"""From scores to classes: temperature, thresholds, and weights of classes of unequal size.

Also whether probabilities are what they say: of what gets 80%, 80% should be right.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from core.config import check_choice
from tasks.classification.config import (
    BALANCED,
    MAX_CLASS_WEIGHT,
    MAX_TEMPERATURE,
    MIN_TEMPERATURE,
    named_numbers,
)

BINS = 15
_STEPS = 50  # each divides the interval by two


def scaled(probabilities: Tensor, temperature: float) -> Tensor:
    """Returns probabilities ``[N, C]`` at another temperature (Guo et al. 2017, section 4.2)."""
    logits = probabilities.double().clamp(min=torch.finfo(torch.float32).tiny).log()
    return (logits / temperature).softmax(dim=-1)


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
        expected = ((middle * logits).softmax(dim=1) * logits).sum(dim=1).mean()
        if expected < of_truth:
            low = middle
        else:
            high = middle
    return 2.0 / (low + high)


def class_weights(items: Sequence[str], classes: Sequence[str], labels: Sequence[int]) -> Tensor:
    """Returns the weight of each class ``[C]`` in the loss, given ``data.class_weight``.

    ``balanced`` gives class c the weight N / (C * N_c), as in scikit-learn (King and Zeng 2001,
    section 4), where N_c of the N training texts are of class c; a class without texts counts as
    one text. Raises a ConfigError for a name that is not a class.
    """
    if list(items) == [BALANCED]:
        counts = np.bincount(labels, minlength=len(classes)).clip(min=1)
        return torch.from_numpy(len(labels) / (len(classes) * counts)).float()
    named = named_numbers("data.class_weight", items, MAX_CLASS_WEIGHT)
    for name in named:
        check_choice("data.class_weight", name, classes)
    return torch.tensor([named.get(name, 1.0) for name in classes])


def decide(probabilities: Tensor, classes: Sequence[str], thresholds: Sequence[str]) -> Tensor:
    """Returns the chosen class of each text ``[N]``, given probabilities ``[N, C]``.

    A class with a threshold is chosen exactly when its probability is at least the threshold; among
    several, the one with the highest ratio of the two. If there is none, the most probable class
    without a threshold is chosen, and if all have one, the one with the highest ratio. Raises a
    ConfigError for the threshold of a name that is not a class.
    """
    named = named_numbers("prediction.thresholds", thresholds, 1.0)
    for name in named:
        check_choice("prediction.thresholds", name, classes)
    if not named:
        return probabilities.argmax(dim=1)
    limits = torch.tensor([named.get(name, math.inf) for name in classes])
    ratios = probabilities / limits
    others = probabilities.masked_fill(limits.isfinite(), -1.0)
    is_reached = (ratios.max(dim=1).values >= 1.0) | (len(named) == len(classes))
    return torch.where(is_reached, ratios.argmax(dim=1), others.argmax(dim=1))


def most_probable(probabilities: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Returns, for ``[N, C]``, the highest probability ``[N]`` and whether its class is right."""
    confidence, predicted = probabilities.double().max(dim=1)
    return confidence, predicted == labels


def binned(confidence: Tensor, is_right: Tensor, bins: int = BINS) -> Tensor:
    """Groups texts by their confidence ``[N]``, into intervals of equal width, upper ends included.

    Returns ``[bins, 3]``: of each interval, the sum of the confidences, the number of texts that
    are right, and the number of texts.
    """
    numbers = (confidence * bins).ceil().long().clamp(1, bins) - 1
    columns = torch.stack([confidence, is_right.double(), torch.ones_like(confidence)], dim=1)
    return torch.zeros(bins, 3, dtype=torch.double).index_add_(0, numbers, columns)


def calibration_error(confidence: Tensor, is_right: Tensor, bins: int = BINS) -> float:
    """Returns the mean difference of confidence and accuracy (Guo et al. 2017, equation 3)."""
    expected, right, _ = binned(confidence, is_right, bins).unbind(dim=1)
    return ((right - expected).abs().sum() / max(1, len(confidence))).item()
