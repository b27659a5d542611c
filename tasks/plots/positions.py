"""The sinusoids and rotary positions (:mod:`core.model.rotary`), as a picture."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from core.config import check
from core.model.embedding import PositionalEncoding
from core.model.rotary import rotate, rotations
from tasks.pictures import picture


def draw_positions(
    path: str | Path, *, d_model: int = 128, head_dim: int = 64, length: int = 200
) -> None:
    """Draws the sinusoids, their dot products, and the scores of rotary positions by distance.

    Args:
        d_model: D of the sinusoids, even.
        head_dim: K of the rotary positions, even.
        length: the number of positions.

    Raises:
        ConfigError, UserError: an odd width; or as for :func:`.picture`.
    """
    check(d_model % 2 == 0, "d_model", d_model, "even")
    check(head_dim % 2 == 0, "head_dim", head_dim, "even")
    distances = torch.arange(-length + 1, length)
    with picture(path) as figure:
        figure.set_size_inches(10, 9)
        (table, products), (sinusoidal, rotary) = figure.subplots(2, 2)
        vectors = sinusoids(d_model, length)
        style = {"cmap": "RdBu", "vmin": -1, "vmax": 1, "aspect": "auto"}
        figure.colorbar(table.imshow(vectors.numpy(), **style), ax=table)
        table.set_title("sinusoidal (learned starts from it): the table")
        table.set(xlabel="dimension (even: sine, odd: cosine)", ylabel="position")

        # The square of the length of every vector is D / 2, so these are cosines of angles.
        cosines = vectors @ vectors.t() / (d_model / 2)
        figure.colorbar(products.imshow(cosines.numpy()), ax=products)
        products.set_title("sinusoidal: cosine of two positions")
        products.set(xlabel="position", ylabel="position")

        for width in (d_model, 4 * d_model):
            vectors = sinusoids(width, length)
            cosines = vectors @ vectors[0] / (width / 2)
            by_distance = cosines[distances.abs()].numpy()
            sinusoidal.plot(distances.numpy(), by_distance, label=f"d_model = {width}")
        sinusoidal.set_title("sinusoidal: cosine by distance")
        sinusoidal.set_ylabel("dot product / (d_model / 2)")

        ones, bound = torch.ones(length, head_dim), rotary_bound(head_dim, length)
        rotated = rotate(ones, rotations(length, head_dim, ones))
        scores = rotated @ rotated[0] / head_dim
        rotary.plot(scores.numpy(), label="score of q = k = (1, ..., 1)")
        rotary.plot(bound.numpy(), linestyle="--", label="relative bound of the paper")
        rotary.set_title(f"rotary: the score by distance (head_dim = {head_dim})")
        rotary.set_ylabel("score / score at distance 0")

        for axes in (sinusoidal, rotary):
            axes.set_xlabel("distance: position of the key - position of the query")
            axes.grid()
            axes.legend()


def sinusoids(d_model: int, length: int) -> Tensor:
    """Returns the vectors of the paper, ``[length, D]``."""
    table = PositionalEncoding(d_model, max_len=length).table
    assert table is not None
    return table[:, 0]


def rotary_bound(head_dim: int, length: int) -> Tensor:
    """Returns the upper bound of scores at the distances 0 to length - 1, divided by that at 0.

    It is the mean of the absolute values of S_1 to S_(K/2), where S_j is the sum of the first j
    complex numbers exp(1j * distance / 10000^(2i/K)) (Su et al. 2021, section 3.4.3).
    """
    half = head_dim // 2
    units = torch.zeros(length, half, head_dim)
    units[:, torch.arange(half), torch.arange(half)] = 1.0  # the complex number 1 in each place
    rotated = rotate(units.transpose(0, 1), rotations(length, head_dim, units))
    numbers = torch.complex(rotated[..., :half].sum(dim=2), rotated[..., half:].sum(dim=2))
    bound = numbers.cumsum(dim=0).abs().mean(dim=0)
    return bound / bound[0]
