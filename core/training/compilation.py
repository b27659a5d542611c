"""The layers in training: compiled (``train.compile``), or with less memory.

The layers are compiled, not the model: all layers of a stack share one compiled function, and there
is little to gain between them. They are compiled for all lengths and batch sizes at once, because
every batch has its own. Outside of training, and in its checkpoints, the model is unchanged.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from core.errors import ConfigError, UserError
from core.model.transformer import MyTransformerDecoderLayer, MyTransformerEncoderLayer
from core.training.config import TrainConfig

_BACKEND = "inductor"


def check_compiler(device: torch.device) -> None:
    """Compiles a small function for ``device``.

    Raises:
        ConfigError: it is a CPU, where compiled steps take longer (``benchmarks/training.py``).
        UserError: that fails, probably because a compiler is missing.
    """
    if device.type == "cpu":
        raise ConfigError(
            "compiled steps take longer on a CPU: leave it out", option="train.compile"
        )
    try:
        torch.compile(lambda x: x.sin() + 1.0, backend=_BACKEND)(torch.ones(8, device=device))
    except Exception as error:  # torch has many types of errors for this
        reason = str(error).strip().partition("\n")[0]
        raise UserError(
            f"train.compile: nothing can be compiled for {device.type} here ({reason}); install "
            "triton and a C++ compiler (g++), or leave train.compile=false"
        ) from error


class WrappedLayers:
    """The layers of ``model`` in training, as ``config`` wants them."""

    def __init__(self, model: nn.Module, config: TrainConfig) -> None:
        self._forwards: dict[nn.Module, Callable[..., Tensor]] = {}
        if not (config.compile or config.gradient_checkpointing):
            return
        for layer in model.modules():
            if isinstance(layer, MyTransformerEncoderLayer | MyTransformerDecoderLayer):
                forward: Callable[..., Tensor] = layer.forward
                if config.compile:
                    forward = torch.compile(forward, backend=_BACKEND, dynamic=True)
                if config.gradient_checkpointing:
                    forward = partial(checkpoint, forward, use_reentrant=False)
                self._forwards[layer] = forward

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Makes the model use these layers while the context lasts."""
        for layer, forward in self._forwards.items():
            layer.__dict__["forward"] = forward
        try:
            yield
        finally:
            for layer in self._forwards:
                del layer.__dict__["forward"]
