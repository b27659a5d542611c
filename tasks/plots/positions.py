"""Each scheme of positions (:mod:`core.model.positions`), as a picture."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from core.config import check
from core.model.embedding import PositionalEncoding
from core.model.positions import SHAW_DISTANCE, RotaryPositions, ShawPositions, t5_buckets
from tasks.pictures import picture


def draw_positions(
    path: str | Path, *, d_model: int = 128, head_dim: int = 64, length: int = 200
) -> None:
    """Draws the sinusoids and their dot products, and what the other schemes do with a distance.

    Args:
        d_model: D of the sinusoids, even.
        head_dim: K of the rotary positions, even.
        length: the number of positions.

    Raises:
        ConfigError, UserError: an odd width; or as for :func:`.picture`.
    """
    check(d_model % 2 == 0, "d_model", d_model, "even")
    check(head_dim % 2 == 0, "head_dim", head_dim, "even")
    past, both = torch.arange(-length + 1, 1), torch.arange(-length + 1, length)
    with picture(path) as figure:
        figure.set_size_inches(15, 9)
        (table, products, sinusoidal), (rotary, shaw, t5) = figure.subplots(2, 3)
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
            sinusoidal.plot(both.numpy(), cosines[both.abs()].numpy(), label=f"d_model = {width}")
        sinusoidal.set_title("sinusoidal: cosine by distance")
        sinusoidal.set_ylabel("dot product / (d_model / 2)")

        ones, bound = torch.ones(length, head_dim), rotary_bound(head_dim, length)
        rotated = RotaryPositions(head_dim).rotate(ones, torch.arange(length))
        scores = rotated @ rotated[0] / head_dim
        rotary.plot(scores.numpy(), label="score of q = k = (1, ..., 1)")
        rotary.plot(bound.numpy(), linestyle="--", label="relative bound of the paper")
        rotary.set_title(f"rotary: the score by distance (head_dim = {head_dim})")
        rotary.set_ylabel("score / score at distance 0")

        near = torch.arange(-2 * SHAW_DISTANCE, 2 * SHAW_DISTANCE + 1)
        shaw.plot(near.numpy(), shaw_rows(near).numpy(), ".", label="every head and query")
        shaw.set_title(f"shaw: one learned vector per distance, up to {SHAW_DISTANCE}")
        shaw.set_ylabel("number of the vector")

        for name, is_causal, distances in (("encoder", False, both), ("decoder", True, past)):
            buckets = t5_buckets(distances, is_causal=is_causal)
            t5.plot(distances.numpy(), buckets.numpy(), drawstyle="steps-mid", label=name)
        t5.set_title("t5: one learned number per bucket")
        t5.set_ylabel("number of the bucket")

        for axes in (sinusoidal, rotary, shaw, t5):
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
