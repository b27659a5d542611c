"""One step of the optimizer."""

import math
from pathlib import Path

import pytest
import torch

from core.training.step import total_norm
from tests.core.training.tiny_runs import (
    Pair,
    Pairs,
    assert_alike,
    gradient_of_one_step,
    gradients_of,
    loss_of,
    run_fit,
    tiny_model,
    weights_of,
    without_times,
)

# One step


def test_the_gradient_is_that_of_the_mean_loss(tmp_path: Path) -> None:
    """By its definition: the summed loss of all words, over their number."""
    items = Pairs(size=8).plan(1)[:1]
    model = tiny_model(dropout=0.0)
    total, count = loss_of(model)(Pairs().batch(items[0]))
    (total / count).backward()
    gradient = gradient_of_one_step(0.0, items)
    torch.testing.assert_close(gradient, gradients_of(model), atol=1e-6, rtol=1e-5)


def test_small_batches_accumulated_are_one_big_batch(tmp_path: Path) -> None:
    """A pair of short sentences and a pair of long ones: each word counts once, not each batch."""
    pairs = sorted(Pairs(size=8).plan(1)[0], key=lambda pair: len(pair[0]))
    halves = gradient_of_one_step(0.0, [pairs[:4], pairs[4:]])
    whole = gradient_of_one_step(0.0, [pairs])
    torch.testing.assert_close(halves, whole, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("batches", [8, 7])
def test_a_run_with_accumulation_is_the_run_with_big_batches(tmp_path: Path, batches: int) -> None:
    """The same pairs in halves, and a last step of one half where they are odd in number.

    After a dozen steps of Adam, which divides by small numbers, within 1e-4.
    """
    whole, halved = tiny_model(dropout=0.0), tiny_model(dropout=0.0)
    pairs = [pair for item in Pairs(batches=batches).plan(1) for pair in item]

    class Fixed(Pairs):
        def plan(self, epoch: int) -> list[list[Pair]]:
            return [pairs[i : i + self._size] for i in range(0, len(pairs), self._size)]

    big = run_fit(whole, tmp_path / "1", data=Fixed(size=8), average=0)
    small = run_fit(halved, tmp_path / "2", data=Fixed(size=4), accumulate=2, average=0)
    assert small.step == big.step == 3 * math.ceil(batches / 2)
    for ours, theirs in zip(without_times(small), without_times(big), strict=True):
        assert ours.pop("padding_share") < theirs.pop("padding_share")
        assert ours == pytest.approx(theirs, abs=1e-4)
    assert_alike(weights_of(halved), weights_of(whole))


def test_a_long_gradient_is_cut_to_length_and_keeps_its_direction(tmp_path: Path) -> None:
    items = Pairs().plan(1)[:1]
    plain = gradient_of_one_step(0.0, items)
    clipped = gradient_of_one_step(0.01, items)
    assert plain.norm() > 0.1
    assert clipped.norm().item() == pytest.approx(0.01, rel=1e-4)
    torch.testing.assert_close(clipped / clipped.norm(), plain / plain.norm())
    generous = gradient_of_one_step(2 * plain.norm().item(), items)
    assert torch.equal(generous, plain)


def test_the_norm_is_that_of_all_numbers() -> None:
    tensors = [torch.randn(3, 2), torch.randn(5)]
    flat = torch.cat([tensor.flatten() for tensor in tensors])
    assert total_norm(tensors) == pytest.approx(flat.norm().item())
