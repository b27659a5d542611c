"""An exponential moving average of the weights, validated and kept instead of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class MovingAverage:
    """The average of the weights of the last steps, with more weight on later steps.

        average <- d * average + (1 - d) * weight,    d = min(decay, (1 + t) / (10 + t))

    after step t, as in TensorFlow's ``ExponentialMovingAverage``. In the first steps d is small, so
    that the average soon forgets the initial weights.

    Args:
        parameters: the weights; their present values are the average of step 0.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], decay: float) -> None:
        self._parameters: list[Tensor] = list(parameters)
        self._decay = decay
        self.tensors: list[Tensor] = [p.detach().clone() for p in self._parameters]
        """The average of each parameter, in the same order."""

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Adds the weights after step ``step``, counted from 1."""
        decay = min(self._decay, (1 + step) / (10 + step))
        torch._foreach_lerp_(self.tensors, self._parameters, 1.0 - decay)

    @contextmanager
    def in_place_of_weights(self) -> Iterator[None]:
        """Puts the averages into the parameters while the context lasts."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    @torch.no_grad()
    def _swap(self) -> None:
        weights = [p.clone() for p in self._parameters]
        torch._foreach_copy_(self._parameters, self.tensors)
        torch._foreach_copy_(self.tensors, weights)
