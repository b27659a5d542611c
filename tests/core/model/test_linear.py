"""The linear layer against PyTorch's own, in value and gradient."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from transformer_suite.core.model import linear as linear_module
from transformer_suite.core.model.linear import Linear, linear

both_ways = pytest.mark.parametrize("has_onednn", [True, False], ids=["onednn", "torch"])


def gradients(function: object, inputs: list[Tensor], out_gradient: Tensor) -> list[Tensor]:
    leaves = [x.clone().requires_grad_() for x in inputs]
    out = function(*leaves)  # type: ignore[operator]
    return [out.detach(), *torch.autograd.grad(out, leaves, out_gradient)]


@both_ways
@pytest.mark.parametrize("has_bias", [True, False], ids=["bias", "no_bias"])
@pytest.mark.parametrize("shape", [(1, 6), (5, 6), (4, 3, 6), (2, 4, 3, 6), (0, 6)], ids=str)
def test_equals_torchs(
    shape: tuple[int, ...], has_bias: bool, has_onednn: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        linear_module,
        "HAS_ONEDNN",
        linear_module.HAS_ONEDNN and has_onednn,
    )
    torch.manual_seed(1)
    inputs = [torch.randn(shape), torch.randn(9, 6)] + ([torch.randn(9)] if has_bias else [])
    upstream = torch.randn(*shape[:-1], 9)
    ours, theirs = gradients(linear, inputs, upstream), gradients(F.linear, inputs, upstream)
    for own, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(own, other, atol=1e-5, rtol=1e-5)


def test_inputs_in_any_order_of_memory() -> None:
    torch.manual_seed(2)
    x, weight = torch.randn(6, 3, 5).transpose(0, 2), torch.randn(6, 9).t()
    upstream = torch.randn(9, 3, 5).transpose(0, 2)
    ours, theirs = (gradients(f, [x, weight], upstream) for f in (linear, F.linear))
    for own, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(own, other, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_other_types_are_torchs_own(dtype: torch.dtype) -> None:
    x, weight = torch.randn(4, 6, dtype=dtype), torch.randn(9, 6, dtype=dtype)
    assert torch.equal(linear(x, weight), F.linear(x, weight))


def test_under_autocast_it_computes_in_bfloat16() -> None:
    with torch.autocast("cpu", torch.bfloat16):
        assert linear(torch.randn(4, 6), torch.randn(9, 6)).dtype == torch.bfloat16


def test_a_weight_that_is_not_trained_gets_no_gradient() -> None:
    layer = Linear(6, 9).requires_grad_(False)
    x = torch.randn(4, 6, requires_grad=True)
    layer(x).sum().backward()
    assert layer.weight.grad is None and layer.bias.grad is None
    assert x.grad is not None
    torch.testing.assert_close(x.grad, layer.weight.sum(0).expand(4, 6))
