"""When a run has exploded, and when it has not."""

import math
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from torch import Tensor

from core.errors import UserError
from core.model.sequence_to_sequence import SequenceToSequence
from core.training.fit import Trainer
from core.training.microbatches import LossFunction
from core.training.state import DivergenceMonitor
from tests.core.training.tiny_runs import loss_of, run_fit, same, tiny_model, weights_of


def first_explosion(losses: list[float], norms: list[float] | None = None) -> int | None:
    """The number of the step, from 1, that the check stops at."""
    monitor = DivergenceMonitor()
    for step, loss in enumerate(losses):
        if monitor.explosion(loss, 1.0 if norms is None else norms[step], 10.0):
            return step + 1
    return None


# Healthy runs


def test_a_loss_that_falls_and_then_stays_is_no_explosion() -> None:
    """With batches that differ by half, whatever the height it starts from."""
    rng = random.Random(1)
    for start in (1.4, 9.0, 500.0):
        losses = [start / n**0.5 * rng.uniform(0.5, 1.5) for n in range(1, 2000)]
        assert first_explosion(losses) is None


def test_a_loss_near_zero_may_be_many_times_itself() -> None:
    """A classifier that has learnt its texts by heart, in batches of one, and is surely wrong about
    one in a hundred: that text costs it ten thousand times the usual loss."""
    losses = [10.0 if n % 100 == 50 else 0.001 for n in range(1000)]
    norms = [80.0 if n % 100 == 50 else 0.001 for n in range(1000)]
    assert first_explosion(losses, norms) is None


def test_one_bad_batch_is_no_explosion() -> None:
    """Though it is fifty times as bad as the others; and its gradient, five hundred times."""
    ones = [1.0] * 100
    assert first_explosion([*ones, 50.0, *ones]) is None
    assert first_explosion([1.0] * 201, [*ones, 500.0, *ones]) is None


# Explosions


@pytest.mark.parametrize(
    ("value", "step"),
    [(2000.0, 101), (60.0, 104), (30.0, 110), (20.5, 135), (19.5, None)],
)
def test_a_loss_that_stays_high_is_an_explosion(value: float, step: int | None) -> None:
    """By hand: it is 2, and then v; after k steps the mean is v - (v - 2) * 0.9^k, and more than
    ten times 2 is too much."""
    assert first_explosion([2.0] * 100 + [value] * 100) == step


def test_gradients_may_grow_to_the_square() -> None:
    losses, norms = [2.0] * 120, [0.5] * 100
    assert first_explosion(losses, [*norms, *[90.0] * 20]) is None
    assert first_explosion(losses, [*norms, *[1010.0] * 20]) == 101


# Runs


def exploding(
    model: SequenceToSequence, at: int, factor: float, last: float = math.inf
) -> LossFunction:
    """The usual loss, ``factor`` times as high from step ``at`` to step ``last``."""
    plain, steps = loss_of(model), 0

    def loss(batch: tuple[Tensor, ...]) -> tuple[Tensor, int]:
        nonlocal steps
        steps += 1
        total, count = plain(batch)
        return (factor if at <= steps <= last else 1.0) * total, count

    return loss


def test_it_stops_the_run_and_names_the_step_and_the_batch(tmp_path: Path) -> None:
    """The weights are as they were before that step, and the checkpoints too."""
    model, before = tiny_model(), {}
    loss = exploding(model, 13, 1000.0)

    def noted(batch: tuple[Tensor, ...]) -> tuple[Tensor, int]:
        before.update(weights_of(model))
        return loss(batch)

    message = (
        r"the loss has exploded to \d+: the mean of the last steps is .*, "
        r"and its lowest value was .*, at step 13 \(epoch 2, batch 5\); "
        r"the last good checkpoint is kept. "
        r"Lower train.learning_rate or raise train.warmup"
    )
    with pytest.raises(UserError, match=message):
        run_fit(model, tmp_path, loss=noted)
    assert same(weights_of(model), before)
    resumed, straight = tiny_model(2), tiny_model()
    run_fit(resumed, tmp_path, loss=loss_of(resumed), resume=True)
    run_fit(straight, tmp_path / "straight", loss=loss_of(straight))
    assert same(weights_of(resumed), weights_of(straight))


def test_all_batches_of_the_step_are_named(tmp_path: Path) -> None:
    model = tiny_model()
    with pytest.raises(UserError, match=r"at step 3 \(epoch 1, batches 5 to 6\)"):
        run_fit(model, tmp_path, loss=exploding(model, 5, 1000.0), accumulate=2)


def test_no_state_is_saved_while_an_explosion_may_have_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loss of 25 times the usual is too high, and takes some steps to be an explosion."""
    save: Callable[[Trainer], None] = Trainer.save
    steps = []

    def noted(trainer: Trainer) -> None:
        steps.append(trainer.state.step)
        save(trainer)

    monkeypatch.setattr(Trainer, "save", noted)
    model = tiny_model()
    loss = exploding(model, at=3, last=5, factor=25.0)
    run_fit(model, tmp_path, loss=loss, epochs=1, save_every=2)
    assert steps == [2, 6, 8]


def test_a_resumed_run_remembers_how_it_went(tmp_path: Path) -> None:
    """Its first steps would have been its lowest mean, however high."""
    run_fit(tiny_model(), tmp_path, epochs=1)
    model = tiny_model()
    with pytest.raises(UserError, match=r"exploded .* at step 9 \(epoch 2, batch 1\)"):
        run_fit(model, tmp_path, loss=exploding(model, 1, 1000.0), resume=True)
