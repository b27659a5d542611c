"""An exponential moving average of a model's weights, to be validated and kept in their place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class MovingAverage:
    """The average of the weights of the last steps, later ones counting for more.

        average <- d * average + (1 - d) * weight,    d = min(decay, (1 + t) / (10 + t))

    after step t, as TensorFlow's ``ExponentialMovingAverage`` has it: in the beginning, when the
    weights are far from where they will be, d is small, and what they were is soon forgotten.

    Args:
        parameters: the weights; as they are now they are the average of step 0.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], decay: float) -> None:
        self._parameters: list[Tensor] = list(parameters)
        self._decay = decay
        self.tensors: list[Tensor] = [p.detach().clone() for p in self._parameters]
        """One average a parameter, in the same order."""

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Takes in the weights as they are after step number ``step``, counted from 1."""
        decay = min(self._decay, (1 + step) / (10 + step))
        torch._foreach_lerp_(self.tensors, self._parameters, 1.0 - decay)

    @contextmanager
    def in_place_of_weights(self) -> Iterator[None]:
        """The parameters hold their averages, and afterwards themselves again."""
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
