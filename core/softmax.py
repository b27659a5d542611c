"""Softmax over few numbers, as attention has in short sentences, quicker on a CPU.

PyTorch's kernel computes rows that fill a vector register with wide instructions, and shorter ones
number by number, several times slower. Minus infinity is no probability: with enough of it at
its end, a short row is as quick as a long one, and its softmax is the same.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

_REGISTER_BYTES = {"AVX512": 64, "AVX2": 32}.get(torch.backends.cpu.get_cpu_capability(), 0)
# Below so many numbers the two more calls cost more than they save.
_WORTHWHILE = 512


def softmax(x: Tensor) -> Tensor:
    """The softmax over the last dimension of ``x``, as ``x.softmax(dim=-1)``."""
    missing = _REGISTER_BYTES // x.element_size() - x.shape[-1]
    is_slow = missing > 0 and x.numel() > _WORTHWHILE and x.device.type == "cpu"
    if not is_slow or torch.compiler.is_compiling():
        return x.softmax(dim=-1)
    return F.pad(x, (0, missing), value=-torch.inf).softmax(dim=-1)[..., :-missing]
