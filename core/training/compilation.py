"""``torch.compile`` for training: the layers of the stacks become machine code of their own.

It is the layers that are compiled, not the model: they are all alike, so one does for all of them,
however deep the model; and between them is little to gain. They are compiled for lengths and batch
sizes of every kind at once, since every batch has others. Outside of training the model is as it
was, and so are the names of its weights, always.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from ..errors import UserError
from ..model.transformer import MyTransformerDecoderLayer, MyTransformerEncoderLayer

_BACKEND = "inductor"


def check_compiler(device: torch.device) -> None:
    """Compiles something small for ``device``.

    Raises:
        UserError: that fails: a compiler is missing, most likely.
    """
    try:
        torch.compile(_probe, backend=_BACKEND)(torch.ones(8, device=device))
    except Exception as error:  # torch has one for every way to fail, and more to come
        reason = str(error).strip().partition("\n")[0]
        raise UserError(
            f"train.compile: nothing can be compiled for {device.type} here ({reason}); install a "
            "C++ compiler (g++) and, for a GPU, triton, or leave train.compile=false"
        ) from error


class CompiledLayers:
    """The layers of ``model``, compiled when they are first run where they are :meth:`in_use`."""

    def __init__(self, model: nn.Module) -> None:
        self._forwards = {
            layer: torch.compile(layer.forward, backend=_BACKEND, dynamic=True)
            for layer in model.modules()
            if isinstance(layer, MyTransformerEncoderLayer | MyTransformerDecoderLayer)
        }

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """The model runs its compiled layers, and afterwards its own again."""
        for layer, forward in self._forwards.items():
            layer.__dict__["forward"] = forward
        try:
            yield
        finally:
            for layer in self._forwards:
                del layer.__dict__["forward"]


def _probe(x: Tensor) -> Tensor:
    return x.sin() + 1.0
