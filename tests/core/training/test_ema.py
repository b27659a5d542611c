"""The moving average of the weights, against its recurrence written out in double precision."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from core.model.sequence_to_sequence import SequenceToSequence
from core.storage.checkpoint import WEIGHTS_FILE, load_tensors
from core.training.gradient import LossFunction
from core.training.state import STATE_FILE, STATE_FOLDER, TrainingState
from core.training.step import TrainingStep, make_ema
from tests.core.training.tiny_runs import (
    CPU,
    Crash,
    Disturbed,
    Pairs,
    Scripted,
    crash,
    loss_of,
    run_fit,
    same,
    tiny_config,
    tiny_model,
    weights_of,
)

STATE = Path(STATE_FOLDER) / STATE_FILE


def by_hand(weights: list[Tensor], decay: float) -> Tensor:
    """The average after the last of ``weights``, which are those after each step."""
    average = weights[0].double()
    for step, weight in enumerate(weights[1:], start=1):
        d = min(decay, (1 + step) / (10 + step))
        average = d * average + (1 - d) * weight.double()
    return average


@pytest.mark.parametrize("decay", [0.15, 0.5, 0.999])
def test_the_average_is_its_recurrence(decay: float) -> None:
    """Below the first 2/11, within the warm-up of the decay, and beyond it."""
    torch.manual_seed(1)
    layer = nn.Linear(3, 5, bias=False)
    ema, weights = make_ema(layer, decay), []
    for _ in range(30):
        with torch.no_grad():
            layer.weight.normal_()
        ema.update_parameters(layer)
        weights.append(layer.weight.detach().clone())
    torch.testing.assert_close(ema.module.weight.detach().double(), by_hand(weights, decay))
    assert torch.equal(layer.weight, weights[-1])


def test_it_stands_in_for_the_weights_and_goes_again() -> None:
    """Also if the validation fails; tied weights stay tied. After one step, it is the weights."""
    model = tiny_model()
    step = TrainingStep(model, tiny_config(ema=0.5), CPU)
    batch = Pairs().batch(Pairs().plan(1)[0])
    step.take(TrainingState(), [batch], loss_of(model), 0.1)
    before = weights_of(model)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1.0)
    with pytest.raises(ZeroDivisionError), step.averages_in_place():
        assert same(weights_of(model), before)
        raise ZeroDivisionError
    assert torch.equal(model.generator.bias, before["generator.bias"] + 1.0)
    assert model.generator.weight is model.src_embedding.embedding.weight


def noted(model: SequenceToSequence, steps: list[dict[str, Tensor]]) -> LossFunction:
    """The usual loss, which adds the weights before each step to ``steps``."""

    def loss(batch: tuple[Tensor, ...]) -> tuple[Tensor, int]:
        steps.append(weights_of(model))
        return loss_of(model)(batch)

    return loss


def test_what_is_validated_and_kept_is_the_average(tmp_path: Path) -> None:
    """The optimizer continues from the weights, not from their average."""
    model = tiny_model()
    steps: list[dict[str, Tensor]] = []
    validate = Scripted(model, [3.0, 1.0, 2.0], "val_loss")
    loss = noted(model, steps)
    run_fit(model, tmp_path / "ema", validate=validate, loss=loss, ema=0.8, average=0)
    plain = tiny_model()
    run_fit(plain, tmp_path / "plain", average=0, label_smoothing=0.0)
    tensors, others = (load_tensors(tmp_path / name / STATE) for name in ("ema", "plain"))
    assert not any(name.startswith("ema.") for name in others)
    trained = {name.removeprefix("model.") for name in tensors if name.startswith("model.")}
    for name in trained:
        assert torch.equal(tensors[f"model.{name}"], others[f"model.{name}"])
        weights = [step[name] for step in steps[1:]]
        for epoch, seen in enumerate(validate.seen[:2], start=1):
            expected = by_hand(weights[: 8 * epoch], 0.8)
            torch.testing.assert_close(seen[name].double(), expected, atol=1e-6, rtol=1e-5)
    kept = load_tensors(tmp_path / "ema" / WEIGHTS_FILE)
    assert same(kept, {name: validate.seen[1][name] for name in kept})
    assert same(weights_of(model), validate.seen[1])


@pytest.mark.parametrize("at", [6, 9])
def test_a_resumed_run_has_the_average_it_would_have_had(tmp_path: Path, at: int) -> None:
    """In the middle of an epoch and after its end: to the bit."""
    models = [tiny_model(), tiny_model(99)]
    run_fit(models[0], tmp_path / "straight", ema=0.9)
    with pytest.raises(Crash):
        run_fit(tiny_model(), tmp_path / "parts", data=Disturbed(at, crash), ema=0.9)
    run_fit(models[1], tmp_path / "parts", ema=0.9, resume=True)
    assert same(*map(weights_of, models))
    states = [load_tensors(tmp_path / name / STATE) for name in ("straight", "parts")]
    for tensors in states:
        del tensors["numbers"]  # they know times
    assert same(*states)
    assert states[0]["ema.n_averaged"] == 24
