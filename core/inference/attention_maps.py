"""The attention weights of a whole model, for pictures.

Layers never request weights, so that PyTorch's fused kernel can run. Hooks on the attention modules
request and record them during one call.
"""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from core.model.masks import padding_mask
from core.model.sequence_to_sequence import SequenceToSequence
from core.special_ids import PAD_ID


class AttentionWeights(NamedTuple):
    """The weights of L layers: row t has the weight of each key for query t, and sums to 1.

    Rows of padding are 0, and so are columns of padding and of later positions.
    """

    encoder: Tensor
    """``[L, B, H, S, S]``: from source to source."""
    decoder: Tensor
    """``[L, B, H, T, T]``: from target to target."""
    cross: Tensor
    """``[L, B, H, T, S]``: from target to source."""


@torch.no_grad()
def attention_weights(model: SequenceToSequence, src: Tensor, tgt: Tensor) -> AttentionWeights:
    """Returns every layer's attention weights for ``src`` ``[S, B]`` and ``tgt`` ``[T, B]``.

    ``tgt`` begins with ``<bos>``, as in training. ``model`` is in evaluation mode, and no other
    thread calls this on it at the same time.
    """
    encoder, decoder = model.transformer.encoder.layers, model.transformer.decoder.layers
    src_is_pad, tgt_is_pad = (padding_mask(ids, PAD_ID) for ids in (src, tgt))
    with (
        recorded_weights(encoder, "self_attn") as encoder_weights,
        recorded_weights(decoder, "self_attn") as decoder_weights,
        recorded_weights(decoder, "multihead_attn") as cross_weights,
    ):
        model.decode(tgt, model.encode(src))
    paddings = (src_is_pad, tgt_is_pad, tgt_is_pad)  # of the queries
    recorded = zip((encoder_weights, decoder_weights, cross_weights), paddings, strict=True)
    return AttentionWeights(
        *(torch.stack(x).masked_fill(is_pad[:, None, :, None], 0.0) for x, is_pad in recorded)
    )


@contextmanager
def recorded_weights(layers: Iterable[nn.Module], name: str) -> Iterator[list[Tensor]]:
    """Yields the list that gets the weights ``[B, H, T, S]`` of each layer's attention ``name``."""
    weights: list[Tensor] = []

    def request(module: nn.Module, args: Any, options: dict[str, Any]) -> Any:
        return args, {**options, "need_weights": True, "average_attn_weights": False}

    def store(module: nn.Module, args: Any, result: tuple[Tensor, Tensor]) -> None:
        weights.append(result[1])

    with ExitStack() as hooks:
        for layer in layers:
            attention = layer.get_submodule(name)
            hooks.enter_context(attention.register_forward_pre_hook(request, with_kwargs=True))
            hooks.enter_context(attention.register_forward_hook(store))
        yield weights
