"""Packed linear layers against ``F.linear``, with the kernels of oneDNN and without them."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from parity import assert_near

from core import packed_linear
from core.packed_linear import PackedLinear

law = settings(max_examples=40, deadline=None, derandomize=True)
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12, torch.bfloat16: 0.1}

with_and_without_onednn = pytest.mark.parametrize("onednn", [True, False], ids=["onednn", "plain"])


def packed(weight: torch.Tensor, bias: torch.Tensor | None, onednn: bool) -> PackedLinear:
    """With the kernels of oneDNN, if this build of PyTorch has them, or as if it had not."""
    with pytest.MonkeyPatch.context() as patch:
        if not onednn:
            patch.setattr(packed_linear, "HAS_ONEDNN", False)
        layer = PackedLinear(weight, bias)
        is_packable = packed_linear.HAS_ONEDNN and weight.dtype == torch.float32
    assert (layer._blocks is not None) == is_packable
    return layer


@with_and_without_onednn
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@law
@given(
    seed=st.integers(0, 2**31 - 1),
    shape=st.lists(st.integers(1, 5), min_size=1, max_size=2),
    width=st.integers(1, 40),
    outputs=st.integers(1, 40),
    has_bias=st.booleans(),
    is_strided=st.booleans(),
)
def test_packed_is_linear(
    dtype: torch.dtype,
    onednn: bool,
    seed: int,
    shape: list[int],
    width: int,
    outputs: int,
    has_bias: bool,
    is_strided: bool,
) -> None:
    """One row and many, in one dimension and two; then ReLU, then a residual."""
    torch.manual_seed(seed)
    weight = torch.randn(outputs, width, dtype=dtype)
    bias = torch.randn(outputs, dtype=dtype) if has_bias else None
    x = torch.randn(*shape, width * (1 + is_strided), dtype=dtype)[..., :width]
    residual = torch.randn(*shape, outputs, dtype=dtype)
    inputs = x.clone(), residual.clone()
    layer, expected = packed(weight, bias, onednn), F.linear(x, weight, bias)
    assert_near(layer(x), expected, TOLERANCE[dtype])
    assert_near(layer(x, relu=True), expected.relu(), TOLERANCE[dtype])
    assert_near(layer.added_to(residual, x), residual + expected, TOLERANCE[dtype])
    assert torch.equal(x, inputs[0])
    assert torch.equal(residual, inputs[1])


@with_and_without_onednn
@pytest.mark.parametrize("shape", [(0, 6), (3, 0, 6)], ids=str)
def test_no_rows_give_no_rows(shape: tuple[int, ...], onednn: bool) -> None:
    layer = packed(torch.randn(4, 6), torch.randn(4), onednn)
    assert layer(torch.empty(shape)).shape == (*shape[:-1], 4)


@with_and_without_onednn
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("sizes", [(4, 6), (1, 6), (4, 1)], ids=str)
def test_the_weights_are_those_it_was_made_of(
    sizes: tuple[int, int], rows: int, onednn: bool
) -> None:
    """Whatever becomes of them."""
    weight, bias, x = torch.randn(sizes), torch.randn(sizes[0]), torch.randn(rows, sizes[1])
    layer, expected = packed(weight, bias, onednn), F.linear(x, weight, bias)
    weight.zero_()
    bias.zero_()
    assert_near(layer(x), expected, 1e-5)


def test_parts_of_a_larger_weight_can_be_packed() -> None:
    """As the stacked projections of attention are."""
    weight, bias, x = torch.randn(12, 5), torch.randn(12), torch.randn(3, 5)
    for onednn in (True, False):
        layer = packed(weight[4:8], bias[4:8], onednn)
        assert_near(layer(x), F.linear(x, weight, bias)[:, 4:8], 1e-5)


@with_and_without_onednn
def test_no_gradient_comes_back(onednn: bool) -> None:
    weight, bias = (torch.randn(size, requires_grad=True) for size in ((4, 6), (4,)))
    layer = packed(weight, bias, onednn)
    assert not layer(torch.randn(3, 6)).requires_grad
    assert not layer(torch.randn(1, 6)).requires_grad
