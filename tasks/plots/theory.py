"""Pictures that explain the Transformer and its training, drawn from what the code computes.

All functions raise a ConfigError for a value out of range, and what :func:`.picture` raises.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from core.config import check
from core.model.embedding import PositionalEncoding
from core.model.masks import generate_square_subsequent_mask, padding_mask
from core.model.rotary import rotate, rotations
from core.training.config import SCHEDULES, TrainConfig
from core.training.schedule import CustomSchedule, Schedule, make_schedule
from data.vocabulary import BOS, BOS_ID, PAD, PAD_ID, UNK_ID
from tasks.pictures import BLUE, COLORS, draw_matrix, picture

_MAX_TOKENS = 50
_ALLOWED = "#F2F2F2"  # the color of what a mask does not block
_CELL_INCHES = 0.32
_POINTS = 1000  # of a curve
_LINES = ("-", "--", "-.", ":")


def draw_masks(path: str | Path, text: str, *, padding: int = 2) -> None:
    """Draws the causal mask, the padding mask and their union; a row is a query, a column a key.

    A decoder reads ``<bos>``, the words of ``text``, and ``padding`` times ``<pad>``.
    """
    words = text.split()
    tokens = [BOS, *words, *[PAD] * padding]
    length = len(tokens)
    check(bool(words), "the example", text, "a text of at least one word")
    check(length <= _MAX_TOKENS, "the example", length, f"at most {_MAX_TOKENS} tokens long")
    ids = torch.tensor([[BOS_ID], *[[UNK_ID]] * len(words), *[[PAD_ID]] * padding])
    is_future = generate_square_subsequent_mask(length, dtype=torch.bool)
    is_pad = padding_mask(ids, PAD_ID).expand(length, length)
    masks = {
        "causal mask: later positions": is_future,
        "padding mask": is_pad,
        "union: blocked by either mask": is_future | is_pad,
    }
    with picture(path) as figure:
        from matplotlib.colors import ListedColormap
        from matplotlib.patches import Patch

        side = 1.1 + _CELL_INCHES * length
        figure.set_size_inches(3 * side, side + 0.7)
        colors, edges = ListedColormap([_ALLOWED, BLUE]), [i - 0.5 for i in range(1, length)]
        for axes, (title, mask) in zip(figure.subplots(1, 3), masks.items(), strict=True):
            draw_matrix(axes, mask.numpy(), tokens, tokens, cmap=colors, vmin=0, vmax=1)
            axes.set(title=title, xlabel="key", ylabel="query")
            axes.set_xticks(edges, minor=True)
            axes.set_yticks(edges, minor=True)
            axes.grid(which="minor", color="white", alpha=1)
            axes.tick_params(which="minor", length=0)
        keys = [Patch(color=BLUE), Patch(facecolor=_ALLOWED, edgecolor="grey")]
        names = ["True: blocked", "False: the query may attend to the key"]
        figure.legend(keys, names, loc="outside lower center", ncols=2)


def draw_positions(path: str | Path, *, d_model: int, head_dim: int, length: int) -> None:
    """Draws the sinusoids ``[length, D]``, their products, and the scores of rotary positions."""
    check(d_model % 2 == 0, "d_model", d_model, "even")
    check(head_dim % 2 == 0, "head_dim", head_dim, "even")
    later, both = torch.arange(length), torch.arange(-length + 1, length)
    # The square of the length of every vector is D / 2, so these are cosines of angles.
    vectors, wide = _sinusoids(d_model, length), _sinusoids(4 * d_model, length)
    cosines, wide_cosines = vectors @ vectors.t() / (d_model / 2), wide @ wide[0] / (2 * d_model)
    ones = torch.ones(length, head_dim)
    rotated = rotate(ones, rotations(length, head_dim, ones))
    # The mean absolute value of the sums of the first 1 to K/2 complex numbers of the rotation, for
    # each distance: the bound of Su et al. 2021, section 3.4.3.
    rates = 10_000.0 ** (-torch.arange(0, head_dim, 2) / head_dim)
    bound = torch.exp(1j * torch.outer(later, rates)).cumsum(dim=1).abs().mean(dim=1)
    with picture(path) as figure:
        figure.set_size_inches(10, 9)
        table, products, sinusoidal, rotary = figure.subplots(2, 2).flat
        image = table.imshow(vectors.numpy(), cmap="RdBu", vmin=-1, vmax=1, aspect="auto")
        figure.colorbar(image, ax=table)
        table.set(xlabel="dimension (even: sine, odd: cosine)", ylabel="position")
        table.set_title("sinusoidal (learned starts from it): the table")
        figure.colorbar(products.imshow(cosines.numpy()), ax=products)
        products.set(xlabel="position", ylabel="position")
        products.set_title("sinusoidal: cosine of two positions")
        sinusoidal.plot(both, cosines[0, both.abs()], label=f"d_model = {d_model}")
        sinusoidal.plot(both, wide_cosines[both.abs()], label=f"d_model = {4 * d_model}")
        sinusoidal.set_title("sinusoidal: cosine by distance")
        sinusoidal.set_ylabel("dot product / (d_model / 2)")
        rotary.plot(later, rotated @ rotated[0] / head_dim, label="score of q = k = (1, ..., 1)")
        rotary.plot(later, bound / bound[0], "--", label="relative bound of the paper")
        rotary.set_title(f"rotary: the score by distance (head_dim = {head_dim})")
        rotary.set_ylabel("score / score at distance 0")
        for axes in (sinusoidal, rotary):
            axes.set_xlabel("distance: position of the key - position of the query")
            axes.grid()
            axes.legend()


def _sinusoids(d_model: int, length: int) -> Tensor:
    """Returns the vectors of the paper, ``[length, D]``."""
    return PositionalEncoding(d_model).eval()(torch.zeros(length, 1, d_model))[:, 0]


def draw_schedules(
    path: str | Path,
    *,
    d_models: Sequence[int],
    warmup_steps: Sequence[int],
    learning_rate: float,
    total_steps: int,
) -> None:
    """Draws the paper's schedule for all sizes, and all schedules for the first of them.

    Args:
        learning_rate: the peak in the second panel; "noam" has its own.
    """
    _check_lines(len(d_models) * len(warmup_steps))
    d_model, warmup = d_models[0], warmup_steps[0]
    config = TrainConfig(warmup_steps=warmup, learning_rate=learning_rate)
    paper: dict[str, Schedule] = {
        f"d_model = {size}, {steps:,} warmup steps": CustomSchedule(size, steps)
        for size in d_models
        for steps in warmup_steps
    }
    size = {"d_model": d_model, "total_steps": total_steps}
    kinds = {kind: make_schedule(replace(config, schedule=kind), **size) for kind in SCHEDULES}
    panels = {
        "noam (equation 3 of the paper)": paper,
        f"all schedules: d_model = {d_model}, {warmup:,} warmup steps": kinds,
    }
    steps = sorted({*range(1, total_steps + 1, max(1, total_steps // _POINTS)), total_steps})
    with picture(path) as figure:
        figure.set_size_inches(12, 4.5)
        for axes, (title, rates) in zip(figure.subplots(1, 2), panels.items(), strict=True):
            for line, (name, rate) in zip(cycle(_LINES), rates.items(), strict=False):
                axes.plot(steps, [rate(step) for step in steps], linestyle=line, label=name)
            axes.set(title=title, xlabel="step", ylabel="learning rate", ylim=(0, None))
            axes.xaxis.set_major_formatter("{x:,.0f}")
            axes.ticklabel_format(axis="y", style="sci", scilimits=(0, 0))
            axes.grid()
            axes.legend()


def draw_label_smoothing(path: str | Path, *, smoothing: Sequence[float], vocab_size: int) -> None:
    """Draws the target distribution, and the loss by the probability of the right word.

    Word 1 is right. A dot marks the lowest loss: there, the model predicts the target distribution.
    """
    _check_lines(len(smoothing))
    words = torch.arange(1, vocab_size + 1)
    p = torch.linspace(0.01, 0.9999, _POINTS, dtype=torch.float64)
    with picture(path) as figure:
        figure.set_size_inches(12, 4.5)
        left, right = figure.subplots(1, 2)
        width = 0.8 / len(smoothing)
        for number, value in enumerate(smoothing):
            shift = (number - (len(smoothing) - 1) / 2) * width
            target = torch.full([vocab_size], value / vocab_size)
            target[0] += 1 - value
            left.bar((words + shift).numpy(), target.numpy(), width, label=f"e = {value:g}")
            (line,) = right.plot(p, _losses(p, value, vocab_size), label=f"e = {value:g}")
            if value > 0.0:
                lowest = _losses(target[:1], value, vocab_size)
                right.plot(target[:1], lowest, "o", color=line.get_color())
        left.set_title("target: 1 - e on the right word, plus e / V on all")
        left.set_xlabel(f"word of the vocabulary (V = {vocab_size}); word 1 is right")
        left.set(xticks=words.tolist(), ylabel="probability", ylim=(0, 1.05))
        right.set_title("penalty: with e > 0 it rises again near 1 (dot: minimum)")
        right.set_xlabel("predicted probability of the right word")
        right.set(ylabel="loss (nats)", xlim=(0, 1), ylim=(0, None))
        for axes in (left, right):
            axes.grid()
            axes.legend()


def _check_lines(count: int) -> None:
    check(count <= len(COLORS), "a panel", f"{count} lines", f"at most {len(COLORS)} lines")


def _losses(p: Tensor, label_smoothing: float, vocab_size: int) -> Tensor:
    """Returns the loss in nats for each probability ``[n]`` of the right word; the rest is even."""
    rest = (1.0 - p) / (vocab_size - 1)
    logits = torch.stack([p, *[rest] * (vocab_size - 1)], dim=1).log()
    right = torch.zeros(len(p), dtype=torch.long)
    return F.cross_entropy(logits, right, label_smoothing=label_smoothing, reduction="none")
