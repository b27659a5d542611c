"""Multi-head attention (Vaswani et al. 2017, section 3.2).

    Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V                                  (equation 1)
    MultiHead(Q, K, V) = Concat(head_1, ..., head_h) W^O                             (section 3.2.2)
    head_i             = Attention(Q W_i^Q, K W_i^K, V W_i^V)

Parameters carry the names and the layout of ``torch.nn.MultiheadAttention``: a state dict of the
one loads into the other, and the outputs are equal.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .attention_dropout import AttentionWithDropout
from .dropout import check_probability, dropout
from .heads import heads_of, merge_heads, scaled_scores
from .linear import Linear, linear
from .masks import combine_masks


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
        self.out_proj = Linear(embed_dim, embed_dim, bias=bias)
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

    Returns:
        The output ``[T, B, D]``, and the weights ``[B, T, S]`` (averaged), ``[B, H, T, S]`` (not
        averaged) or None (not asked for).

    Raises:
        ValueError: an input or mask of the wrong size; the message names the sizes.
    """
    _check_inputs(query, key, value, in_proj_weight)
    dropout_p = dropout_p if training else 0.0
    projections = _project(query, key, value, in_proj_weight, in_proj_bias)
    blocked = combine_masks(
        attn_mask,
        key_padding_mask,
        batch_size=query.shape[1],
        num_heads=num_heads,
        target_length=len(query),
        source_length=len(key),
    )
    weights = None
    if need_weights:
        q, k, v = heads_of(projections, num_heads)
        heads, weights = _attend_with_weights(q, k, v, blocked, dropout_p)
        merged = merge_heads(heads)
    elif dropout_p > 0.0 and _has_own_gradient(projections[0], blocked):
        masks = (None, None) if blocked is None else _as_added(blocked, projections[0].dtype)
        merged = AttentionWithDropout.apply(num_heads, dropout_p, *masks, *projections)
    else:
        q, k, v = heads_of(projections, num_heads)
        merged = merge_heads(attend(q, k, v, blocked, dropout_p))
    if weights is not None and average_attn_weights:
        weights = weights.mean(dim=1)
    return linear(merged, out_proj_weight, out_proj_bias), weights


def attend(q: Tensor, k: Tensor, v: Tensor, blocked: Tensor | None, dropout_p: float) -> Tensor:
    """Equation 1 by the quickest way: ``[B, H, T, K]``; keys and values are ``[B, H, S, K]``."""
    if dropout_p > 0.0 and q.device.type == "cpu":
        # There the fused kernel has no dropout, and what stands in for it is slow.
        return _attend_with_weights(q, k, v, blocked, dropout_p)[0]
    if blocked is not None:
        # The kernel's boolean masks have the opposite polarity: True lets pass.
        blocked = ~blocked if blocked.dtype == torch.bool else blocked.to(q.dtype)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=blocked, dropout_p=dropout_p)


def _attend_with_weights(
    q: Tensor, k: Tensor, v: Tensor, blocked: Tensor | None, dropout_p: float
) -> tuple[Tensor, Tensor]:
    """Equation 1 spelt out: the heads ``[B, H, T, K]`` and their weights ``[B, H, T, S]``."""
    scores = scaled_scores(q.flatten(0, 1), k.flatten(0, 1)).view(*q.shape[:3], k.shape[2])
    is_row_blocked = None
    if blocked is not None:
        added, is_row_blocked = _as_added(blocked, scores.dtype)
        scores = scores + added
    weights = scores.softmax(dim=-1)
    if is_row_blocked is not None:
        weights = weights.masked_fill(is_row_blocked, 0.0)
    weights = dropout(weights, dropout_p)
    heads = torch.bmm(weights.flatten(0, 1), v.flatten(0, 1))
    return heads.view(q.shape), weights


def _as_added(blocked: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor | None]:
    """A mask as what is added to the scores, and which rows are blocked everywhere, if any are.

    Such a row has no softmax: it is to be computed as if open, and then zeroed.
    """
    if blocked.dtype == torch.bool:
        zeros = torch.zeros(blocked.shape, dtype=dtype, device=blocked.device)
        added = zeros.masked_fill_(blocked, -torch.inf)
    else:
        # Cast first: a mask's lowest float32 is -inf in half precision, and then it blocks.
        added = blocked.to(dtype)
    is_row_blocked = (added == -torch.inf).all(dim=-1, keepdim=True)
    if not is_row_blocked.any():
        return added, None
    return added.masked_fill(is_row_blocked, 0.0), is_row_blocked


def _has_own_gradient(projection: Tensor, blocked: Tensor | None) -> bool:
    """Whether this is a case that :class:`AttentionWithDropout` is for."""
    return (
        projection.device.type == "cpu"
        and projection.dtype in (torch.float32, torch.float64)
        and not (blocked is not None and blocked.requires_grad)
        and not torch.compiler.is_compiling()
    )


def _project(
    query: Tensor, key: Tensor, value: Tensor, weight: Tensor, bias: Tensor | None
) -> list[Tensor]:
    """Queries, keys and values, in as few matrix products as possible, as :func:`heads_of` takes
    them."""
    embed_dim = query.shape[-1]
    if query is key and key is value:
        return [linear(query, weight, bias)]
    inputs, sizes = [query, key, value], [embed_dim] * 3
    if key is value:
        inputs, sizes = [query, key], [embed_dim, 2 * embed_dim]
    biases = [None] * len(sizes) if bias is None else bias.split(sizes)
    parts = zip(inputs, weight.split(sizes), biases, strict=True)
    return [linear(x, w, b) for x, w, b in parts]


def _check_inputs(query: Tensor, key: Tensor, value: Tensor, in_proj_weight: Tensor) -> None:
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
    if query.shape[1] != key.shape[1]:
        raise ValueError(f"query has batch {query.shape[1]} but key has batch {key.shape[1]}")
