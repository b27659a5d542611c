"""Learning-rate schedules, by hand and by their shapes."""

import pytest
import torch
from torch import nn
from torch.optim import SGD
from torch.optim.lr_scheduler import LambdaLR

from core.training.schedule import CustomSchedule, Schedule, cosine, inverse_sqrt, make_schedule
from tests.core.training.tiny_runs import tiny_config


@pytest.mark.parametrize(
    ("step", "rate"),
    [  # d_model 512, 4000 steps of warm-up: the paper's base model
        (1, 1.746928e-7),
        (100, 1.746928e-5),
        (4000, 6.987712e-4),
        (16000, 3.493856e-4),
        (100000, 1.397542e-4),
    ],
)
def test_the_papers_rates(step: int, rate: float) -> None:
    assert CustomSchedule(512)(step) == pytest.approx(rate, rel=1e-6)
    assert CustomSchedule(512, factor=3.0)(step) == pytest.approx(3.0 * rate, rel=1e-6)


def test_the_inverse_square_root_is_the_papers_with_its_peak_named() -> None:
    paper = CustomSchedule(512, 4000)
    named = inverse_sqrt((512 * 4000) ** -0.5, 4000)
    for step in (1, 2, 1000, 3999, 4000, 4001, 9999, 10**6):
        assert named(step) == pytest.approx(paper(step), rel=1e-12)


@pytest.mark.parametrize(
    ("schedule", "rates"),
    [
        (inverse_sqrt(0.8, 4), {1: 0.2, 3: 0.6, 4: 0.8, 16: 0.4, 64: 0.2}),
        (inverse_sqrt(0.8, 0), {1: 0.8, 4: 0.4, 16: 0.2}),
        (cosine(0.8, 4, 12), {1: 0.2, 3: 0.6, 4: 0.8, 6: 0.682843, 8: 0.4, 12: 0.0, 99: 0.0}),
        (cosine(0.8, 0, 4), {1: 0.682843, 2: 0.4, 3: 0.117157, 4: 0.0}),
    ],
    ids=["sqrt", "sqrt_cold", "cosine", "cosine_cold"],
)
def test_the_other_schedules_by_hand(schedule: Schedule, rates: dict[int, float]) -> None:
    for step, rate in rates.items():
        assert schedule(step) == pytest.approx(rate, abs=1e-6), step


@pytest.mark.parametrize(
    "schedule",
    [CustomSchedule(8), inverse_sqrt(0.1, 5), cosine(0.1, 5, 9)],
    ids=["noam", "inverse_sqrt", "cosine"],
)
def test_steps_are_counted_from_one_or_zero(schedule: Schedule) -> None:
    """``LambdaLR`` asks for step 0 first, which used to be refused."""
    assert schedule(0) == schedule(1) > 0


def test_under_lambda_lr() -> None:
    """PyTorch's own class takes a schedule; its base rate of 1 leaves the rates as they are."""
    optimizer = SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    schedule = CustomSchedule(8, 3)
    scheduler = LambdaLR(optimizer, schedule)
    rates = []
    for _ in range(5):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    assert rates == pytest.approx([schedule(step) for step in (1, 1, 2, 3, 4)])


def test_with_an_optimizer_as_the_tutorials_write_it() -> None:
    """``CustomSchedule(d_model, optimizer=...)``, and a step of it before each of the optimizer."""
    optimizer = SGD([nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(1))], lr=0.5)
    scheduler, schedule = CustomSchedule(8, 3, optimizer), CustomSchedule(8, 3)
    for step in range(1, 6):
        assert scheduler.step() == schedule(step)
        assert all(group["lr"] == schedule(step) for group in optimizer.param_groups)


def test_without_a_step_it_counts_the_calls() -> None:
    """``lr = learning_rate()`` before each step of the optimizer, as the tutorials write it."""
    counting, schedule = CustomSchedule(8, 3), CustomSchedule(8, 3)
    assert [counting() for _ in range(5)] == [schedule(step) for step in range(1, 6)]
    assert counting(2) == schedule(2)
    assert counting() == schedule(6)


def test_a_step_without_an_optimizer_says_what_is_missing() -> None:
    with pytest.raises(ValueError, match="optimizer=optimizer"):
        CustomSchedule(8).step()


@pytest.mark.parametrize(("d_model", "warmup"), [(0, 4000), (512, 0), (-1, -1)])
def test_sizes_below_one_are_refused(d_model: int, warmup: int) -> None:
    with pytest.raises(ValueError, match=f"not {d_model} and {warmup}"):
        CustomSchedule(d_model, warmup)


@pytest.mark.parametrize(
    ("name", "schedule"),
    [
        ("noam", CustomSchedule(32, 10)),
        ("inverse_sqrt", inverse_sqrt(0.5, 10)),
        ("cosine", cosine(0.5, 10, 50)),
        ("constant", lambda step: min(0.5, 0.05 * step)),
    ],
)
def test_the_schedules_by_name(name: str, schedule: Schedule) -> None:
    config = tiny_config(schedule=name, learning_rate=0.5, warmup_steps=10)
    made = make_schedule(config, d_model=32, total_steps=50)
    assert [made(step) for step in (1, 10, 40)] == [schedule(step) for step in (1, 10, 40)]


def test_the_warm_up_is_a_share_of_the_run() -> None:
    """A fixed number of steps was longer than a whole run on a small table."""

    def peak(**options: object) -> int:
        config = tiny_config(schedule="cosine", **{"warmup_steps": None, **options})
        rate = make_schedule(config, d_model=8, total_steps=200)
        return max(range(1, 201), key=rate)

    assert [peak(), peak(warmup=0.25), peak(warmup=1.0), peak(warmup=0.0)] == [20, 50, 200, 1]
    assert peak(warmup=0.25, warmup_steps=7) == 7
