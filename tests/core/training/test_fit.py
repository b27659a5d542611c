"""The training loop from seed to curve: the same run twice, what stops it, what it reports."""

import csv
import math
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from threading import get_ident

import pytest
import torch
from torch import Tensor

from core.errors import UserError
from core.storage.checkpoint import WEIGHTS_FILE, load_tensors, load_weights
from core.training import schedule
from core.training.fit import FitOptions, Objective, Trainer
from core.training.state import HISTORY_FILE, STATE_FILE, STATE_FOLDER
from tests.core.training.tiny_runs import (
    CPU,
    PAD,
    Crash,
    Disturbed,
    Pair,
    Pairs,
    crash,
    gradient_of_one_step,
    loss_of,
    mean_loss,
    run_fit,
    same,
    tiny_config,
    tiny_model,
    weights_of,
    without_times,
)

# The same run


def test_same_seed_same_run(tmp_path: Path) -> None:
    """To the bit, with dropout: the weights, the files, and the curve but for its times. Another
    seed drops out other elements."""
    runs = [tiny_model(), tiny_model()]
    states = [run_fit(model, tmp_path / str(i)) for i, model in enumerate(runs)]
    assert same(*map(weights_of, runs))
    assert without_times(states[0]) == without_times(states[1])
    files = [load_tensors(tmp_path / str(i) / WEIGHTS_FILE) for i in range(2)]
    assert same(*files)
    other = tiny_model()
    run_fit(other, tmp_path / "other", seed=2, data=Pairs())  # the same data and initial weights
    assert not same(weights_of(runs[0]), weights_of(other))


# The loop


@pytest.mark.parametrize("where", ["loss", "gradient"])
def test_a_loss_that_is_not_finite_stops_the_run(tmp_path: Path, where: str) -> None:
    """The tenth step, the second of epoch 2. A gradient of NaN under a sound loss used to pass,
    and made every weight NaN."""
    model = tiny_model()
    steps = 0

    def loss(batch: tuple[Tensor, ...]) -> tuple[Tensor, int]:
        nonlocal steps
        steps += 1
        total, count = loss_of(model)(batch)
        if steps == 10:
            zero = 0.0 * model.generator.bias.sum()
            total = total * math.nan if where == "loss" else total + zero.abs().sqrt()
        return total, count

    with pytest.raises(UserError, match=r"at step 10 \(epoch 2, batch 2\).*last good checkpoint"):
        run_fit(model, tmp_path, loss=loss)
    assert all(tensor.isfinite().all() for tensor in model.state_dict().values())
    load_weights(tmp_path / WEIGHTS_FILE, tiny_model())
    assert load_tensors(tmp_path / STATE_FOLDER / STATE_FILE)
    resumed = run_fit(model, tmp_path, resume=True)
    assert resumed.epoch == 4


def test_a_thread_makes_the_next_batches_of_a_gpu_in_pinned_memory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """From the position of a resumed run on; an error comes where the batch is needed."""
    made: list[int] = []
    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    monkeypatch.setattr(Tensor, "pin_memory", lambda ids: made.append(get_ident()) or ids + 100)
    model, data, gpu = tiny_model(), Disturbed(8, crash), torch.device("cuda:1")
    objective = Objective(data=data, loss=loss_of(model), validate=lambda _: {}, metric="val_loss")
    config = tiny_config(accumulate=2)
    trainer = Trainer(model, config, objective, FitOptions(out=tmp_path, device=CPU))
    trainer._options = replace(trainer._options, device=gpu)
    trainer.state.position = 2
    plan = [*data.plan(1), *data.plan(2)][:11]
    steps = trainer._batches(plan)
    for start in (2, 4, 6):
        expected = [Pairs().batch(item) for item in plan[start : start + 2]]
        for batch, right in zip(next(steps), expected, strict=True):
            assert all(map(torch.equal, batch, [ids + 100 for ids in right]))
    with pytest.raises(Crash):
        next(steps)
    assert len({*made} - {get_ident()}) == 1


def test_nothing_to_train_on(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nothing to train on"):
        run_fit(tiny_model(), tmp_path, data=Pairs(batches=0))


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_it_learns(tmp_path: Path, precision: str) -> None:
    """To write six words backwards, a little, in both precisions; the weights stay float32."""
    model = tiny_model(dropout=0.0)
    before = mean_loss(model, Pairs().plan(1)[0])
    types = []

    def loss(batch: tuple[Tensor, ...]) -> tuple[Tensor, int]:
        types.append(model.encode(batch[0]).states.dtype)
        types.append(model.transformer.encoder.layers[0].linear1(torch.ones(8)).dtype)
        return loss_of(model)(batch)

    state = run_fit(model, tmp_path, precision=precision, loss=loss, epochs=6, average=0)
    assert (torch.bfloat16 in types) == (precision == "bf16")
    assert state.history[-1].train_loss < 0.8 * before
    assert {p.dtype for p in model.parameters()} == {torch.float32}


# The curve


def test_the_curve(tmp_path: Path) -> None:
    """With steps too small to matter every number can be had by other means."""
    model = tiny_model(dropout=0.0)
    data = Pairs()
    state = run_fit(
        model,
        tmp_path,
        data=data,
        label_smoothing=0.0,
        learning_rate=1e-12,
        schedule="constant",
        warmup_steps=16,
        epochs=2,
    )
    with (tmp_path / HISTORY_FILE).open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [{k: float(v) for k, v in row.items()} for row in rows] == [
        row.columns() for row in state.history
    ]
    assert list(rows[0]) == [
        "epoch",
        "step",
        "train_loss",
        "val_loss",
        "learning_rate",
        "gradient_norm",
        "tokens_per_second",
        "padding_share",
        "seconds",
    ]
    for number, row in enumerate(state.history, start=1):
        items = data.plan(number)
        ids = torch.cat([x.flatten() for item in items for x in data.batch(item)])
        pairs = [pair for item in items for pair in item]
        norms = [gradient_of_one_step(0.0, [item]).norm().item() for item in items]
        assert (row.epoch, row.step) == (number, 8 * number)
        assert row.train_loss == pytest.approx(mean_loss(model, pairs), rel=1e-5)
        assert row.learning_rate == pytest.approx(1e-12 * number / 2)
        assert row.gradient_norm == pytest.approx(sum(norms) / 8, rel=1e-4)
        assert row.padding_share == pytest.approx((ids == PAD).double().mean().item())
        tokens = row.tokens_per_second * row.seconds
        assert tokens == pytest.approx((ids != PAD).sum().item())


def test_metrics_without_end_are_written_and_read_again(tmp_path: Path) -> None:
    """A perplexity may overflow. The state's JSON used to refuse it, with the epoch lost."""
    validate = lambda: {"val_loss": 1.0, "perplexity": math.inf}  # noqa: E731
    run_fit(tiny_model(), tmp_path, validate=validate, epochs=1)
    state = run_fit(tiny_model(), tmp_path, validate=validate, epochs=2, resume=True)
    assert [row.metrics["perplexity"] for row in state.history] == [math.inf] * 2
    assert (tmp_path / HISTORY_FILE).read_text().count("inf") == 2


def test_the_rate_ends_at_zero_though_epochs_differ_in_length(tmp_path: Path) -> None:
    """The length of the run used to be taken from the current epoch alone: with this last, short
    one its end came in the middle, with the longest epoch's rates still to come."""

    class Uneven(Pairs):
        def plan(self, epoch: int) -> list[list[Pair]]:
            return super().plan(epoch)[: {1: 4, 2: 8, 3: 5}[epoch]]

    state = run_fit(
        tiny_model(), tmp_path, data=Uneven(), schedule="cosine", warmup_steps=2, average=0
    )
    rates = [row.learning_rate for row in state.history]
    assert state.step == 17
    assert rates[0] > rates[1] > 0.0
    assert rates[2] == pytest.approx(0.0, abs=1e-12)
    # Epoch 2 takes the run for 4 + 8 + 8 steps, and ends at the twelfth.
    assert rates[1] == pytest.approx(schedule.cosine(0.01, 2, 20)(12))
