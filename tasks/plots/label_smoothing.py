"""Label smoothing (:mod:`core.training.loss`): the target distribution and the penalty."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from core.config import check
from core.training.loss import label_smoothed_cross_entropy
from tasks.pictures import picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LOWEST, _HIGHEST = 0.01, 0.9999
_POINTS = 1000


def draw_label_smoothing(
    path: str | Path, *, smoothing: Sequence[float] = (0.0, 0.1, 0.3), vocab_size: int = 5
) -> None:
    """Draws the target distribution, and the loss by the probability of the right word.

    A dot marks the lowest loss: there, the model predicts the target distribution.

    Args:
        path: the picture; its suffix is .png, .svg or .pdf.
        smoothing: the values of e, each from 0 to below 1.
        vocab_size: V, at least 2; the right word is word 1.

    Raises:
        ConfigError: another suffix, or a value out of range.
        UserError: the picture cannot be written.
    """
    for value in smoothing:
        check(0.0 <= value < 1.0, "label_smoothing", value, "at least 0 and below 1")
    check(vocab_size >= 2, "vocab_size", vocab_size, "at least 2")
    with picture(Path(path)) as figure:
        figure.set_size_inches(12, 4.5)
        left, right = figure.subplots(1, 2)
        _draw_targets(left, smoothing, vocab_size)
        _draw_losses(right, smoothing, vocab_size)


def target_distribution(label_smoothing: float, vocab_size: int) -> Tensor:
    """Returns the probabilities ``[V]`` of the words in the target; word 0 is right."""
    # The gradient by a logit is the predicted probability, here 1 / V, minus that of the target.
    logits = torch.zeros(1, vocab_size, requires_grad=True)
    loss = label_smoothed_cross_entropy(logits, torch.tensor([0]), label_smoothing=label_smoothing)
    (gradient,) = torch.autograd.grad(loss, logits)
    return 1.0 / vocab_size - gradient[0]


def losses(probabilities: Tensor, label_smoothing: float, vocab_size: int) -> Tensor:
    """Returns the loss ``[n]`` in nats where the right word has each probability ``[n]``.

    The other words have equal parts of the rest.
    """
    rest = (1.0 - probabilities) / (vocab_size - 1)
    predicted = torch.stack([probabilities, *[rest] * (vocab_size - 1)], dim=1)
    right = torch.tensor([0])
    one_by_one = (
        label_smoothed_cross_entropy(row, right, label_smoothing=label_smoothing)
        for row in predicted.log().unsqueeze(1)
    )
    return torch.stack([*one_by_one])


def _draw_targets(axes: Axes, smoothing: Sequence[float], vocab_size: int) -> None:
    words = range(1, vocab_size + 1)
    width = 0.8 / len(smoothing)
    for number, value in enumerate(smoothing):
        shift = (number - (len(smoothing) - 1) / 2) * width
        target = target_distribution(value, vocab_size).tolist()
        axes.bar([word + shift for word in words], target, width, label=f"e = {value:g}")
    axes.set_title("target: 1 - e on the right word, plus e / V on all")
    axes.set_xlabel(f"word of the vocabulary (V = {vocab_size}); word 1 is right")
    axes.set_ylabel("probability")
    axes.set_xticks(words)
    axes.set_ylim(0, 1.05)
    axes.grid(axis="y", alpha=0.3)
    axes.legend()


def _draw_losses(axes: Axes, smoothing: Sequence[float], vocab_size: int) -> None:
    probabilities = torch.linspace(_LOWEST, _HIGHEST, _POINTS, dtype=torch.float64)
    for value in smoothing:
        curve = losses(probabilities, value, vocab_size)
        (line,) = axes.plot(probabilities.numpy(), curve.numpy(), label=f"e = {value:g}")
        if value > 0.0:
            best = target_distribution(value, vocab_size)[:1]
            lowest = losses(best, value, vocab_size)
            axes.plot(best.numpy(), lowest.numpy(), "o", color=line.get_color())
    axes.set_title("penalty: with e > 0 it rises again near 1 (dot: minimum)")
    axes.set_xlabel("predicted probability of the right word")
    axes.set_ylabel("loss (nats)")
    axes.set_xlim(0, 1)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend()
