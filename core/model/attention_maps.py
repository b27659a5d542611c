"""Who attended to whom: the attention weights of a whole model, for pictures.

Layers never ask for weights, so that their fused kernel can run. For the time of one call the
attentions are watched from outside by hooks; the layers and their normal path know nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn


class AttentionWeights(NamedTuple):
    """The weights of L layers: row t holds what query t takes of each key, and sums to 1.

    Rows of padding and columns of padding or of what is yet to come are 0.
    """

    encoder: Tensor
    """``[L, B, H, S, S]``: the source among itself."""
    decoder: Tensor
    """``[L, B, H, T, T]``: the target among itself."""
    cross: Tensor
    """``[L, B, H, T, S]``: of the target over the source."""


@contextmanager
def recorded_weights(layers: Iterable[nn.Module], name: str) -> Iterator[list[Tensor]]:
    """Gathers the weights ``[B, H, T, S]`` of each call, inside the block, of the attention that
    every layer has under ``name``."""
    weights: list[Tensor] = []

    def ask(module: nn.Module, args: Any, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        return args, {**options, "need_weights": True, "average_attn_weights": False}

    def store(module: nn.Module, args: Any, result: tuple[Tensor, Tensor]) -> None:
        weights.append(result[1])

    with ExitStack() as hooks:
        for layer in layers:
            attention = layer.get_submodule(name)
            hooks.enter_context(attention.register_forward_pre_hook(ask, with_kwargs=True))
            hooks.enter_context(attention.register_forward_hook(store))
        yield weights


def stack_weights(weights: Sequence[Tensor], query_is_pad: Tensor) -> Tensor:
    """L layers' weights ``[B, H, T, S]`` as ``[L, B, H, T, S]``, 0 for queries of padding.

    ``query_is_pad`` is ``[B, T]``.
    """
    return torch.stack(list(weights)).masked_fill(query_is_pad[:, None, :, None], 0.0)
