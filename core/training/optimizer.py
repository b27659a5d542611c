"""Optimizers by name.

``adam`` is Adam as it was published (Kingma and Ba 2015), which the paper trains with (Vaswani et
al. 2017, section 5.3): without weight decay, and without the L2 penalty that often goes by that
name. ``adamw`` is Adam with decoupled weight decay (Loshchilov and Hutter 2019): a step of learning
rate r also shrinks every weight w by ``r * weight_decay * w``, apart from the gradient and its
moments. With no weight decay the two are one.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn

from .config import TrainConfig

BETA1 = 0.9
EPSILON = 1e-9  # section 5.3, as beta1 is


def make_optimizer(
    config: TrainConfig, parameters: Iterable[nn.Parameter]
) -> torch.optim.Optimizer:
    """The optimizer that ``config`` names; the learning rate is set from step to step."""
    betas = (BETA1, config.adam_beta2)
    if config.optimizer == "adam":
        return torch.optim.Adam(parameters, lr=0.0, betas=betas, eps=EPSILON, fused=True)
    return torch.optim.AdamW(
        parameters,
        lr=0.0,
        betas=betas,
        eps=EPSILON,
        weight_decay=config.weight_decay,
        fused=True,
    )
