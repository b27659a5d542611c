"""Linear layers for inference, stored for the few rows of a decoding step.

A product of few rows with a matrix takes as long as reading the matrix. So weights are stored in
the formats of the fastest kernels:

* in the blocked order of oneDNN, whose kernels also add the bias, the ReLU and the residual;
* as fp16, in FBGEMM's kernels, if every weight is an fp16 number, as in a checkpoint saved in half
  precision. There is half as much to read, and the sums are the same.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

HAS_ONEDNN = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
HAS_FBGEMM = "fbgemm" in torch.backends.quantized.supported_engines

# With more rows the arithmetic takes longer than the reading.
_FEW_ROWS = 40


class PackedLinear:
    """``x W^T + b`` with a copy of ``weight`` ``[E, D]`` and ``bias``, ``[E]`` or None."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        weight = weight.detach()
        can_pack = weight.device.type == "cpu" and weight.dtype == torch.float32
        self._is_in_blocks = HAS_ONEDNN and can_pack
        self._weight = _reorder(weight, None) if self._is_in_blocks else weight.clone()
        self._bias = None if bias is None else bias.detach().clone()
        self._fp16 = None
        if HAS_FBGEMM and can_pack and torch.equal(weight.half().float(), weight):
            self._fp16 = torch.ops.quantized.linear_prepack_fp16(weight.contiguous(), self._bias)

    def __call__(self, x: Tensor, *, relu: bool = False) -> Tensor:
        """Maps ``[..., D]`` to ``[..., E]``, with a ReLU on the output if asked for."""
        if self._is_for_fp16(x):
            return (_fp16_linear_relu if relu else _fp16_linear)(x, self._fp16)
        if self._is_in_blocks:
            return _linear(x, self._weight, self._bias, "relu" if relu else "none", [], "")
        y = F.linear(x, self._weight, self._bias)
        return y.relu_() if relu else y

    def added_to(self, residual: Tensor, x: Tensor) -> Tensor:
        """Returns ``residual`` ``[..., E]`` plus the output of the layer for ``x``."""
        if self._is_for_fp16(x):
            return _fp16_linear(x, self._fp16).add_(residual)
        if self._is_in_blocks:
            return _linear_and_add(x, residual, self._weight, self._bias, "add")
        return F.linear(x, self._weight, self._bias).add_(residual)

    def _is_for_fp16(self, x: Tensor) -> bool:
        return self._fp16 is not None and 0 < x.numel() <= _FEW_ROWS * x.shape[-1]


def _direct(operator: torch._ops.OpOverloadPacket) -> Callable[..., Tensor]:
    """Returns ``operator`` without the checks for tracing, if PyTorch gives access to that."""
    return getattr(operator.default, "_op", operator.default)


if HAS_ONEDNN:
    _reorder = torch.ops.mkldnn._reorder_linear_weight.default
    _linear = torch.ops.mkldnn._linear_pointwise.default
    _linear_and_add = torch.ops.mkldnn._linear_pointwise.binary
if HAS_FBGEMM:
    _fp16_linear = _direct(torch.ops.quantized.linear_dynamic_fp16)
    _fp16_linear_relu = _direct(torch.ops.quantized.linear_relu_dynamic_fp16)
