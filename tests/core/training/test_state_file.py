"""A training state that was crafted is refused, whatever is wrong with it.

Its checksum is right: whoever writes a file can compute that. A state with an ``exp_avg`` of length
0 or 3 used to corrupt the heap of the process (SIGSEGV, SIGABRT), or to pass; numbers of other
types gave 297 different tracebacks.
"""

import json
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from core.config import from_mapping
from core.errors import CheckpointError, Interrupted, UserError
from core.storage.checkpoint import load_tensors, save_tensors
from core.training.state import STATE_FILE, STATE_FOLDER, Candidate, CurveRow, TrainingState
from tests.core.training.tiny_runs import Disturbed, run_fit, same, tiny_model, weights_of

Tensors = dict[str, Tensor]

# Every example is a file; hypothesis may reuse the folder for all of them.
many = settings(
    max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True
)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Tensors:
    """The tensors of a run that was stopped in its second epoch, with an average of the weights."""
    folder = tmp_path_factory.mktemp("sound")
    with pytest.raises(Interrupted):
        stop = partial(os.kill, os.getpid(), signal.SIGTERM)
        run_fit(tiny_model(), folder, data=Disturbed(11, stop), ema=0.9, log_every=4)
    return load_tensors(folder / STATE_FOLDER / STATE_FILE)


def assert_refused(tensors: Tensors, folder: Path, match: str = "") -> None:
    """The error names the file, and the model has not changed."""
    save_tensors(folder / STATE_FOLDER / STATE_FILE, tensors)
    model = tiny_model(2)
    before = weights_of(model)
    with pytest.raises(CheckpointError, match=rf"state\.safetensors: .*{match}"):
        run_fit(model, folder, resume=True, ema=0.9, log_every=4)
    assert same(weights_of(model), before)


def numbers_in(tensors: Tensors) -> dict[str, Any]:
    return json.loads(tensors["numbers"].numpy().tobytes())


def with_numbers(tensors: Tensors, text: str) -> Tensors:
    content = torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8)
    return {**tensors, "numbers": content}


# Tensors


def resized(tensor: Tensor, size: int) -> Tensor:
    return torch.ones(size, dtype=tensor.dtype)


@pytest.mark.parametrize("slot", ["exp_avg", "exp_avg_sq", "step"])
@pytest.mark.parametrize("size", [0, 3])
def test_a_moment_of_another_size_is_refused(
    sound: Tensors, tmp_path: Path, slot: str, size: int
) -> None:
    """The fused optimizer trusts the size, and wrote beyond the end of the moment."""
    name = f"optimizer.generator.bias.{slot}"
    assert_refused({**sound, name: resized(sound[name], size)}, tmp_path, "generator.bias")


@many
@given(data=st.data())
def test_a_changed_tensor_is_refused(sound: Tensors, tmp_path: Path, data: st.DataObject) -> None:
    """Another shape, another type, another name, or none at all."""
    name = data.draw(st.sampled_from(sorted(sound.keys() - {"numbers", "ema.n_averaged"})))
    tensor = sound[name]
    others = [torch.float64, torch.float16, torch.int64, torch.uint8, torch.bool, torch.bfloat16]
    without = {k: v for k, v in sound.items() if k != name}
    changes: dict[str, Callable[[], Tensors]] = {
        "size": lambda: {**sound, name: resized(tensor, tensor.numel() + 1)},
        "shape": lambda: {**sound, name: tensor.unsqueeze(0).clone()},
        "type": lambda: {**sound, name: tensor.to(data.draw(st.sampled_from(others)))},
        "name": lambda: {**without, f"{name}{data.draw(st.text(min_size=1))}": tensor},
        "missing": lambda: without,
    }
    assert_refused(changes[data.draw(st.sampled_from(sorted(changes)))](), tmp_path)


def test_another_models_state_is_refused(sound: Tensors, tmp_path: Path) -> None:
    name = "model.generator.bias"
    changed = {**sound, name: torch.cat([sound[name], torch.zeros(1)])}
    message = r"not the weights of this model: model.generator.bias is .*\[15\], not .*\[14\]"
    assert_refused(changed, tmp_path, message)


def test_a_state_of_version_1_says_how_to_start_again(sound: Tensors, tmp_path: Path) -> None:
    """It has the state of a generator, and random numbers now follow from the step."""
    assert_refused(
        {**sound, "random.cpu": torch.get_rng_state()}, tmp_path, "start again with init="
    )


# Numbers

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from([2**63, -(2**63), 10**400, 2**53 + 1, -1, 0, 1])
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)


@many
@given(data=st.data())
def test_changed_numbers_are_refused_or_harmless(
    sound: Tensors, tmp_path: Path, data: st.DataObject
) -> None:
    """Any value in any place: the state is refused, or the run continues to its end or to an error
    that tells the user what is wrong."""
    numbers = numbers_in(sound)
    place, key = numbers, "state"
    while data.draw(st.booleans()):
        inner = place[key]
        if not isinstance(inner, dict | list) or not inner:
            break
        place = inner
        keys = sorted(inner) if isinstance(inner, dict) else list(range(len(inner)))
        key = data.draw(st.sampled_from(keys))
    place[key] = data.draw(json_values)
    tensors = with_numbers(sound, json.dumps(numbers))
    save_tensors(tmp_path / STATE_FOLDER / STATE_FILE, tensors)
    with suppress(UserError):
        run_fit(tiny_model(2), tmp_path, resume=True, ema=0.9, average=0, log_every=4, epochs=2)


@pytest.mark.parametrize(
    "change",
    [
        {"momentum": 1.0},
        {"position": -1},
        {"position": True},
        {"position": 3.5},
        {"epoch": 0},
        {"sums": {"seconds": float("inf")}},
        {"learning_rate": "0.1"},
        {"history": [{"loss": 1.0}]},
        {"candidates": [[1.0, 5]]},
        {"averaged": ["1"]},
    ],
    ids=repr,
)
def test_impossible_numbers_are_refused(
    sound: Tensors, tmp_path: Path, change: dict[str, Any]
) -> None:
    numbers = numbers_in(sound)
    numbers["state"].update(change)
    assert_refused(with_numbers(sound, json.dumps(numbers)), tmp_path, "not a training state")


@pytest.mark.parametrize(
    "text", [" ", "[]", "null", "1" * 5000, "[" * 100_000, '{"state": 1}', '{"state": []}'], ids=len
)
def test_numbers_that_are_no_json_are_refused(sound: Tensors, tmp_path: Path, text: str) -> None:
    assert_refused(with_numbers(sound, text), tmp_path, "not a training state")


def test_a_state_survives_json() -> None:
    infinite = float("inf")
    row = CurveRow(epoch=1, step=3, metrics={"perplexity": infinite}, seconds=2.5)
    candidates = [Candidate(1.5, 1), Candidate(infinite, 2)]
    state = TrainingState(epoch=2, best=-infinite, history=[row], candidates=candidates)
    state.sums.loss, state.conditions["torch"] = 0.1, "2.13.0"
    assert from_mapping(TrainingState, json.loads(json.dumps(asdict(state)))) == state
