"""Multi-head attention (Vaswani et al. 2017, section 3.2).

    Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V                                  (equation 1)
    MultiHead(Q, K, V) = Concat(head_1, ..., head_h) W^O                             (section 3.2.2)
    head_i             = Attention(Q W_i^Q, K W_i^K, V W_i^V)

Parameters have the names, the layout and the order of ``torch.nn.MultiheadAttention``: state dicts
are interchangeable, and with the same weights the outputs are equal.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from core.model.dropout import check_probability, dropout
from core.model.masks import combine_masks, float_mask
from core.model.rotary import rotate


class MyMultiheadAttention(nn.Module):
    """Multi-head attention over sequence-first inputs (section 3.2.2).

    Args:
        embed_dim: D, the width of queries, keys, values and outputs.
        num_heads: H; must divide ``embed_dim``.
        dropout: the probability of dropping an attention weight in training, as in torch.nn.

    Raises:
        ValueError: a size or a probability out of range.
    """

    def __init__(
        self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True
    ) -> None:
        super().__init__()
        if num_heads < 1 or embed_dim % num_heads != 0:
            raise ValueError(f"embed_dim {embed_dim} is not divisible by num_heads {num_heads}")
        check_probability(dropout)
        self.embed_dim = embed_dim
        self.num_heads, self.head_dim = num_heads, embed_dim // num_heads
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
        """Draws Xavier-uniform projections and zeroes the biases, as ``torch.nn`` does."""
        nn.init.xavier_uniform_(self.in_proj_weight)
        if self.in_proj_bias is not None:
            nn.init.zeros_(self.in_proj_bias)
            nn.init.zeros_(self.out_proj.bias)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
        *,
        rotations: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Attends from every query to the keys.

        A query whose every key is blocked attends to nothing: its heads and their gradients are
        zero, and its output is the bias of the output projection.

        In training on a CPU, and where weights are requested, equation 1 is computed step by step
        (:func:`attend`); else by PyTorch's fused kernel, which has no second derivatives.

        Args:
            query: ``[T, B, D]``. key, value: ``[S, B, D]``.
            key_padding_mask: ``[B, S]``; boolean (True blocks) or float (added).
            need_weights: whether to return the attention weights.
            attn_mask: ``[T, S]`` or ``[B*H, T, S]``; boolean (True blocks) or float (added).
            average_attn_weights: whether to return their mean over the heads.
            is_causal: ``attn_mask`` is the causal mask, which the fastest kernels have themselves.
            rotations: in self-attention, those of the positions (:mod:`core.model.rotary`).

        Returns:
            The output ``[T, B, D]``, and the weights: ``[B, T, S]`` if averaged, ``[B, H, T, S]``
            if not averaged, None if not requested.

        Raises:
            ValueError: an input or a mask of the wrong size; the message names the sizes. Or
                ``is_causal`` without ``attn_mask``.
        """
        self._check_inputs(query, key, value)
        if is_causal and attn_mask is None:
            raise ValueError("is_causal is about attn_mask, which is missing")
        shape = (query.shape[1], self.num_heads, query.shape[0], key.shape[0])
        mask = combine_masks(attn_mask, key_padding_mask, shape)
        q, k, v = (split_heads(x, self.num_heads) for x in self._project(query, key, value))
        if rotations is not None:
            q, k = rotate(q, rotations), rotate(k, rotations)
        dropout_p = self.dropout if self.training else 0.0
        weights = None
        # On a CPU the fused kernel has no dropout.
        if need_weights or (self.training and query.device.type == "cpu"):
            heads, weights = attend(q, k, v, mask, dropout_p)
        else:
            is_causal = is_causal and key_padding_mask is None
            heads = attend_fused(q, k, v, mask, dropout_p, is_causal=is_causal)
        out = self.out_proj(merge_heads(heads))
        if weights is None or not need_weights:
            return out, None
        return out, weights.mean(dim=1) if average_attn_weights else weights

    def _check_inputs(self, query: Tensor, key: Tensor, value: Tensor) -> None:
        for name, x in (("query", query), ("key", key), ("value", value)):
            check_states(name, x, self.embed_dim)
        if key.shape != value.shape:
            raise ValueError(
                f"key and value must have one shape, not {list(key.shape)} and {list(value.shape)}"
            )
        if query.shape[1] != key.shape[1]:
            raise ValueError(f"query has batch {query.shape[1]} but key has batch {key.shape[1]}")

    def _project(self, query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
        """Projects query, key and value in as few matrix products as possible."""
        d = self.embed_dim
        if query is key and key is value:
            sizes = [3 * d]
        else:
            sizes = [d, 2 * d] if key is value else [d, d, d]
        weights = self.in_proj_weight.split(sizes)
        biases = [None] * 3 if self.in_proj_bias is None else self.in_proj_bias.split(sizes)
        inputs = zip((query, key, value), weights, biases, strict=False)
        products = [F.linear(x, weight, bias) for x, weight, bias in inputs]
        return [x for product in products for x in product.split(d, dim=-1)]


def check_states(name: str, x: Tensor, d_model: int) -> None:
    """Raises a ValueError unless ``x`` is ``[length, B, d_model]``."""
    if x.dim() != 3 or x.shape[2] != d_model:
        raise ValueError(f"{name} must be [length, B, D] with D = {d_model}, not {list(x.shape)}")


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """Returns ``[S, B, D]`` as ``[B, H, S, K]``, a view."""
    length, batch_size, width = x.shape
    return x.view(length, batch_size, num_heads, width // num_heads).permute(1, 2, 0, 3)


def merge_heads(x: Tensor) -> Tensor:
    """Returns ``[B, H, T, K]`` as ``[T, B, D]``, the inverse of :func:`split_heads`."""
    batch_size, num_heads, length, head_dim = x.shape
    return x.permute(2, 0, 1, 3).reshape(length, batch_size, num_heads * head_dim)


def attend(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, dropout_p: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Computes equation 1 step by step.

    Args:
        q: ``[B, H, T, K]``. k, v: ``[B, H, S, K]``.
        mask: broadcasts to ``[B, H, T, S]``; boolean (True blocks) or float (added).
        dropout_p: the probability of dropping a weight.

    Returns:
        The heads ``[B, H, T, K]``, and the weights ``[B, H, T, S]``: after dropout, as in PyTorch.
    """
    scores = scaled_scores(q.flatten(0, 1), k.flatten(0, 1)).view(*q.shape[:3], k.shape[2])
    is_row_blocked = None
    if mask is not None:
        added, is_row_blocked = _as_added(mask, scores.dtype)
        scores = scores + added
    weights = scores.softmax(dim=-1)
    if is_row_blocked is not None:
        weights = weights.masked_fill(is_row_blocked, 0.0)
    weights = dropout(weights, dropout_p)
    heads = torch.bmm(weights.flatten(0, 1), v.flatten(0, 1))
    return heads.view(*q.shape[:3], v.shape[3]), weights


def scaled_scores(q: Tensor, k: Tensor) -> Tensor:
    """Computes Q K^T / sqrt(d_k): ``[N, T, K]`` and ``[N, S, K]`` -> ``[N, T, S]``."""
    scale = 1.0 / math.sqrt(q.shape[2])
    return torch.baddbmm(q.new_empty(1, 1, 1), q, k.transpose(1, 2), beta=0, alpha=scale)


def _as_added(mask: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor | None]:
    """Returns the float mask to add to the scores, and which rows are blocked everywhere.

    A row of ``-inf`` has no softmax. Such rows are left open here; the caller zeroes their weights.
    The second result is None if there are none.
    """
    added = float_mask(mask, dtype)
    is_row_blocked = (added == -torch.inf).all(dim=-1, keepdim=True)
    if not is_row_blocked.any():
        return added, None
    return added.masked_fill(is_row_blocked, 0.0), is_row_blocked


def attend_fused(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    dropout_p: float = 0.0,
    *,
    is_causal: bool = False,
) -> Tensor:
    """Returns the heads of :func:`attend`, computed by PyTorch's fused kernel.

    With ``is_causal``, ``mask`` is the causal one. Flash attention runs without a mask alone.
    """
    if is_causal:
        mask = None
    if mask is not None:
        # The kernel's boolean masks have the opposite meaning: True lets pass.
        mask = ~mask if mask.dtype == torch.bool else mask.to(q.dtype)
    return F.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, dropout_p=dropout_p, is_causal=is_causal
    )
