"""Whether probabilities are what they say: of what gets 80%, 80% should be right."""

import torch
from torch import Tensor

BINS = 15


def most_probable(probabilities: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the confidence of each text, and whether its most probable class is right.

    Args:
        probabilities: ``[N, C]``.
        labels: ``[N]``, the true classes.
    """
    confidence, predicted = probabilities.double().max(dim=1)
    return confidence, predicted == labels


def binned(confidence: Tensor, is_right: Tensor, bins: int = BINS) -> Tensor:
    """Groups texts by their confidence ``[N]``, into intervals of equal width.

    Each interval includes its upper end.

    Returns:
        ``[bins, 3]``: of each interval, the sum of the confidences, the number of texts that are
        right, and the number of texts.
    """
    numbers = (confidence * bins).ceil().long().clamp(1, bins) - 1
    columns = torch.stack([confidence, is_right.double(), torch.ones_like(confidence)], dim=1)
    return torch.zeros(bins, 3, dtype=torch.double).index_add_(0, numbers, columns)


def calibration_error(confidence: Tensor, is_right: Tensor, bins: int = BINS) -> float:
    """Returns the mean difference of confidence and accuracy (Guo et al. 2017, equation 3)."""
    expected, right, _ = binned(confidence, is_right, bins).unbind(dim=1)
    return ((right - expected).abs().sum() / max(1, len(confidence))).item()
