"""The gradient of a batch in microbatches, against that of the whole batch."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from core.model.dropout import dropout
from core.training import gradient
from core.training.gradient import Batch, accumulate_gradients, microbatch_count
from tests.core.training.tiny_runs import (
    Crash,
    Disturbed,
    Pairs,
    crash,
    gradients_of,
    loss_of,
    run_fit,
    same,
    tiny_model,
    weights_of,
)


@pytest.fixture(autouse=True)
def three_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def always_in_microbatches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gradient, "_MIN_POSITIONS", 1)


def batch_of(size: int) -> Batch:
    pairs = Pairs(size=size)
    return pairs.batch(pairs.plan(1)[0])


def in_microbatches(
    size: int, count: int, *, dropout: float, times: int = 1
) -> tuple[float, int, object]:
    """Returns the loss, the number of targets and the gradients of a batch of ``size`` examples."""
    model = tiny_model(dropout=dropout)
    model.train()
    parameters = list(model.parameters())
    torch.manual_seed(5)
    for _ in range(times):
        total, targets = accumulate_gradients(batch_of(size), loss_of(model), parameters, count)
    return total.item(), targets, gradients_of(model)


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("size", [3, 4, 7])
def test_microbatches_have_the_gradient_of_the_batch(size: int, count: int) -> None:
    """Twice: gradients are added to the existing ones."""
    model = tiny_model(dropout=0.0)
    for _ in range(2):
        total, targets = loss_of(model)(batch_of(size))
        total.backward()
    ours = in_microbatches(size, count, dropout=0.0, times=2)
    assert ours[0] == pytest.approx(total.item(), rel=1e-5)
    assert ours[1] == targets
    torch.testing.assert_close(ours[2], gradients_of(model), atol=1e-5, rtol=1e-5)


def test_the_same_random_state_gives_the_same_bits() -> None:
    for count in (2, 3):
        losses, _, gradients = zip(
            *(in_microbatches(7, count, dropout=0.3) for _ in range(5)), strict=True
        )
        assert len(set(losses)) == 1
        assert all(torch.equal(gradients[0], other) for other in gradients[1:])


def test_microbatches_draw_different_numbers() -> None:
    """Of two equal examples, each a microbatch, different elements are dropped."""
    seen = []

    def loss(batch: Batch) -> tuple[torch.Tensor, int]:
        seen.append(dropout(torch.ones(200), 0.5))
        return weight.sum() * 0.0, 1

    weight = torch.nn.Parameter(torch.ones(1))
    accumulate_gradients((torch.full((2, 2), 4),), loss, [weight], 2)
    assert not torch.equal(*seen)


@pytest.mark.parametrize(
    ("shape", "count"), [((10, 20), 1), ((10, 250), 2), ((10, 900), 3), ((2500, 1), 1), ((0, 0), 1)]
)
def test_small_batches_stay_whole(shape: tuple[int, int], count: int) -> None:
    assert microbatch_count((torch.ones(shape), torch.ones(shape[1]))) == count


@pytest.mark.usefixtures("always_in_microbatches")
def test_a_run_in_microbatches_resumes_bit_for_bit(tmp_path: Path) -> None:
    straight = tiny_model()
    run_fit(straight, tmp_path / "straight")
    with pytest.raises(Crash):
        run_fit(tiny_model(), tmp_path / "crashed", data=Disturbed(13, crash))
    resumed = tiny_model(99)
    run_fit(resumed, tmp_path / "crashed", resume=True)
    assert same(weights_of(resumed), weights_of(straight))
