"""An exponential moving average of the weights, validated and kept instead of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn


def make_ema(model: nn.Module, decay: float) -> AveragedModel:
    """Returns the average of the weights of ``model``; call ``update_parameters`` after each step.

        average <- d * average + (1 - d) * weight,    d = min(decay, (1 + t) / (10 + t))

    after step t + 1; the average of the first step is its weights. In the first steps d is small,
    as in TensorFlow's ``ExponentialMovingAverage``, so that the average soon forgets them.
    """

    def update(averages: Sequence[Tensor], weights: Sequence[Tensor], steps: Tensor | int) -> None:
        warm_up = (1 + int(steps)) / (10 + int(steps))
        get_ema_multi_avg_fn(min(decay, warm_up))(averages, weights, steps)

    return AveragedModel(model, multi_avg_fn=update)


@contextmanager
def averages_in_place(model: nn.Module, ema: AveragedModel) -> Iterator[None]:
    """Exchanges the weights of ``model`` and their averages while the context lasts."""

    def exchange() -> None:
        for weight, average in zip(model.parameters(), ema.module.parameters(), strict=True):
            weight.data, average.data = average.data, weight.data

    exchange()
    try:
        yield
    finally:
        exchange()
