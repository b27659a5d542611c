"""Linear layers for inference, laid out for the few rows that a step of decoding has.

A product of few rows with a matrix is as quick as the matrix is read. It is read in the blocked
order of oneDNN, whose kernels PyTorch has, and which can add what follows (bias, ReLU, residual)
before a result leaves the registers. Weights that are numbers of sixteen bits, as those of a
checkpoint saved in half precision are, have half as much to read for the very same sums: FBGEMM's
kernels widen them on their way. In whole numbers of eight bits there is a quarter to read, and the
sums are quicker; they are not the same.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

HAS_ONEDNN = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
HAS_FBGEMM = "fbgemm" in torch.backends.quantized.supported_engines


# Of more rows, the sums take longer than the reading.
_FEW_ROWS = 40


class PackedLinear:
    """``x W^T + b`` with a copy of the weights as they are now.

    Args:
        weight: ``[E, D]``. bias: ``[E]`` or None.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        weight = weight.detach()
        blocks = _in_blocks(weight)
        self._is_in_blocks = blocks is not None
        self._weight = weight.clone() if blocks is None else blocks
        self._bias = None if bias is None else bias.detach().clone()
        self._halves = _in_halves(weight, self._bias)

    def __call__(self, x: Tensor, *, relu: bool = False) -> Tensor:
        """``[..., D]`` -> ``[..., E]``, and the rectifier over it if so wanted."""
        if self._is_for_halves(x):
            return (_half_linear_relu if relu else _half_linear)(x, self._halves)
        if self._is_in_blocks:
            return _linear(x, self._weight, self._bias, "relu" if relu else "none", [], "")
        y = F.linear(x, self._weight, self._bias)
        return y.relu_() if relu else y

    def added_to(self, residual: Tensor, x: Tensor) -> Tensor:
        """``residual`` ``[..., E]`` plus the layer's output for ``x``."""
        if self._is_for_halves(x):
            return _half_linear(x, self._halves).add_(residual)
        if self._is_in_blocks:
            return _linear_and_add(x, residual, self._weight, self._bias, "add")
        return F.linear(x, self._weight, self._bias).add_(residual)

    def _is_for_halves(self, x: Tensor) -> bool:
        return self._halves is not None and 0 < x.numel() <= _FEW_ROWS * x.shape[-1]


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


def _in_blocks(weight: Tensor) -> Tensor | None:
    """``weight`` in oneDNN's own order, where this build, device and type have one."""
    if not HAS_ONEDNN or weight.device.type != "cpu" or weight.dtype != torch.float32:
        return None
    return _reorder(weight, None)


def _in_halves(weight: Tensor, bias: Tensor | None) -> torch.ScriptObject | None:
    """``weight`` in FBGEMM's order and half precision, where there is that and nothing is lost."""
    if not HAS_FBGEMM or weight.device.type != "cpu" or weight.dtype != torch.float32:
        return None
    if not torch.equal(weight.half().float(), weight):
        return None
    return torch.ops.quantized.linear_prepack_fp16(weight.contiguous(), bias)


def _direct(operator: torch._ops.OpOverloadPacket) -> Callable[..., Tensor]:
    """``operator`` without the look at its arguments that is only for tracing, if it has one."""
    return getattr(operator.default, "_op", operator.default)


if HAS_ONEDNN:
    _reorder = torch.ops.mkldnn._reorder_linear_weight.default
    _linear = torch.ops.mkldnn._linear_pointwise.default
    _linear_and_add = torch.ops.mkldnn._linear_pointwise.binary
if HAS_FBGEMM:
    _half_linear = _direct(torch.ops.quantized.linear_dynamic_fp16)
    _half_linear_relu = _direct(torch.ops.quantized.linear_relu_dynamic_fp16)
