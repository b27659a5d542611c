"""Modules, inputs and masks that the tests of attention share. Sizes are (T, S, B, H, K)."""

from typing import Any

import torch
from torch import Tensor, nn

from core.model.attention import MyMultiheadAttention
from tests.core.model.parity import random_mask, shake

Sizes = tuple[int, int, int, int, int]


def copied(
    embed_dim: int, num_heads: int, **options: Any
) -> tuple[MyMultiheadAttention, nn.MultiheadAttention]:
    """Ours and torch's, with the same random weights and biases.

    Ours is in evaluation: it computes step by step where weights are requested, else fused.
    """
    theirs = nn.MultiheadAttention(embed_dim, num_heads, **options)
    shake(theirs)
    ours = MyMultiheadAttention(embed_dim, num_heads, **options)
    ours.load_state_dict(theirs.state_dict())
    return ours.eval(), theirs


def random_inputs(sizes: Sizes) -> list[Tensor]:
    """A query ``[T, B, D]``, a key and a value ``[S, B, D]``."""
    target_length, source_length, batch, heads, head_dim = sizes
    lengths = (target_length, source_length, source_length)
    return [torch.randn(n, batch, heads * head_dim, requires_grad=True) for n in lengths]


def random_masks(
    attn_kind: str | None, padding_kind: str | None, sizes: Sizes
) -> dict[str, Tensor | None]:
    """``attn_mask`` of kind "bool" or "float", "bool per head"..., and ``key_padding_mask``."""
    target_length, source_length, batch, heads, _ = sizes
    open_key = int(torch.randint(source_length, ()))
    attn_mask = key_padding_mask = None
    if attn_kind is not None:
        kind, _, is_per_head = attn_kind.partition(" ")
        rows = (batch * heads,) if is_per_head else ()
        attn_mask = random_mask(kind, *rows, target_length, source_length, open_key=open_key)
    if padding_kind is not None:
        key_padding_mask = random_mask(padding_kind, batch, source_length, open_key=open_key)
    return {"attn_mask": attn_mask, "key_padding_mask": key_padding_mask}
