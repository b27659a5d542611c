"""Positions inside self-attention: alternatives to the sinusoids of section 3.5.

Each kind depends only on the distance between a key and a query, so it has no table that ends at
some longest sequence, and shifting a whole sequence changes nothing. Attention from the decoder to
the memory has no such positions: a distance between positions of two sequences has no meaning.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from core.model.config import POSITIONS

SHAW_DISTANCE = 16  # k in the experiments of Shaw et al.
T5_BUCKETS, T5_DISTANCE = 32, 128


class RelativePositions(nn.Module):
    """The interface of one self-attention to its positions. A subclass overrides one method."""

    def forward(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Applies the positions 0, 1, 2... to ``q`` ``[B, H, T, K]`` and ``k`` ``[B, H, S, K]``.

        Returns:
            The queries and keys to compare, and what to add to their scaled scores: None, or a
            tensor that broadcasts to ``[B, H, T, S]``.
        """
        target_length, source_length = q.shape[2], k.shape[2]
        distances = torch.arange(-target_length, source_length + 1, device=q.device)
        bias = self.bias(q, distances)
        if bias is not None:
            bias = _by_key(bias.expand(-1, -1, target_length, -1), source_length)
        q, k = (self.rotate(x, torch.arange(x.shape[2], device=x.device)) for x in (q, k))
        return q, k, bias

    def rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        """Returns queries or keys ``[..., L, K]`` with ``positions`` ``[L]`` in them."""
        return x

    def bias(self, q: Tensor, distances: Tensor) -> Tensor | None:
        """Returns what to add to the scaled scores of keys at ``distances`` ``[n]`` from ``q``.

        A distance is the position of the key minus that of the query. The result broadcasts to
        ``[B, H, T, n]``.
        """
        return None


class RotaryPositions(RelativePositions):
    """RoPE (Su et al. 2021, section 3.2.2): the product of q and k contains their distance.

    Dimensions i and i + K/2 are a complex number, multiplied by exp(1j * position / 10000^(2i/K)).
    """

    def __init__(self, head_dim: int) -> None:
        super().__init__()
        if head_dim % 2 != 0:
            raise ValueError(f"rotary positions need heads of an even width, not {head_dim}")

    def rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        half = x.shape[-1] // 2
        # Not in half precision, which cannot count to a thousand.
        dtype = torch.promote_types(x.dtype, torch.float32)
        exponents = torch.arange(half, dtype=dtype, device=x.device) * (-math.log(10000.0) / half)
        angles = positions.unsqueeze(1) * exponents.exp()
        cos, sin = angles.cos().repeat(1, 2), angles.sin()
        # (a + ib)(cos + i sin) = (a cos - b sin) + i(b cos + a sin)
        rotated = torch.addcmul(x * cos, x.roll(half, dims=-1), torch.cat([-sin, sin], dim=1))
        return rotated.to(x.dtype)


class ShawPositions(RelativePositions):
    """Relation-aware scores (Shaw et al. 2018, equation 4): q (k + a)^T / sqrt(K).

    ``a`` is a learned vector of the distance, which is clipped to [-16, 16]. The heads of a layer
    share the vectors. Values have none: in the paper's table 3 they change nothing.
    """

    def __init__(self, head_dim: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(2 * SHAW_DISTANCE + 1, head_dim))
        nn.init.xavier_uniform_(self.table)

    def bias(self, q: Tensor, distances: Tensor) -> Tensor:
        rows = distances.clamp(-SHAW_DISTANCE, SHAW_DISTANCE) + SHAW_DISTANCE
        return q @ (self.table / math.sqrt(q.shape[-1]))[rows].t()


class T5Positions(RelativePositions):
    """A learned number for each head and bucket of distances (Raffel et al. 2020, section 2.1).

    Unlike in T5, every layer has a table of its own and scores are scaled.
    """

    def __init__(self, num_heads: int, *, is_causal: bool) -> None:
        super().__init__()
        self.is_causal = is_causal
        self.table = nn.Parameter(torch.empty(T5_BUCKETS, num_heads))
        nn.init.xavier_uniform_(self.table)

    def bias(self, q: Tensor, distances: Tensor) -> Tensor:
        rows = self.table[t5_buckets(distances, is_causal=self.is_causal)]
        return rows.t().to(q.dtype)[None, :, None]


def t5_buckets(distances: Tensor, *, is_causal: bool) -> Tensor:
    """Returns the bucket, 0 to 31, of each distance.

    Small distances have a bucket each. The size of the others grows with the logarithm of the
    distance up to 128. Later keys have half of the buckets, or none if ``is_causal``.
    """
    count = T5_BUCKETS if is_causal else T5_BUCKETS // 2
    first = torch.zeros_like(distances) if is_causal else (distances > 0) * count
    distances = distances.neg().clamp(min=0) if is_causal else distances.abs()
    exact = count // 2
    ratio = (distances.clamp(min=exact) / exact).log() / math.log(T5_DISTANCE / exact)
    large = (exact + (ratio * (count - exact)).long()).clamp(max=count - 1)
    return first + torch.where(distances < exact, distances, large)


def relative_positions(
    kind: str, head_dim: int, num_heads: int, *, is_causal: bool
) -> RelativePositions | None:
    """Returns new positions for one self-attention, or None if the embeddings contain them.

    Raises:
        ValueError: an unknown ``kind``, or rotary positions for heads of an odd width.
    """
    if kind == "rotary":
        return RotaryPositions(head_dim)
    if kind == "shaw":
        return ShawPositions(head_dim)
    if kind == "t5":
        return T5Positions(num_heads, is_causal=is_causal)
    if kind not in POSITIONS:
        raise ValueError(f"positions must be one of {', '.join(POSITIONS)}, not {kind!r}")
    return None


def _by_key(x: Tensor, source_length: int) -> Tensor:
    """Returns ``[..., T, T+S+1]``, by distance from -T to S, as ``[..., T, S]``, by key.

    Key s of query t has the distance s - t, which is column T + s - t. In rows that are one column
    shorter, this is column s of row t: the result is a view (Huang et al. 2019, "skewing").
    """
    target_length, width = x.shape[-2:]
    shorter = x.flatten(-2)[..., target_length:].unflatten(-1, (target_length, width - 1))
    return shorter[..., :source_length]
