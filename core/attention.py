"""Multi-head attention (Vaswani et al. 2017, section 3.2) and the key/value cache of decoding.

    Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V                                  (equation 1)
    MultiHead(Q, K, V) = Concat(head_1, ..., head_h) W^O                             (section 3.2.2)
    head_i             = Attention(Q W_i^Q, K W_i^K, V W_i^V)

Parameters carry the names and the layout of ``torch.nn.MultiheadAttention``: a state dict of the
one loads into the other, and the outputs are equal.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .dropout import check_probability, dropout
from .masks import combine_masks


class KeyValueCache:
    """Keys and values ``[B, H, length, K]`` of one attention, kept from step to step of decoding.

    Self-attention appends the position it has just computed. Cross-attention computes the memory's
    keys and values once and then only reads them: its cache is *static*.
    """

    def __init__(self, *, is_static: bool = False) -> None:
        self.is_static = is_static
        self._keys: Tensor | None = None
        self._values: Tensor | None = None
        self._length = 0

    def __len__(self) -> int:
        """How many positions are stored."""
        return self._length

    def append(self, keys: Tensor, values: Tensor) -> None:
        """Adds ``[B, H, n, K]`` keys and values after those already there.

        Raises:
            ValueError: they differ from those already there in B, H or K; the message names both.
        """
        # Checked, because the assignment below would broadcast one row to all of them in silence.
        if self._keys is not None and _sizes_of_a_row(keys) != _sizes_of_a_row(self._keys):
            raise ValueError(
                f"the cache holds [B, H, K] = {_sizes_of_a_row(self._keys)}, "
                f"the keys to append have {_sizes_of_a_row(keys)}"
            )
        end = self._length + keys.shape[2]
        if self._keys is None or self._values is None:
            self._keys, self._values = keys, values
        else:
            if end > self._keys.shape[2]:
                self._grow(end)
            self._keys[:, :, self._length : end] = keys
            self._values[:, :, self._length : end] = values
        self._length = end

    def read(self) -> tuple[Tensor, Tensor]:
        """The stored keys and values, ``[B, H, length, K]`` each (views, not copies)."""
        if self._keys is None or self._values is None:
            raise ValueError("the cache is empty: append keys and values before reading them")
        return self._keys[:, :, : self._length], self._values[:, :, : self._length]

    def select(self, rows: Tensor) -> None:
        """Keeps the batch rows named by the index tensor ``rows``, in its order (may repeat)."""
        if self._keys is not None and self._values is not None:
            self._keys = self._keys.index_select(0, rows)
            self._values = self._values.index_select(0, rows)

    def _grow(self, needed: int) -> None:
        """Doubles the room, so that n steps cost O(n) copies in all, not O(n^2)."""
        assert self._keys is not None and self._values is not None
        room = max(needed, 2 * self._keys.shape[2], 16) - self._keys.shape[2]
        self._keys = F.pad(self._keys, (0, 0, 0, room))
        self._values = F.pad(self._values, (0, 0, 0, room))


class MyMultiheadAttention(nn.Module):
    """Multi-head attention over sequence-first inputs.

    Args:
        embed_dim: D, the width of queries, keys, values and outputs.
        num_heads: H; must divide ``embed_dim``.
        dropout: probability of dropping an attention weight, in training only.
        bias: whether the four projections have biases.
    """

    def __init__(
        self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True
    ) -> None:
        super().__init__()
        if num_heads < 1 or embed_dim % num_heads != 0:
            raise ValueError(f"embed_dim {embed_dim} is not divisible by num_heads {num_heads}")
        check_probability(dropout)
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        # W^Q, W^K and W^V stacked: self-attention projects all three in one matrix product.
        self.in_proj_weight = nn.Parameter(torch.empty(3 * embed_dim, embed_dim))
        if bias:
            self.in_proj_bias = nn.Parameter(torch.empty(3 * embed_dim))
        else:
            self.register_parameter("in_proj_bias", None)
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias=bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Xavier-uniform projections and zero biases, as in ``torch.nn.MultiheadAttention``."""
        nn.init.xavier_uniform_(self.in_proj_weight)
        if self.in_proj_bias is not None:
            nn.init.zeros_(self.in_proj_bias)
            nn.init.zeros_(self.out_proj.bias)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        key_padding_mask: Tensor | None = None,
        attn_mask: Tensor | None = None,
        need_weights: bool = True,
        average_attn_weights: bool = True,
        cache: KeyValueCache | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """See :func:`multi_head_attention_forward`, which this calls with its own parameters."""
        return multi_head_attention_forward(
            query,
            key,
            value,
            num_heads=self.num_heads,
            in_proj_weight=self.in_proj_weight,
            in_proj_bias=self.in_proj_bias,
            out_proj_weight=self.out_proj.weight,
            out_proj_bias=self.out_proj.bias,
            dropout_p=self.dropout,
            training=self.training,
            key_padding_mask=key_padding_mask,
            attn_mask=attn_mask,
            need_weights=need_weights,
            average_attn_weights=average_attn_weights,
            cache=cache,
        )


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    num_heads: int,
    in_proj_weight: Tensor,
    in_proj_bias: Tensor | None,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    dropout_p: float = 0.0,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    attn_mask: Tensor | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    cache: KeyValueCache | None = None,
) -> tuple[Tensor, Tensor | None]:
    """Multi-head attention as one function of its inputs and parameters.

    A query whose every key is blocked attends to nothing: its heads are zero, in value and in
    gradient (what is left of its output is the output projection's bias).

    Args:
        query: ``[T, B, D]``. key, value: ``[S, B, D]``.
        in_proj_weight: ``[3D, D]``, the projections of query, key and value stacked.
        key_padding_mask: ``[B, S]``; boolean (True blocks) or float (added).
        attn_mask: ``[T, S]`` or ``[B*H, T, S]``; boolean (True blocks) or float (added).
        need_weights: return the attention weights; without them a fused kernel is used.
        average_attn_weights: return the mean over heads instead of each head's weights.
        cache: keys and values kept between calls. New keys are appended and attended to together
            with the old ones, so the masks' S counts both; a static cache, once filled, is used as
            it is. The batch of the keys may be a divisor of the queries': the rows of one sentence
            (its beams) then share its keys.

    Returns:
        The output ``[T, B, D]``, and the weights ``[B, T, S]`` (averaged), ``[B, H, T, S]`` (not
        averaged) or None (not asked for).

    Raises:
        ValueError: an input or mask of the wrong size; the message names the sizes.
    """
    _check_inputs(query, key, value, in_proj_weight, is_cached=cache is not None)
    _, batch_size, embed_dim = query.shape
    dropout_p = dropout_p if training else 0.0

    if cache is not None and cache.is_static and len(cache) > 0:
        b_q = None if in_proj_bias is None else in_proj_bias[:embed_dim]
        q = split_heads(F.linear(query, in_proj_weight[:embed_dim], b_q), num_heads)
        k, v = cache.read()
    else:
        q, k, v = _project(query, key, value, num_heads, in_proj_weight, in_proj_bias)
        if cache is not None:
            cache.append(k, v)
            k, v = cache.read()
    if k.shape[0] != batch_size:
        q = _gather_beams(q, k.shape[0])

    blocked = combine_masks(
        attn_mask,
        key_padding_mask,
        batch_size=k.shape[0],
        num_heads=num_heads,
        target_length=q.shape[2],
        source_length=k.shape[2],
    )
    if need_weights:
        heads, weights = _attend_with_weights(q, k, v, blocked, dropout_p)
    else:
        heads, weights = attend(q, k, v, blocked, dropout_p), None
    if k.shape[0] != batch_size:
        heads = _scatter_beams(heads, batch_size)
        weights = None if weights is None else _scatter_beams(weights, batch_size)
    if weights is not None and average_attn_weights:
        weights = weights.mean(dim=1)
    return F.linear(merge_heads(heads), out_proj_weight, out_proj_bias), weights


def attend(q: Tensor, k: Tensor, v: Tensor, blocked: Tensor | None, dropout_p: float) -> Tensor:
    """Equation 1 by a fused kernel: ``[B, H, T, K]`` from queries, keys, values of that layout."""
    if blocked is not None:
        # The kernel's boolean masks have the opposite polarity: True lets pass.
        blocked = ~blocked if blocked.dtype == torch.bool else blocked.to(q.dtype)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=blocked, dropout_p=dropout_p)


def _attend_with_weights(
    q: Tensor, k: Tensor, v: Tensor, blocked: Tensor | None, dropout_p: float
) -> tuple[Tensor, Tensor]:
    """Equation 1 spelt out: the heads ``[B, H, T, K]`` and their weights ``[B, H, T, S]``."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if blocked is None:
        weights = scores.softmax(dim=-1)
    else:
        if blocked.dtype == torch.bool:
            is_blocked = blocked
        else:
            # Cast first: a mask's lowest float32 is -inf in half precision, and then it blocks.
            blocked = blocked.to(scores.dtype)
            is_blocked = blocked == -torch.inf
            scores = scores + blocked.masked_fill(is_blocked, 0.0)
        # A row that is blocked everywhere has no softmax: it is computed as if open, then zeroed.
        is_row_blocked = is_blocked.all(dim=-1, keepdim=True)
        scores = scores.masked_fill(is_blocked & ~is_row_blocked, -torch.inf)
        weights = scores.softmax(dim=-1).masked_fill(is_row_blocked, 0.0)
    weights = dropout(weights, dropout_p)
    return weights @ v, weights


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """``[S, B, D]`` -> ``[B, H, S, K]``, a view."""
    length, batch_size, width = x.shape
    return x.view(length, batch_size, num_heads, width // num_heads).permute(1, 2, 0, 3)


def merge_heads(x: Tensor) -> Tensor:
    """``[B, H, T, K]`` -> ``[T, B, D]``, the inverse of :func:`split_heads`."""
    batch_size, num_heads, length, head_dim = x.shape
    return x.permute(2, 0, 1, 3).reshape(length, batch_size, num_heads * head_dim)


def _project(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    num_heads: int,
    weight: Tensor,
    bias: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values ``[B, H, length, K]``, in as few matrix products as possible."""
    embed_dim = query.shape[-1]
    if query is key and key is value:
        projected = F.linear(query, weight, bias).split(embed_dim, dim=-1)
    elif key is value:
        w_q, w_kv = weight.split([embed_dim, 2 * embed_dim])
        b_q, b_kv = (None, None) if bias is None else bias.split([embed_dim, 2 * embed_dim])
        projected = (
            F.linear(query, w_q, b_q),
            *F.linear(key, w_kv, b_kv).split(embed_dim, dim=-1),
        )
    else:
        biases = (None, None, None) if bias is None else bias.split(embed_dim)
        inputs = zip((query, key, value), weight.split(embed_dim), biases, strict=True)
        projected = tuple(F.linear(x, w, b) for x, w, b in inputs)
    q, k, v = (split_heads(x, num_heads) for x in projected)
    return q, k, v


def _sizes_of_a_row(keys: Tensor) -> list[int]:
    """``[B, H, length, K]`` without the length: what never changes from step to step."""
    batch_size, num_heads, _, head_dim = keys.shape
    return [batch_size, num_heads, head_dim]


def _gather_beams(q: Tensor, sentences: int) -> Tensor:
    """``[B*N, H, 1, K]`` -> ``[B, H, N, K]``: a sentence's N beams become its query positions."""
    rows, num_heads, length, head_dim = q.shape
    if length != 1 or rows % sentences != 0:
        raise ValueError(
            f"queries of {rows} rows and {length} positions cannot share a cache of {sentences} "
            "rows: the rows must be a multiple of the cache's and hold one position each"
        )
    return q.view(sentences, rows // sentences, num_heads, head_dim).transpose(1, 2)


def _scatter_beams(heads: Tensor, rows: int) -> Tensor:
    """``[B, H, N, ...]`` -> ``[B*N, H, 1, ...]``, the inverse of :func:`_gather_beams`."""
    return heads.transpose(1, 2).reshape(rows, heads.shape[1], 1, heads.shape[3])


def _check_inputs(
    query: Tensor, key: Tensor, value: Tensor, in_proj_weight: Tensor, *, is_cached: bool
) -> None:
    embed_dim = in_proj_weight.shape[1]
    for name, x in (("query", query), ("key", key), ("value", value)):
        if x.dim() != 3 or x.shape[2] != embed_dim:
            raise ValueError(
                f"{name} must be [length, B, D] with D = {embed_dim}, not {list(x.shape)}"
            )
    if key.shape != value.shape:
        raise ValueError(
            f"key and value must have one shape, not {list(key.shape)} and {list(value.shape)}"
        )
    if query.shape[1] != key.shape[1] and not is_cached:
        raise ValueError(f"query has batch {query.shape[1]} but key has batch {key.shape[1]}")
