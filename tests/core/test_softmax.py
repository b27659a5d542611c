"""Softmax over few and many numbers against PyTorch's, forwards and backwards."""

import pytest
import torch
from parity import assert_near

from core.softmax import softmax

INF = float("inf")
TOLERANCE = {torch.float32: 1e-6, torch.float64: 1e-14, torch.bfloat16: 0.01}


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("length", [1, 3, 7, 8, 15, 16, 17, 40])
@pytest.mark.parametrize("rows", [1, 300])
def test_softmax_is_softmax(rows: int, length: int, dtype: torch.dtype) -> None:
    """Where some numbers are minus infinity, too."""
    torch.manual_seed(length)
    x = torch.randn(rows, 2, length, dtype=dtype)
    x[:, 0, 1:][torch.rand(rows, length - 1) < 0.3] = -INF
    gradient = torch.randn(x.shape, dtype=dtype)
    results = []
    for function in (softmax, lambda x: x.softmax(dim=-1)):
        x.requires_grad_().grad = None
        y = function(x)
        y.backward(gradient)
        results.append((y.detach(), x.grad))
    for ours, theirs in zip(*results, strict=True):
        assert ours.shape == theirs.shape
        assert_near(ours, theirs, TOLERANCE[dtype])


def test_a_row_of_minus_infinity_alone_is_none() -> None:
    assert softmax(torch.full((400, 3), -INF)).isnan().all()


def test_no_rows_and_no_numbers() -> None:
    assert softmax(torch.empty(0, 5)).shape == (0, 5)
    assert softmax(torch.empty(600, 0)).shape == (600, 0)
