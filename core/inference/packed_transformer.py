"""The Transformer for inference: the same functions as in ``transformer``, with packed weights.

In training the decoder sees all positions of an output at once. In decoding a step adds one
position to each row: its query attends to the keys and values of the earlier steps, which are
cached (see ``key_value_cache``), and to those of the memory. Tests compare every step with the
whole forward pass. There is no dropout and no gradient here.
"""

from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from core.inference.key_value_cache import KeyValueCache, LayerCache, Lineage
from core.inference.packed_linear import PackedLinear
from core.model.attention import (
    MyMultiheadAttention,
    attend_fused,
    merge_heads,
    scaled_scores,
    split_heads,
)
from core.model.rotary import rotate, rotations
from core.model.transformer import (
    MyTransformerDecoder,
    MyTransformerDecoderLayer,
    MyTransformerEncoder,
    MyTransformerEncoderLayer,
)


class PackedEncoder:
    """A snapshot of ``encoder``."""

    def __init__(self, encoder: MyTransformerEncoder) -> None:
        self._layers = [
            _PackedEncoderLayer(cast(MyTransformerEncoderLayer, x)) for x in encoder.layers
        ]
        self._norm = _packed_norm(encoder.norm)
        self._rotary, self._head_dim = encoder.rotary, encoder.head_dim

    def __call__(self, x: Tensor, is_pad: Tensor | None) -> Tensor:
        """Maps ``[S, B, D]`` to the memory ``[S, B, D]``; ``is_pad`` ``[B, S]`` hides padding."""
        blocked = None if is_pad is None else is_pad[:, None, None]
        turned = rotations(len(x), self._head_dim, x) if self._rotary else None
        for layer in self._layers:
            x = layer(x, blocked, turned)
        return self._norm(x)


class PackedDecoder:
    """A snapshot of ``decoder``, for one position at a time."""

    def __init__(self, decoder: MyTransformerDecoder) -> None:
        self._layers = [
            _PackedDecoderLayer(cast(MyTransformerDecoderLayer, x)) for x in decoder.layers
        ]
        self._norm = _packed_norm(decoder.norm)

    def init_cache(self, memory: Tensor, is_pad: Tensor | None) -> list[LayerCache]:
        """Returns each layer's cache with ``memory`` ``[S, B, D]``; ``is_pad`` is ``[B, S]``."""
        return [layer.init_cache(memory, is_pad) for layer in self._layers]

    def __call__(
        self,
        x: Tensor,
        caches: list[LayerCache],
        lineage: Lineage,
        memory_mask: Tensor | None,
        rotations: Tensor | None = None,
    ) -> Tensor:
        """Maps the newest position of every row, ``[R, D]``, to ``[R, D]`` and caches it.

        The rows are N beams of each of B sentences. ``lineage`` knows the positions that the caches
        hold after this step. ``memory_mask`` ``[B, 1, 1, S]`` is added to attention scores.
        ``rotations`` ``[2, 1, K]`` are those of this position (:mod:`core.model.rotary`).
        """
        mask = lineage.mask()
        for layer, cache in zip(self._layers, caches, strict=True):
            x = layer(x, cache, mask, memory_mask, rotations)
        return self._norm(x)


class _PackedLayer:
    """The norms and the feed-forward sublayer, W2 act(W1 x + b1) + b2 (section 3.3)."""

    def __init__(self, layer: MyTransformerEncoderLayer | MyTransformerDecoderLayer) -> None:
        norms = (layer.norm1, layer.norm2, getattr(layer, "norm3", None))
        self._norms = [_packed_norm(norm) for norm in norms if norm is not None]
        self._is_pre_norm = layer.norm_first
        self._num_heads, self._head_dim = layer.self_attn.num_heads, layer.self_attn.head_dim
        self._query_key_value = _projection(layer.self_attn, 0, 3)
        self._own_out = _output(layer.self_attn)
        self._inner = PackedLinear(layer.linear1.weight, layer.linear1.bias)
        self._outer = PackedLinear(layer.linear2.weight, layer.linear2.bias)
        self._is_relu = layer.activation is F.relu
        self._activation = deepcopy(layer.activation)  # a function stays the same function

    def _through(self, x: Tensor, *sublayers: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """Maps ``x`` through the sublayers, which add their output for the second argument to the
        first, and the feed-forward sublayer."""
        for norm, added in zip(self._norms, (*sublayers, self._feed_forward), strict=True):
            x = added(x, norm(x)) if self._is_pre_norm else norm(added(x, x))
        return x

    def _feed_forward(self, residual: Tensor, x: Tensor) -> Tensor:
        inner = self._inner(x, relu=self._is_relu)
        return self._outer.added_to(residual, inner if self._is_relu else self._activation(inner))


class _PackedEncoderLayer(_PackedLayer):
    def __call__(self, x: Tensor, blocked: Tensor | None, rotations: Tensor | None) -> Tensor:
        return self._through(x, partial(self._attend, blocked=blocked, rotations=rotations))

    def _attend(
        self, residual: Tensor, x: Tensor, blocked: Tensor | None, rotations: Tensor | None
    ) -> Tensor:
        projected = self._query_key_value(x).chunk(3, dim=-1)
        q, k, v = (split_heads(part, self._num_heads) for part in projected)
        if rotations is not None:
            q, k = rotate(q, rotations), rotate(k, rotations)
        return self._own_out.added_to(residual, merge_heads(attend_fused(q, k, v, blocked)))


class _PackedDecoderLayer(_PackedLayer):
    def __init__(self, layer: MyTransformerDecoderLayer) -> None:
        super().__init__(layer)
        cross = layer.multihead_attn
        self._memory_query = _projection(cross, 0, 1)
        self._memory_key_value = _projection(cross, 1, 3)
        self._memory_out = _output(cross)

    def init_cache(self, memory: Tensor, is_pad: Tensor | None) -> LayerCache:
        """Returns caches with the keys and values of ``memory`` ``[S, B, D]``, and of no past.

        Those of padding (``is_pad`` ``[B, S]``) are zero. A memory of nothing but padding therefore
        gives zeros, as in the forward pass, although the mask of a step leaves it open.
        """
        length, batch_size, _ = memory.shape
        keys_values = self._memory_key_value(memory)
        keys_values = keys_values.view(length, batch_size, 2, self._num_heads, self._head_dim)
        if is_pad is not None:
            keys_values.masked_fill_(is_pad.t()[:, :, None, None, None], 0.0)
        keys_values = keys_values.permute(2, 1, 3, 0, 4)
        return LayerCache(KeyValueCache(keys_values), KeyValueCache(keys_values[:, :, :, :0]))

    def __call__(
        self,
        x: Tensor,
        cache: LayerCache,
        mask: Tensor | None,
        memory_mask: Tensor | None,
        rotations: Tensor | None,
    ) -> Tensor:
        """Maps ``[R, D]`` to ``[R, D]``; see :meth:`PackedDecoder.__call__`."""
        own = partial(self._attend_past, past=cache.past, mask=mask, rotations=rotations)
        memory = partial(self._attend_memory, memory=cache.memory, mask=memory_mask)
        return self._through(x, own, memory)

    def _attend_past(
        self,
        residual: Tensor,
        x: Tensor,
        past: KeyValueCache,
        mask: Tensor | None,
        rotations: Tensor | None,
    ) -> Tensor:
        projected = self._heads(self._query_key_value(x), past.sentences)
        if rotations is not None:
            projected[:2] = rotate(projected[:2], rotations)
        past.append(projected[1:])
        return self._own_out.added_to(residual, attend_cached(projected[0], past, mask))

    def _attend_memory(
        self, residual: Tensor, x: Tensor, memory: KeyValueCache, mask: Tensor | None
    ) -> Tensor:
        q = self._heads(self._memory_query(x), memory.sentences)[0]
        return self._memory_out.added_to(residual, attend_cached(q, memory, mask))

    def _heads(self, x: Tensor, sentences: int) -> Tensor:
        """Splits ``[B*N, n*D]`` into ``[n, B, H, N, K]``, a view."""
        rows, width = x.shape
        beams, parts = rows // max(1, sentences), width // (self._num_heads * self._head_dim)
        heads = x.view(sentences, beams, parts, self._num_heads, self._head_dim)
        return heads.permute(2, 0, 3, 1, 4)


_FEW_POSITIONS, _FEW_ROWS = 16, 8


def attend_cached(q: Tensor, cache: KeyValueCache, mask: Tensor | None) -> Tensor:
    """Computes attention over cached keys and values (equation 1, section 3.2.1).

    Two batched products and a softmax are faster than the fused kernel for few queries. Over few
    positions, they would be computed number by number: zeros fill these up, and are masked.

    Args:
        q: ``[B, H, N, K]``: the N beams of a sentence are N queries of the same keys.
        mask: added to the scores; broadcasts to ``[B, H, N, L]``.

    Returns:
        The concatenated heads, ``[B*N, D]``.
    """
    batch_size, num_heads, beams, head_dim = q.shape
    count = len(cache)
    is_short = 0 < count < _FEW_POSITIONS and beams == 1 and batch_size > _FEW_ROWS
    keys, values = cache.read(_FEW_POSITIONS if is_short else 0)
    if is_short:
        filled = (0, _FEW_POSITIONS - count)
        mask = F.pad(q.new_zeros(count) if mask is None else mask, filled, value=-torch.inf)
    scores = scaled_scores(q.flatten(0, 1), keys.flatten(0, 1))
    if mask is not None:
        scores.view(batch_size, num_heads, beams, keys.shape[2]).add_(mask)
    heads = torch.bmm(scores.softmax(dim=-1), values.flatten(0, 1))
    if beams == 1:
        return heads.view(batch_size, num_heads * head_dim)
    return heads.view(q.shape).transpose(1, 2).reshape(batch_size * beams, num_heads * head_dim)


def _packed_norm(norm: nn.Module | None) -> Callable[[Tensor], Tensor]:
    """Returns a snapshot of ``norm``; calling it takes half the time of the module for one row."""
    if not isinstance(norm, nn.LayerNorm):
        return deepcopy(norm) or (lambda x: x)
    args = deepcopy((norm.normalized_shape, norm.weight, norm.bias, norm.eps))
    return lambda x: torch.layer_norm(x, *args)


def _projection(attention: MyMultiheadAttention, start: int, end: int) -> PackedLinear:
    """Packs the stacked projections from ``start`` to ``end``: 0 query, 1 key, 2 value."""
    rows = slice(start * attention.embed_dim, end * attention.embed_dim)
    bias = attention.in_proj_bias
    return PackedLinear(attention.in_proj_weight[rows], None if bias is None else bias[rows])


def _output(attention: MyMultiheadAttention) -> PackedLinear:
    return PackedLinear(attention.out_proj.weight, attention.out_proj.bias)
