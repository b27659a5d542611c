"""Optimizers by name.

``adam`` is Adam as published (Kingma and Ba 2015) and used in the paper (Vaswani et al. 2017,
section 5.3), without weight decay and without an L2 penalty. ``adamw`` is Adam with decoupled
weight decay (Loshchilov and Hutter 2019): a step with learning rate r also reduces every weight w
by ``r * weight_decay * w``, independently of the gradient and its moments. Without weight decay,
both are the same.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn

from core.training.config import TrainConfig

BETA1 = 0.9
EPSILON = 1e-9  # section 5.3, like beta1


def make_optimizer(
    config: TrainConfig, parameters: Iterable[nn.Parameter]
) -> torch.optim.Optimizer:
    """Returns the optimizer that ``config`` names; every step sets its learning rate.

    It has its whole state at once, as torch makes it in the first step, so that the tensors of a
    run have the same names and sizes from the beginning.
    """
    parameters = list(parameters)
    kind = torch.optim.Adam if config.optimizer == "adam" else torch.optim.AdamW
    optimizer = kind(
        parameters,
        lr=0.0,
        betas=(BETA1, config.adam_beta2),
        eps=EPSILON,
        weight_decay=config.weight_decay,  # 0 with Adam
        fused=True,
    )
    for parameter in parameters:
        step = torch.zeros((), dtype=torch.float32, device=parameter.device)
        moments = {name: torch.zeros_like(parameter) for name in ("exp_avg", "exp_avg_sq")}
        optimizer.state[parameter] = {"step": step, **moments}
    return optimizer
