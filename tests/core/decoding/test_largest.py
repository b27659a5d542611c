"""The largest of many numbers, against ``topk``."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from transformer_suite.core.decoding import largest as module
from transformer_suite.core.decoding.largest import largest

law = settings(max_examples=150, deadline=None, derandomize=True)
INF = float("inf")


def check(x: Tensor, count: int) -> None:
    """The values are right; every place named is one of its own, and has the value named."""
    before = x.clone()
    values, places = largest(x, count)
    assert torch.equal(values, x.topk(count, dim=1).values)
    assert places.dtype == torch.long
    assert torch.equal(x.gather(1, places), values)
    assert all(len(set(row)) == count for row in places.tolist())
    assert torch.equal(x, before)


def numbers(seed: int, rows: int, length: int, blocked: float, distinct: int) -> Tensor:
    """Random ones, ``blocked`` of them minus infinity, some of them the same if few differ."""
    chance = torch.Generator().manual_seed(seed)
    x = torch.rand(rows, length, generator=chance)
    if distinct > 0:
        x = (x * distinct).floor()
    return x.masked_fill(torch.rand(rows, length, generator=chance) < blocked, -INF)


@law
@given(
    seed=st.integers(0, 2**31 - 1),
    rows=st.integers(1, 4),
    length=st.integers(1, 400),
    count=st.integers(1, 30),
    blocked=st.sampled_from([0.0, 0.5, 0.99, 1.0]),
    distinct=st.sampled_from([0, 3]),
)
def test_the_largest_are_those_of_topk(
    seed: int, rows: int, length: int, count: int, blocked: float, distinct: int
) -> None:
    """Folded however small, in lengths that 16 divides and that it does not."""
    x = numbers(seed, rows, length, blocked, distinct)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_WORTHWHILE", 0)
        check(x, min(count, length))


@pytest.mark.parametrize("blocked", [0.0, 0.9999, 1.0])
@pytest.mark.parametrize("count", [1, 2, 10])
@pytest.mark.parametrize("length", [13106, 13107, 13108, 13120, 40001])
def test_on_either_side_of_what_is_worthwhile(length: int, count: int, blocked: float) -> None:
    """Five rows of 13107 are one number short of 2^16, five of 13108 are above it."""
    check(numbers(length, 5, length, blocked, 0), count)
    check(numbers(length, 5, 2 * length, blocked, 0)[:, ::2], count)


@pytest.mark.parametrize("length", [1, 15, 16, 17])
def test_rows_that_are_many_and_short(length: int) -> None:
    x = numbers(1, 1 << 13, length, 0.3, 0)
    check(x, 1)
    check(x, min(3, length))
