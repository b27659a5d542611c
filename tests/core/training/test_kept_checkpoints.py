"""Which weights of a run are kept: those of the best epoch, or the mean of several."""

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor

from core.errors import CheckpointError, UserError
from core.storage.checkpoint import WEIGHTS_FILE, load_tensors, load_weights, save_tensors
from core.training.state import STATE_FILE, STATE_FOLDER
from tests.core.training.tiny_runs import Pairs, Scripted, run_fit, same, tiny_model, weights_of

# Epochs of three steps: what is kept is decided by the epoch.
SHORT = Pairs(batches=3)
fit_short = partial(run_fit, data=SHORT)


def assert_mean(average: dict[str, Tensor], kept: Sequence[dict[str, Tensor]]) -> None:
    for name, tensor in average.items():
        mean = torch.stack([weights[name] for weights in kept]).double().mean(dim=0)
        torch.testing.assert_close(tensor, mean.float(), atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize(
    ("metric", "values", "best"),
    [
        ("val_loss", [3.0, 1.0, 2.0, 1.5], 2),
        ("perplexity", [3.0, 4.0, 2.0, 2.5], 3),
        ("val_accuracy", [0.1, 0.5, 0.4, 0.5], 2),
        ("bleu", [math.nan, 1.0, math.nan, 0.5], 2),
    ],
)
def test_the_best_epochs_weights_are_kept(
    tmp_path: Path, metric: str, values: list[float], best: int
) -> None:
    """On disk and in the model; of two equal epochs the earlier."""
    model = tiny_model()
    validate = Scripted(model, values, metric)
    state = fit_short(model, tmp_path, validate=validate, metric=metric, epochs=4, average=0)
    assert (state.best_epoch, state.best) == (best, values[best - 1])
    assert [path.name for path in (tmp_path / STATE_FOLDER).iterdir()] == [STATE_FILE]
    assert same(weights_of(model), validate.seen[best - 1])
    other = tiny_model(2)
    load_weights(tmp_path / WEIGHTS_FILE, other)
    assert same(weights_of(other), validate.seen[best - 1])


@pytest.mark.parametrize(("patience", "epochs"), [(0, 7), (1, 3), (2, 6), (3, 7)])
def test_patience(tmp_path: Path, patience: int, epochs: int) -> None:
    """Two better epochs, a worse one, a better one, three worse ones: after how many it ends."""
    model = tiny_model()
    validate = Scripted(model, [3.0, 2.0, 2.5, 1.9, 2.0, 2.1, 2.2], "val_loss")
    state = fit_short(model, tmp_path, validate=validate, epochs=7, patience=patience, average=0)
    assert len(state.history) == epochs


@pytest.mark.parametrize(
    ("metric", "values", "averaged", "of_average", "is_kept"),
    [
        ("val_loss", [1.0, 3.0, 2.0], [1, 3], 0.5, True),
        ("val_loss", [1.0, 3.0, 2.0], [1, 3], math.nan, False),
        ("bleu", [1.0, 3.0, 2.0], [2, 3], 2.5, False),
        ("bleu", [2.0, 3.0, 2.0], [1, 2], 3.5, True),
        ("bleu", [math.nan, 3.0, 2.0], [2, 3], 3.5, True),
    ],
)
def test_the_average_of_the_best_is_kept_only_if_it_is_better(
    tmp_path: Path,
    metric: str,
    values: list[float],
    averaged: list[int],
    of_average: float,
    is_kept: bool,
) -> None:
    model = tiny_model()
    validate = Scripted(model, [*values, of_average], metric)
    state = fit_short(model, tmp_path, validate=validate, metric=metric, average=2)
    assert len(validate.seen) == 4
    *epochs, average = validate.seen
    assert_mean(average, [epochs[e - 1] for e in averaged])
    assert state.averaged == (averaged if is_kept else [])
    assert same(weights_of(model), average if is_kept else epochs[state.best_epoch - 1])
    kept = {path.name for path in (tmp_path / STATE_FOLDER).iterdir()}
    assert kept == {STATE_FILE, *(f"epoch-{e:03d}.safetensors" for e in averaged)}


@pytest.mark.parametrize(
    ("of_best", "of_average", "is_kept"), [(7.0, 8.0, True), (8.0, 7.0, False)]
)
def test_the_average_is_judged_as_the_model_will_be_used(
    tmp_path: Path, of_best: float, of_average: float, is_kept: bool
) -> None:
    """Greedy BLEU once rejected an average that was better with the beam that users search with.

    The validation would decide the other way in both cases.
    """
    model = tiny_model()
    validate = Scripted(model, [1.0, 3.0, 2.0, 1.0], "val_bleu")
    measured: list[dict[str, Tensor]] = []

    def measure_final() -> float:
        measured.append(weights_of(model))
        return of_best if len(measured) == 1 else of_average

    state = run_fit(
        model,
        tmp_path,
        data=SHORT,
        validate=validate,
        metric="val_bleu",
        epochs=4,
        average=2,
        measure_final=measure_final,
    )
    best, average = measured
    assert same(best, validate.seen[1])
    assert not same(average, best)
    assert state.averaged == ([2, 3] if is_kept else [])
    assert same(weights_of(model), average if is_kept else best)


@pytest.mark.parametrize("is_kept", [True, False])
def test_the_average_of_the_last_epochs(tmp_path: Path, is_kept: bool) -> None:
    """Vaswani et al. (2017), section 6.1: whatever they are worth by themselves. The best epoch is
    kept beside them, to be the model where their mean is no better."""
    model = tiny_model()
    validate = Scripted(model, [1.0, 3.0, 2.0, 4.0, 0.5 if is_kept else 1.5], "val_loss")
    state = fit_short(model, tmp_path, validate=validate, average=2, average_of="last", epochs=4)
    *epochs, average = validate.seen
    assert_mean(average, epochs[2:])
    assert state.averaged == ([3, 4] if is_kept else [])
    assert same(weights_of(model), average if is_kept else epochs[0])
    kept = {path.name for path in (tmp_path / STATE_FOLDER).glob("epoch-*")}
    assert kept == {f"epoch-{e:03d}.safetensors" for e in (1, 3, 4)}


@pytest.mark.parametrize("average_of", ["best", "last"])
def test_an_average_that_was_kept_is_not_mistaken_for_the_best_epoch(
    tmp_path: Path, average_of: str
) -> None:
    """A run of three epochs ends with an average, and goes on. With no better epoch and no better
    average after it, the model used to stay that old average, called the best epoch's weights."""
    options = {"average": 2, "average_of": average_of}
    for epochs, of_average in ((3, 0.5), (4, 1.5)):
        model = tiny_model()
        values = [[2.0, 1.0, 3.0], [3.0]][epochs - 3]
        validate = Scripted(model, [*values, of_average], "val_loss")
        state = run_fit(
            model,
            tmp_path,
            data=SHORT,
            validate=validate,
            epochs=epochs,
            resume=epochs > 3,
            **options,
        )
        assert bool(state.averaged) == (epochs == 3)
    straight = tiny_model()
    validate = Scripted(straight, [2.0, 1.0, 3.0, 3.0, 1.5], "val_loss")
    run_fit(straight, tmp_path / "straight", data=SHORT, validate=validate, epochs=4, **options)
    assert same(weights_of(model), weights_of(straight))
    files = [load_tensors(folder / WEIGHTS_FILE) for folder in (tmp_path, tmp_path / "straight")]
    assert same(*files)


def test_the_best_epoch_of_a_run_without_averages_is_measured_with_its_own_weights(
    tmp_path: Path,
) -> None:
    """``train.average`` was raised on --resume: the weights of the last epoch were measured."""
    model, seen = tiny_model(), list[dict[str, Tensor]]()
    first = Scripted(model, [3.0, 1.0, 2.0], "val_loss")
    fit_short(model, tmp_path, validate=first, epochs=3, average=0)
    then = {"validate": Scripted(model, [2.5, 2.6], "val_loss"), "epochs": 5, "average": 2}
    measure = lambda: seen.append(weights_of(model)) or len(seen)  # noqa: E731
    assert fit_short(model, tmp_path, **then, resume=True, measure_final=measure).best_epoch == 2
    assert same(seen[0], first.seen[1])


def test_a_run_whose_metric_was_never_a_number_has_no_model(tmp_path: Path) -> None:
    model = tiny_model()
    with pytest.raises(UserError, match="no epoch had a val_loss that is a number"):
        fit_short(model, tmp_path, validate=Scripted(model, [math.nan] * 3, "val_loss"))


def test_an_ended_run_whose_weights_lack_a_tensor_is_refused(tmp_path: Path) -> None:
    run_fit(tiny_model(), tmp_path, data=SHORT, average=0)
    tensors = load_tensors(tmp_path / WEIGHTS_FILE)
    del tensors["generator.bias"]
    save_tensors(tmp_path / WEIGHTS_FILE, tensors)
    with pytest.raises(CheckpointError, match=r"model\.safetensors: .* missing .*generator\.bias"):
        run_fit(tiny_model(), tmp_path, data=SHORT, average=0, resume=True)


def test_half_precision_on_disk_is_what_the_model_ends_with(tmp_path: Path) -> None:
    """What is measured after training is what others will load."""
    model = tiny_model()
    fit_short(model, tmp_path, weights_on_disk="fp16")
    for name, tensor in load_tensors(tmp_path / WEIGHTS_FILE).items():
        assert tensor.dtype == torch.float16
        assert torch.equal(model.state_dict()[name], tensor.float())
