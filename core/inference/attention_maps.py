"""The attention weights of a whole model, for pictures.

Layers never request weights, so that PyTorch's fused kernel can run. Hooks on the attention modules
request and record them during one call.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn


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


@contextmanager
def recorded_weights(layers: Iterable[nn.Module], name: str) -> Iterator[list[Tensor]]:
    """Records the weights ``[B, H, T, S]`` of each layer's attention called ``name``.

    Yields the list to which every call inside the block appends its weights.
    """
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


def stack_weights(weights: Sequence[Tensor], query_is_pad: Tensor) -> Tensor:
    """Stacks the weights ``[B, H, T, S]`` of L layers: ``[L, B, H, T, S]``, 0 for padded queries.

    ``query_is_pad`` is ``[B, T]``.
    """
    return torch.stack(list(weights)).masked_fill(query_is_pad[:, None, :, None], 0.0)
