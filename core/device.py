"""Where a model computes, and in which precision."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from .errors import UserError


def choose_device(name: str) -> torch.device:
    """The device called "auto" (a GPU if there is one), "cpu", "cuda" or "cuda:N".

    Raises:
        UserError: no such device here.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or device.type not in ("cpu", "cuda"):
        raise UserError(f"--device must be auto, cpu, cuda or cuda:N, not {name!r}")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise UserError(
            f"--device {name}: this machine has {torch.cuda.device_count()} usable GPUs; use cpu"
        )
    return device


def device_of_rank(name: str, local_rank: int) -> str:
    """The device that one of a machine's several processes takes, as :func:`choose_device` has it.

    Each has a GPU of its own for "auto", where there are any, and for "cuda"; "cpu" and "cuda:N"
    are the same for all.

    Raises:
        UserError: there are more processes than GPUs.
    """
    if name == "auto" and not torch.cuda.is_available():
        return "cpu"
    if name not in ("auto", "cuda"):
        return name
    count = torch.cuda.device_count()
    if local_rank >= count:
        raise UserError(
            f"--device {name}: {local_rank + 1} or more processes, but {count} usable GPUs on this "
            "machine; start one process a GPU, or use cpu"
        )
    return f"cuda:{local_rank}"


def autocast(precision: str, device: torch.device) -> AbstractContextManager[Any]:
    """The precision of a forward pass: "auto" is bf16 on a GPU that has it and fp32 elsewhere."""
    if precision == "auto":
        is_bf16 = device.type == "cuda" and torch.cuda.is_bf16_supported()
    else:
        is_bf16 = precision == "bf16"
    if not is_bf16:
        return nullcontext()
    if device.type == "cpu":
        _bound_kernel_caches()
    return torch.autocast(device.type, dtype=torch.bfloat16)


def _bound_kernel_caches() -> None:
    """Keeps few of the bf16 kernels that oneDNN makes, one for every shape of every product.

    By default it keeps the last thousand, at megabytes each: over an epoch of batches of all shapes
    they grow to gigabytes. Read by oneDNN and PyTorch when they make their first kernel.
    """
    for variable in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
        os.environ.setdefault(variable, "32")
