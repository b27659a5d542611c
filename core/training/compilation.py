"""``torch.compile`` for training: compiles the layers of the encoder and the decoder.

The layers are compiled, not the model: all layers of a stack share one compiled function, and there
is little to gain between them. They are compiled for all lengths and batch sizes at once, because
every batch has its own. Outside of training, and in its checkpoints, the model is unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from core.errors import UserError
from core.model.transformer import MyTransformerDecoderLayer, MyTransformerEncoderLayer

_BACKEND = "inductor"


def check_compiler(device: torch.device) -> None:
    """Compiles a small function for ``device``.

    Raises:
        UserError: that fails, probably because a compiler is missing.
    """
    try:
        torch.compile(lambda x: x.sin() + 1.0, backend=_BACKEND)(torch.ones(8, device=device))
    except Exception as error:  # torch has many types of errors for this
        reason = str(error).strip().partition("\n")[0]
        raise UserError(
            f"train.compile: nothing can be compiled for {device.type} here ({reason}); install a "
            "C++ compiler (g++) and, for a GPU, triton, or leave train.compile=false"
        ) from error


class CompiledLayers:
    """The compiled layers of ``model``. Each is compiled at its first use."""

    def __init__(self, model: nn.Module) -> None:
        self._forwards = {
            layer: torch.compile(layer.forward, backend=_BACKEND, dynamic=True)
            for layer in model.modules()
            if isinstance(layer, MyTransformerEncoderLayer | MyTransformerDecoderLayer)
        }

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Makes the model use its compiled layers while the context lasts."""
        for layer, forward in self._forwards.items():
            layer.__dict__["forward"] = forward
        try:
            yield
        finally:
            for layer in self._forwards:
                del layer.__dict__["forward"]
