"""Attention with dropout and a gradient of its own, against the same left to autograd."""

import pytest
import torch
from torch import Tensor

from transformer_suite.core.model import attention
from transformer_suite.core.model.attention import (
    MyMultiheadAttention,
    _as_added,
    _attend_with_weights,
)
from transformer_suite.core.model.attention_dropout import AttentionWithDropout
from transformer_suite.core.model.heads import heads_of, merge_heads

HEADS, WIDTH, BATCH = 2, 6, 3

# Lengths of queries and keys.
SIZES = [(1, 1), (3, 4), (5, 2), (9, 9), (4, 20)]
SIDE_BY_SIDE = {"all three": [3], "keys and values": [1, 2], "none": [1, 1, 1]}


def projections_of(sizes: tuple[int, int], widths: list[int]) -> list[Tensor]:
    torch.manual_seed(1)
    queries, keys = sizes
    lengths = [queries, *[keys] * (len(widths) - 1)]
    return [
        torch.randn(length, BATCH, width * WIDTH, dtype=torch.float64, requires_grad=True)
        for length, width in zip(lengths, widths, strict=True)
    ]


def mask_of(kind: str, sizes: tuple[int, int]) -> Tensor | None:
    torch.manual_seed(2)
    if kind == "padding":
        blocked = torch.rand(BATCH, 1, 1, sizes[1]) < 0.4
        blocked[..., 0] = False
        return blocked
    if kind == "float":
        return torch.randn(BATCH, HEADS, *sizes, dtype=torch.float64)
    if kind == "a row blocked everywhere":
        blocked = torch.zeros(BATCH, 1, *sizes, dtype=torch.bool)
        blocked[1, :, -1] = True
        return blocked
    return None


def by_autograd(projections: list[Tensor], blocked: Tensor | None, p: float) -> Tensor:
    return merge_heads(_attend_with_weights(*heads_of(projections, HEADS), blocked, p)[0])


def by_itself(projections: list[Tensor], blocked: Tensor | None, p: float) -> Tensor:
    masks = (None, None) if blocked is None else _as_added(blocked, torch.float64)
    return AttentionWithDropout.apply(HEADS, p, *masks, *projections)


@pytest.mark.parametrize("kind", ["none", "padding", "float", "a row blocked everywhere"])
@pytest.mark.parametrize("widths", SIDE_BY_SIDE.values(), ids=SIDE_BY_SIDE.keys())
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_outputs_and_gradients(sizes: tuple[int, int], widths: list[int], kind: str) -> None:
    """With the same random numbers they drop the same weights."""
    if widths == [3]:
        sizes = (sizes[0], sizes[0])
    blocked, found = mask_of(kind, sizes), []
    for function in (by_autograd, by_itself):
        projections = projections_of(sizes, widths)
        torch.manual_seed(3)
        out = function(projections, blocked, 0.4)
        wanted = torch.linspace(-1, 1, out.numel(), dtype=torch.float64).view(out.shape)
        found.append((out, *torch.autograd.grad(out, projections, wanted)))
    for expected, actual in zip(*found, strict=True):
        assert actual.shape == expected.shape
        torch.testing.assert_close(actual, expected, rtol=0, atol=1e-14)


def test_gradients_are_those_of_small_differences() -> None:
    projections = projections_of((4, 5), [1, 2])
    blocked = mask_of("padding", (4, 5))

    def function(*inputs: Tensor) -> Tensor:
        torch.manual_seed(4)
        return by_itself(list(inputs), blocked, 0.3)

    assert torch.autograd.gradcheck(function, projections)


def test_a_gradient_that_is_no_whole_tensor() -> None:
    """The gradient of a sum is one number, expanded."""
    projections = projections_of((4, 4), [3])
    torch.manual_seed(5)
    (found,) = torch.autograd.grad(by_itself(projections, None, 0.2).sum(), projections)
    torch.manual_seed(5)
    (expected,) = torch.autograd.grad(by_autograd(projections, None, 0.2).sum(), projections)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("is_learnt", [False, True])
def test_where_it_is_used(is_learnt: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """In training without weights; a mask that is learnt needs a gradient, which it has not."""
    calls = []

    class Watched(AttentionWithDropout):
        @staticmethod
        def forward(*arguments):  # type: ignore[no-untyped-def]
            calls.append("own")
            return AttentionWithDropout.forward(*arguments)

    monkeypatch.setattr(attention, "AttentionWithDropout", Watched)
    module = MyMultiheadAttention(WIDTH, HEADS, dropout=0.5)
    x = torch.randn(4, BATCH, WIDTH)
    mask = torch.zeros(4, 4, requires_grad=is_learnt)
    module(x, x, x, need_weights=False, attn_mask=mask)[0].sum().backward()
    assert calls == ([] if is_learnt else ["own"])
    assert (mask.grad is not None) == is_learnt
    calls.clear()
    module(x, x, x, attn_mask=mask)
    module.eval()(x, x, x, need_weights=False, attn_mask=mask)
    assert calls == []
