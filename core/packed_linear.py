"""Linear layers for inference, laid out for the few rows that a step of decoding has.

A product of few rows with a matrix is as quick as the matrix is read. For one row it is read
fastest column by column; for more in the blocked order of oneDNN, whose kernels PyTorch has, and
which can add what follows (bias, ReLU, residual) before a result leaves the registers. In whole
numbers of eight bits there is a quarter to read, and the sums are quicker; they are not the same.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch
from torch import Tensor

from .linear import HAS_ONEDNN


class PackedLinear:
    """``x W^T + b`` with a copy of the weights as they are now.

    Args:
        weight: ``[E, D]``. bias: ``[E]`` or None.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        weight = weight.detach()
        self._columns = weight.t().clone(memory_format=torch.contiguous_format)
        self._bias = None if bias is None else bias.detach().clone()
        self._blocks = _packed(weight)

    def __call__(self, x: Tensor, *, relu: bool = False) -> Tensor:
        """``[..., D]`` -> ``[..., E]``, and the rectifier over it if so wanted."""
        if self._blocks is not None and x.numel() > x.shape[-1]:
            activation = "relu" if relu else "none"
            return _linear(x, self._blocks, self._bias, activation, [], "")
        y = _affine(self._bias, x, self._columns)
        return y.relu_() if relu else y

    def added_to(self, residual: Tensor, x: Tensor) -> Tensor:
        """``residual`` ``[..., E]`` plus the layer's output for ``x``."""
        if self._blocks is not None and x.numel() > x.shape[-1]:
            return _linear_and_add(x, residual, self._blocks, self._bias, "add")
        return _affine(self._bias, x, self._columns).add_(residual)


class Int8Linear:
    """As :class:`PackedLinear`, with weights of eight bits and one scale for each output.

    The inputs of every call are rounded to eight bits as well, with one scale for all of them
    (dynamic quantization), so an output depends a little on what else is in its batch.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        weight = weight.detach().float().cpu().contiguous()
        scales = weight.abs().amax(dim=1).clamp_(min=1e-12).div_(127.0).double()
        zeros = torch.zeros(len(weight), dtype=torch.int64)
        with warnings.catch_warnings():
            # "deprecated", for a release to come: the one that is pinned has it.
            warnings.simplefilter("ignore", UserWarning)
            rounded = torch.quantize_per_channel(weight, scales, zeros, 0, torch.qint8)
        bias = None if bias is None else bias.detach().float().cpu()
        self._packed = torch.ops.quantized.linear_prepack(rounded, bias)
        # Without VNNI, sums of two products of full range overflow their sixteen bits.
        self._reduce_range = not torch.cpu._is_vnni_supported()

    def __call__(self, x: Tensor, *, relu: bool = False) -> Tensor:
        """``[..., D]`` -> ``[..., E]``, and the rectifier over it if so wanted."""
        ops = torch.ops.quantized
        function = ops.linear_relu_dynamic if relu else ops.linear_dynamic
        return function(x.contiguous(), self._packed, self._reduce_range)

    def added_to(self, residual: Tensor, x: Tensor) -> Tensor:
        """``residual`` ``[..., E]`` plus the layer's output for ``x``."""
        return self(x).add_(residual)


MakeLinear = Callable[[Tensor, Tensor | None], PackedLinear | Int8Linear]
"""From a layer's weight and bias to what computes it."""


def _affine(bias: Tensor | None, x: Tensor, columns: Tensor) -> Tensor:
    if bias is None:
        return x @ columns
    return torch.addmm(bias, x.flatten(0, -2), columns).view(*x.shape[:-1], columns.shape[1])


def _packed(weight: Tensor) -> Tensor | None:
    """``weight`` in oneDNN's own order, where this build, device and type have one."""
    if not HAS_ONEDNN or weight.device.type != "cpu" or weight.dtype != torch.float32:
        return None
    return _reorder(weight, None)


if HAS_ONEDNN:
    _reorder = torch.ops.mkldnn._reorder_linear_weight.default
    _linear = torch.ops.mkldnn._linear_pointwise.default
    _linear_and_add = torch.ops.mkldnn._linear_pointwise.binary
