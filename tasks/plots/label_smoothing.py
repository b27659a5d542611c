"""Label smoothing (:mod:`core.training.loss`): the target distribution and the penalty."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from core.config import check
from core.training.loss import label_smoothed_cross_entropy
from tasks.pictures import picture

_LOWEST, _HIGHEST = 0.01, 0.9999
_POINTS = 1000


def draw_label_smoothing(
    path: str | Path, *, smoothing: Sequence[float] = (0.0, 0.1, 0.3), vocab_size: int = 5
) -> None:
    """Draws the target distribution, and the loss by the probability of the right word.

    A dot marks the lowest loss: there, the model predicts the target distribution.

    Args:
        smoothing: the values of e, each from 0 to below 1.
        vocab_size: V, at least 2; the right word is word 1.

    Raises:
        ConfigError, UserError: a value out of range; or as for :func:`.picture`.
    """
    for value in smoothing:
        check(0.0 <= value < 1.0, "label_smoothing", value, "at least 0 and below 1")
    check(vocab_size >= 2, "vocab_size", vocab_size, "at least 2")
    words = torch.arange(1, vocab_size + 1)
    probabilities = torch.linspace(_LOWEST, _HIGHEST, _POINTS, dtype=torch.float64)
    with picture(path) as figure:
        figure.set_size_inches(12, 4.5)
        left, right = figure.subplots(1, 2)
        width = 0.8 / len(smoothing)
        for number, value in enumerate(smoothing):
            shift = (number - (len(smoothing) - 1) / 2) * width
            target, label = target_distribution(value, vocab_size), f"e = {value:g}"
            left.bar((words + shift).numpy(), target.numpy(), width, label=label)
            curve = losses(probabilities, value, vocab_size)
            (line,) = right.plot(probabilities.numpy(), curve.numpy(), label=label)
            if value > 0.0:
                lowest = losses(target[:1], value, vocab_size)
                right.plot(target[:1].numpy(), lowest.numpy(), "o", color=line.get_color())
        left.set_title("target: 1 - e on the right word, plus e / V on all")
        left.set_xlabel(f"word of the vocabulary (V = {vocab_size}); word 1 is right")
        left.set(xticks=words.tolist(), ylabel="probability", ylim=(0, 1.05))
        right.set_title("penalty: with e > 0 it rises again near 1 (dot: minimum)")
        right.set_xlabel("predicted probability of the right word")
        right.set(ylabel="loss (nats)", xlim=(0, 1), ylim=(0, None))
        for axes in (left, right):
            axes.grid()
            axes.legend()


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
    logits = torch.stack([probabilities, *[rest] * (vocab_size - 1)], dim=1).log()
    loss = partial(label_smoothed_cross_entropy, label_smoothing=label_smoothing)
    return torch.stack([loss(row, torch.tensor([0])) for row in logits.unsqueeze(1)])
