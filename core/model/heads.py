"""The heads of attention: from the width of the model to that of a head, and back."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """``[S, B, D]`` -> ``[B, H, S, K]``, a view."""
    length, batch_size, width = x.shape
    return x.view(length, batch_size, num_heads, width // num_heads).permute(1, 2, 0, 3)


def merge_heads(x: Tensor) -> Tensor:
    """``[B, H, T, K]`` -> ``[T, B, D]``, the inverse of :func:`split_heads`."""
    batch_size, num_heads, length, head_dim = x.shape
    return x.permute(2, 0, 1, 3).reshape(length, batch_size, num_heads * head_dim)


def heads_of(projections: Sequence[Tensor], num_heads: int) -> list[Tensor]:
    """Queries, keys and values ``[B, H, length, K]``, as views of what they were projected to.

    Args:
        projections: one tensor ``[length, B, 3D]`` with all three of them side by side, or queries
            ``[T, B, D]`` and keys and values ``[S, B, 2D]``, or three tensors ``[length, B, D]``.
    """
    width = sum(x.shape[2] for x in projections) // 3
    return [split_heads(part, num_heads) for x in projections for part in x.split(width, dim=2)]


def scaled_scores(q: Tensor, k: Tensor) -> Tensor:
    """Q K^T / sqrt(d_k) of equation 1: ``[N, T, K]`` and ``[N, S, K]`` -> ``[N, T, S]``."""
    scale = 1.0 / math.sqrt(q.shape[2])
    return torch.baddbmm(q.new_empty(1, 1, 1), q, k.transpose(1, 2), beta=0, alpha=scale)
