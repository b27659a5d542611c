"""Each scheme of positions (:mod:`core.model.positions`), as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from core.config import check
from core.model.embedding import PositionalEncoding
from core.model.positions import (
    SHAW_DISTANCE,
    RotaryPositions,
    ShawPositions,
    t5_buckets,
)
from tasks.pictures import picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_DISTANCE = "distance: position of the key - position of the query"


def draw_positions(
    path: str | Path, *, d_model: int = 128, head_dim: int = 64, length: int = 200
) -> None:
    """Draws the sinusoids and their dot products, and what the other schemes do with a distance.

    Args:
        path: the picture; its suffix is .png, .svg or .pdf.
        d_model: D of the sinusoids, even.
        head_dim: K of the rotary positions, even.
        length: the number of positions.

    Raises:
        ConfigError: another suffix, or an odd width.
        UserError: the picture cannot be written.
    """
    check(d_model % 2 == 0, "d_model", d_model, "even")
    check(head_dim % 2 == 0, "head_dim", head_dim, "even")
    with picture(Path(path)) as figure:
        figure.set_size_inches(15, 9)
        (table, products, by_distance), (rotary, shaw, t5) = figure.subplots(2, 3)
        _draw_table(figure, table, sinusoids(d_model, length))
        _draw_products(figure, products, sinusoidal_products(d_model, length))
        _draw_products_by_distance(by_distance, d_model, length)
        _draw_rotary(rotary, head_dim, length)
        _draw_shaw(shaw)
        _draw_t5(t5, length)


def sinusoids(d_model: int, length: int) -> Tensor:
    """Returns the vectors of the paper, ``[length, D]``."""
    table = PositionalEncoding(d_model, max_len=length).table
    assert table is not None
    return table[:, 0]


def sinusoidal_products(d_model: int, length: int) -> Tensor:
    """Returns the dot products of all positions, ``[length, length]``, divided by D / 2.

    The square of the length of every vector is D / 2, so these are cosines of angles.
    """
    table = sinusoids(d_model, length)
    return table @ table.t() / (d_model / 2)


def rotary_scores(head_dim: int, length: int) -> Tensor:
    """Returns q * k / K at the distances 0 to length - 1; all numbers in q and k are 1."""
    ones = torch.ones(length, head_dim)
    rotated = RotaryPositions(head_dim).rotate(ones, torch.arange(length))
    return rotated @ rotated[0] / head_dim


def rotary_bound(head_dim: int, length: int) -> Tensor:
    """Returns the upper bound of scores at the distances 0 to length - 1, divided by that at 0.

    It is the mean of the absolute values of S_1 to S_(K/2), where S_j is the sum of the first j
    complex numbers exp(1j * distance / 10000^(2i/K)) (Su et al. 2021, section 3.4.3).
    """
    half = head_dim // 2
    units = torch.zeros(length, half, head_dim)
    units[:, torch.arange(half), torch.arange(half)] = 1.0  # the complex number 1 in each place
    rotated = RotaryPositions(head_dim).rotate(units.transpose(0, 1), torch.arange(length))
    numbers = torch.complex(rotated[..., :half].sum(dim=2), rotated[..., half:].sum(dim=2))
    bound = numbers.cumsum(dim=0).abs().mean(dim=0)
    return bound / bound[0]


def shaw_rows(distances: Tensor) -> Tensor:
    """Returns the number of the learned vector at each distance."""
    positions = ShawPositions(1)
    with torch.no_grad():
        # Every vector is its own number, and so is its product with the query 1.
        positions.table.copy_(torch.arange(len(positions.table)).unsqueeze(1))
        return positions.bias(torch.ones(1, 1, 1, 1), distances)[0, 0, 0].long()


def _draw_table(figure: Figure, axes: Axes, table: Tensor) -> None:
    image = axes.imshow(table.numpy(), cmap="RdBu", vmin=-1, vmax=1, aspect="auto")
    figure.colorbar(image, ax=axes)
    axes.set_title("sinusoidal (learned starts from it): the table")
    axes.set_xlabel("dimension (even: sine, odd: cosine)")
    axes.set_ylabel("position")


def _draw_products(figure: Figure, axes: Axes, products: Tensor) -> None:
    figure.colorbar(axes.imshow(products.numpy(), cmap="viridis"), ax=axes)
    axes.set_title("sinusoidal: cosine of two positions")
    axes.set_xlabel("position")
    axes.set_ylabel("position")


def _draw_products_by_distance(axes: Axes, d_model: int, length: int) -> None:
    distances = torch.arange(-length + 1, length)
    for width in (d_model, 4 * d_model):
        one_side = sinusoidal_products(width, length)[0]
        axes.plot(distances.numpy(), one_side[distances.abs()].numpy(), label=f"d_model = {width}")
    axes.set_title("sinusoidal: cosine by distance")
    axes.set_ylabel("dot product / (d_model / 2)")
    _finish(axes)


def _draw_rotary(axes: Axes, head_dim: int, length: int) -> None:
    distances = range(length)
    scores, bound = rotary_scores(head_dim, length), rotary_bound(head_dim, length)
    axes.plot(distances, scores.numpy(), label="score of q = k = (1, ..., 1)")
    axes.plot(distances, bound.numpy(), linestyle="--", label="relative bound of the paper")
    axes.set_title(f"rotary: the score by distance (head_dim = {head_dim})")
    axes.set_ylabel("score / score at distance 0")
    _finish(axes)


def _draw_shaw(axes: Axes) -> None:
    distances = torch.arange(-2 * SHAW_DISTANCE, 2 * SHAW_DISTANCE + 1)
    axes.plot(distances.numpy(), shaw_rows(distances).numpy(), ".", label="every head and query")
    axes.set_title(f"shaw: one learned vector per distance, up to {SHAW_DISTANCE}")
    axes.set_ylabel("number of the vector")
    _finish(axes)


def _draw_t5(axes: Axes, length: int) -> None:
    for name, is_causal in (("encoder", False), ("decoder", True)):
        distances = torch.arange(-length + 1, 1 if is_causal else length)
        buckets = t5_buckets(distances, is_causal=is_causal)
        axes.plot(distances.numpy(), buckets.numpy(), drawstyle="steps-mid", label=name)
    axes.set_title("t5: one learned number per bucket")
    axes.set_ylabel("number of the bucket")
    _finish(axes)


def _finish(axes: Axes) -> None:
    axes.set_xlabel(_DISTANCE)
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
