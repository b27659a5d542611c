"""Linear layers whose matrix products oneDNN does, forwards and backwards.

PyTorch gives single-precision products to another library, which on many processors is a fifth
slower. Where there is no oneDNN, and for other devices and types, these are PyTorch's own layers.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

HAS_ONEDNN = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
if HAS_ONEDNN:  # what PyTorch's own compiler emits for linear layers on a CPU
    _product = torch.ops.mkldnn._linear_pointwise.default


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``x W^T + b``: ``[..., D]`` and ``[E, D]`` -> ``[..., E]``, as ``F.linear``."""
    if not _is_for_onednn(x, weight):
        return F.linear(x, weight, bias)
    if torch.is_grad_enabled():
        return _Linear.apply(x, weight, bias)
    return _product(x, weight, bias, "none", [], "")


class Linear(nn.Linear):
    """``torch.nn.Linear`` by :func:`linear`."""

    def forward(self, x: Tensor) -> Tensor:
        """``[..., D]`` -> ``[..., E]``."""
        return linear(x, self.weight, self.bias)


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias):  # type: ignore[no-untyped-def]
        ctx.save_for_backward(x, weight)
        ctx.has_bias = bias is not None
        return _product(x, weight, bias, "none", [], "")

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        x, weight = ctx.saved_tensors
        grad_x = grad_weight = grad_bias = None
        if ctx.needs_input_grad[0]:
            grad_x = _product(grad, weight.t(), None, "none", [], "")
        rows = grad.flatten(0, -2)
        if ctx.needs_input_grad[1]:
            grad_weight = rows.t() @ x.flatten(0, -2)
        if ctx.has_bias and ctx.needs_input_grad[2]:
            grad_bias = rows.sum(dim=0)
        return grad_x, grad_weight, grad_bias


def _is_for_onednn(x: Tensor, weight: Tensor) -> bool:
    return (
        HAS_ONEDNN
        and x.device.type == "cpu"
        and x.dtype == weight.dtype == torch.float32
        and x.dim() > 1
        and x.numel() > 0
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
    )
