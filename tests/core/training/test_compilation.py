"""Compiled training: the same model by the same names, and a clear word where nothing compiles.

Here torch.compile's front end does its work, and PyTorch's own operators stand for the machine code
that would take a minute to make.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from core.errors import ConfigError, UserError
from core.training import compilation
from core.training.compilation import check_compiler
from tests.core.training.tiny_runs import (
    Pairs,
    assert_alike,
    mean_loss,
    run_fit,
    same,
    tiny_model,
    weights_of,
)


class Backend:
    """A back end that takes each graph as it is, and notes what is compiled and run."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def __call__(self, graph: torch.fx.GraphModule, inputs: object) -> object:
        def run(*arguments: object) -> object:
            self.calls.append("run")
            return graph(*arguments)

        self.calls.append("compile")
        return run


@pytest.fixture(scope="module")
def backend() -> Iterator[Backend]:
    """One for all tests: what one of them has compiled serves the next, which takes seconds."""
    torch._dynamo.reset()
    yield Backend()
    torch._dynamo.reset()


@pytest.fixture
def calls(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is compiled and run during a test."""
    monkeypatch.setattr(compilation, "_BACKEND", backend)
    backend.calls.clear()
    return backend.calls


def test_training_runs_compiled_layers_and_ends_as_it_would_without(
    tmp_path: Path, calls: list[str]
) -> None:
    """Without dropout, whose chances come in another order. Lengths and sizes differ from batch to
    batch: what is compiled serves them all. The files are those of any run."""
    torch._dynamo.reset()  # nothing is compiled yet
    models = [tiny_model(dropout=0.0), tiny_model(dropout=0.0)]
    run_fit(models[0], tmp_path / "plain")
    assert calls == []
    run_fit(models[1], tmp_path / "compiled", compile=True)
    assert calls.count("run") >= 3 * 8
    assert calls.count("compile") <= 12
    assert_alike(weights_of(models[1]), weights_of(models[0]), rtol=1e-4)
    assert models[1].state_dict().keys() == models[0].state_dict().keys()
    ran = calls.count("run")
    with pytest.raises(ZeroDivisionError):
        run_fit(models[1], tmp_path / "failed", compile=True, loss=lambda batch: 1 // 0)
    mean_loss(models[1], Pairs().plan(1)[0])
    assert run_fit(models[1], tmp_path / "compiled", resume=True, epochs=4).step == 32
    assert calls.count("run") == ran  # outside of training, the model itself runs


def test_where_nothing_compiles_the_message_says_what_to_do() -> None:
    with pytest.raises(ConfigError, match=r"^train\.compile compiled steps take longer"):
        check_compiler(torch.device("cpu"))
    if torch.cuda.is_available():
        pytest.skip("a GPU compiles")
    message = r"^train\.compile: nothing can be compiled for cuda here \(.+\); install triton"
    with pytest.raises(UserError, match=message):
        check_compiler(torch.device("cuda"))


def test_layers_that_are_computed_again_give_the_same_weights(tmp_path: Path) -> None:
    """To the bit, with dropout; and no layer computes only once."""
    models, calls = [tiny_model(), tiny_model()], [0, 0]
    for number, model in enumerate(models):

        def count(layer: torch.nn.Module, *_: object, number: int = number) -> None:
            calls[number] += layer.training

        model.transformer.encoder.layers[0].linear1.register_forward_pre_hook(count)
        run_fit(model, tmp_path / str(number), gradient_checkpointing=number == 1)
    assert calls == [24, 48]
    assert same(*map(weights_of, models))
