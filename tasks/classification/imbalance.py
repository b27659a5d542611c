"""Classes of unequal size: weights in the training loss, and thresholds of the decision."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from core.config import check_choice
from tasks.classification.config import (
    BALANCED,
    MAX_CLASS_WEIGHT,
    named_numbers,
)


def class_weights(items: Sequence[str], classes: Sequence[str], labels: Sequence[int]) -> Tensor:
    """Returns the weight of each class ``[C]`` in the loss.

    ``balanced`` gives class c the weight N / (C * N_c), as in scikit-learn (King and Zeng 2001,
    section 4), where N_c of the N texts are of class c; a class without texts counts as one text.

    Args:
        items: ``data.class_weight``.
        labels: the class numbers of the training texts.

    Raises:
        ConfigError: a name that is not a class.
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
    without a threshold is chosen, and if all have one, the one with the highest ratio.

    Raises:
        ConfigError: a name that is not a class.
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
