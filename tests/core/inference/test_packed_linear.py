"""Packed linear layers against ``F.linear``, with PyTorch's private kernels and without them."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from core.inference import packed_linear
from core.inference.packed_linear import PackedLinear
from tests.core.model.parity import assert_near

law = settings(max_examples=40, deadline=None, derandomize=True)
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12, torch.bfloat16: 0.1}

with_and_without_kernels = pytest.mark.parametrize("kernels", [True, False], ids=["fast", "plain"])


def packed(weight: torch.Tensor, bias: torch.Tensor | None, kernels: bool) -> PackedLinear:
    """Packs with the kernels of oneDNN and FBGEMM, if PyTorch has them, or without."""
    with pytest.MonkeyPatch.context() as patch:
        if not kernels:
            patch.setattr(packed_linear, "HAS_ONEDNN", False)
            patch.setattr(packed_linear, "HAS_FBGEMM", False)
        layer = PackedLinear(weight, bias)
        is_packable = packed_linear.HAS_ONEDNN and weight.dtype == torch.float32
    assert layer._is_in_blocks == is_packable
    return layer


@with_and_without_kernels
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@law
@given(
    seed=st.integers(0, 2**31 - 1),
    shape=st.lists(st.integers(1, 5), min_size=1, max_size=2),
    width=st.integers(1, 40),
    outputs=st.integers(1, 40),
    has_bias=st.booleans(),
    is_strided=st.booleans(),
    is_half=st.booleans(),
)
def test_packed_is_linear(
    dtype: torch.dtype,
    kernels: bool,
    seed: int,
    shape: list[int],
    width: int,
    outputs: int,
    has_bias: bool,
    is_strided: bool,
    is_half: bool,
) -> None:
    """One row and several, in one dimension and two; with ReLU and with a residual."""
    torch.manual_seed(seed)
    weight = torch.randn(outputs, width, dtype=dtype)
    weight = weight.half().to(dtype) if is_half else weight
    bias = torch.randn(outputs, dtype=dtype) if has_bias else None
    x = torch.randn(*shape, width * (1 + is_strided), dtype=dtype)[..., :width]
    residual = torch.randn(*shape, outputs, dtype=dtype)
    inputs = x.clone(), residual.clone()
    layer, expected = packed(weight, bias, kernels), F.linear(x, weight, bias)
    assert_near(layer(x), expected, TOLERANCE[dtype])
    assert_near(layer(x, relu=True), expected.relu(), TOLERANCE[dtype])
    assert_near(layer.added_to(residual, x), residual + expected, TOLERANCE[dtype])
    assert torch.equal(x, inputs[0])
    assert torch.equal(residual, inputs[1])


@pytest.mark.skipif(not packed_linear.HAS_FBGEMM, reason="this build of PyTorch has no FBGEMM")
def test_fp16_weights_are_exact() -> None:
    """Including the smallest and the largest. Any other weight stays float32."""
    smallest, largest = 2.0**-24, 65504.0
    weight = torch.tensor([[smallest, -largest, 1.0 + 2.0**-10], [0.0, 2.0**-14, -3.0]])
    layer = PackedLinear(weight, None)
    assert layer._fp16 is not None
    assert torch.equal(layer(torch.eye(3)), weight.t())
    for other in (1.0 + 2.0**-11, 2.0**-25, 65520.0, 1e30):
        weight[0, 0] = other
        layer = PackedLinear(weight, None)
        assert layer._fp16 is None
        assert torch.equal(layer(torch.eye(3)), weight.t())


@pytest.mark.skipif(not packed_linear.HAS_FBGEMM, reason="this build of PyTorch has no FBGEMM")
@pytest.mark.parametrize("has_bias", [True, False])
def test_few_and_many_rows_give_the_same_outputs(has_bias: bool) -> None:
    """Below and above the number of rows at which the kernel changes."""
    torch.manual_seed(1)
    weight, bias = torch.randn(30, 20).half().float(), torch.randn(30) if has_bias else None
    layer = PackedLinear(weight, bias)
    x, residual = torch.randn(41, 20), torch.randn(41, 30)
    many, few = layer(x), torch.cat([layer(x[:40]), layer(x[40:])])
    assert_near(few, many, 1e-5)
    halves = zip(residual.split(40), x.split(40), strict=True)
    added = torch.cat([layer.added_to(*half) for half in halves])
    assert_near(added, layer.added_to(residual, x), 1e-5)


@with_and_without_kernels
@pytest.mark.parametrize("shape", [(0, 6), (3, 0, 6)], ids=str)
def test_no_rows_give_no_rows(shape: tuple[int, ...], kernels: bool) -> None:
    layer = packed(torch.randn(4, 6), torch.randn(4), kernels)
    assert layer(torch.empty(shape)).shape == (*shape[:-1], 4)


@with_and_without_kernels
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("sizes", [(4, 6), (1, 6), (4, 1)], ids=str)
def test_later_changes_of_the_weights_have_no_effect(
    sizes: tuple[int, int], rows: int, kernels: bool
) -> None:
    weight, bias, x = torch.randn(sizes), torch.randn(sizes[0]), torch.randn(rows, sizes[1])
    layer, expected = packed(weight, bias, kernels), F.linear(x, weight, bias)
    weight.zero_()
    bias.zero_()
    assert_near(layer(x), expected, 1e-5)
