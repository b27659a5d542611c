"""The precision of training: fp32, or bf16 where it is faster.

Some CPUs multiply bf16 matrices several times as fast as float32. But conversions take time, and
small models gain nothing. So the gradients of the first batch are computed in both precisions.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from statistics import median
from typing import Any

import torch
from torch import nn

from core.device import limit_kernel_caches
from core.progress import log
from core.training.microbatches import Batch, LossFunction

_ROUNDS = 3
_LEAST_GAIN = 1.05  # a smaller gain may be noise
_BF16_KERNELS = 32


def autocast(precision: str, device: torch.device) -> AbstractContextManager[Any]:
    """Returns the context of a forward pass in ``precision``: "auto", "bf16" or "fp32".

    "auto" is bf16 on a GPU that supports it, and fp32 elsewhere.
    """
    if precision == "auto":
        is_bf16 = device.type == "cuda" and torch.cuda.is_bf16_supported()
    else:
        is_bf16 = precision == "bf16"
    if not is_bf16:
        return nullcontext()
    if device.type == "cpu":
        limit_kernel_caches(_BF16_KERNELS)
    return torch.autocast(device.type, dtype=torch.bfloat16)


def has_bf16_arithmetic() -> bool:
    """Returns whether the CPU has bf16 instructions, as far as this PyTorch knows."""
    if not hasattr(torch.cpu, "get_capabilities"):  # PyTorch before 2.10
        return False
    capabilities = torch.cpu.get_capabilities().items()
    return any(value is True for name, value in capabilities if "bf16" in name)


def choose_precision(
    loss: LossFunction, parameters: Sequence[nn.Parameter], batch: Batch | None
) -> str:
    """Returns the faster precision of this CPU for ``batch``, "bf16" or "fp32", and logs it.

    Gradients and random states stay as they are. Without a batch, and on a CPU without bf16
    arithmetic, the answer is "fp32" at once.
    """
    if batch is None or not has_bf16_arithmetic():
        return "fp32"
    seconds: dict[str, list[float]] = {"bf16": [], "fp32": []}
    with torch.random.fork_rng(devices=[]):
        for _ in range(1 + _ROUNDS):
            for precision, measured in seconds.items():
                measured.append(_seconds(precision, loss, parameters, batch))
    # The first round makes the kernels.
    bf16, fp32 = (median(measured[1:]) for measured in seconds.values())
    chosen = "bf16" if fp32 >= _LEAST_GAIN * bf16 else "fp32"
    log(f"train.precision=auto: {chosen}. A batch takes {bf16:.3g} s in bf16, {fp32:.3g} s in fp32")
    return chosen


def _seconds(
    precision: str, loss: LossFunction, parameters: Sequence[nn.Parameter], batch: Batch
) -> float:
    started = time.perf_counter()
    with autocast(precision, batch[0].device):
        total, _ = loss(batch)
    # Not ``backward``: it would add to the gradients, and several processes would exchange them.
    torch.autograd.grad(total, parameters, allow_unused=True)
    return time.perf_counter() - started
