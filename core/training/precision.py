"""The precision of training: bf16 where the device computes in it, or else fp16 or fp32."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from core.device import limit_kernel_caches

_KERNELS = 32


def precision_for(device: torch.device, wanted: str = "auto") -> str:
    """Returns "fp32", "bf16" or "fp16": what ``train.precision`` means on ``device``.

    "auto" is bf16 on a GPU that computes in it, or else fp16: older ones emulate bf16, slower than
    fp32. It is bf16 on a CPU with bf16 instructions, as far as this PyTorch knows. There, a step of
    the presets ``small`` and ``default`` takes 0.5 to 0.6 of the time that it takes in fp32.
    """
    if wanted != "auto":
        return wanted
    if device.type == "cuda":
        with torch.cuda.device(device):
            has_bf16 = torch.cuda.is_bf16_supported(including_emulation=False)
        return "bf16" if has_bf16 else "fp16"
    # PyTorch before 2.10 does not say.
    capabilities = getattr(torch.cpu, "get_capabilities", dict[str, object])()
    has_bf16 = any(value is True for name, value in capabilities.items() if "bf16" in name)
    return "bf16" if has_bf16 else "fp32"


def autocast(precision: str, device: torch.device) -> AbstractContextManager[Any]:
    """Returns the context of a forward pass in ``precision``: "fp32", "bf16" or "fp16"."""
    if precision == "fp32":
        return nullcontext()
    if device.type == "cpu":
        limit_kernel_caches(_KERNELS)
    return torch.autocast(device.type, torch.bfloat16 if precision == "bf16" else torch.float16)
