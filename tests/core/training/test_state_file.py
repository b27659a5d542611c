"""A training state that was crafted is refused, whatever is wrong with it.

Its checksum is right: whoever writes a file can compute that. A state with an ``exp_avg`` of length
0 or 3 used to corrupt the heap of the process (SIGSEGV, SIGABRT), or to pass; numbers of other
types gave 297 different tracebacks.
"""

import json
import os
import signal
import struct
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from core.errors import CheckpointError, Interrupted, UserError
from core.model.sequence_to_sequence import SequenceToSequence
from core.storage.checkpoint import load_tensors, save_tensors
from core.training.run import Run
from core.training.state import STATE_FILE, STATE_FOLDER, TrainingState
from tests.core.training.tiny_runs import (
    Disturbed,
    run_fit,
    same,
    tiny_config,
    tiny_model,
    weights_of,
)

CPU = torch.device("cpu")
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


def load(tensors: Tensors, folder: Path, model: SequenceToSequence) -> Run:
    """A run that has loaded a state of these tensors."""
    save_tensors(folder / STATE_FOLDER / STATE_FILE, tensors)
    run = Run(model, tiny_config(ema=0.9, log_every=4), folder, CPU, "val_loss")
    run.load()
    return run


def assert_refused(tensors: Tensors, folder: Path, match: str = "") -> None:
    """The error names the file, and neither the model nor the random numbers have changed."""
    model = tiny_model(2)
    before, random_state = weights_of(model), torch.get_rng_state()
    with pytest.raises(CheckpointError, match=rf"state\.safetensors: .*{match}"):
        load(tensors, folder, model)
    assert same(weights_of(model), before)
    assert torch.equal(torch.get_rng_state(), random_state)


def numbers_in(tensors: Tensors) -> dict[str, Any]:
    return json.loads(tensors["numbers"].numpy().tobytes())


def with_numbers(tensors: Tensors, text: str) -> Tensors:
    content = torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8)
    return {**tensors, "numbers": content}


def test_a_sound_state_is_loaded(sound: Tensors, tmp_path: Path) -> None:
    run = load(sound, tmp_path, tiny_model(2))
    assert run.state.step == 11
    run.save()
    again = load_tensors(tmp_path / STATE_FOLDER / STATE_FILE)
    assert same(again, sound)


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
    name = data.draw(st.sampled_from(sorted(sound.keys() - {"numbers"})))
    tensor = sound[name]
    others = [torch.float64, torch.float16, torch.int64, torch.uint8, torch.bool, torch.bfloat16]
    changes: dict[str, Callable[[], Tensors]] = {
        "size": lambda: {**sound, name: resized(tensor, tensor.numel() + 1)},
        "empty": lambda: {**sound, name: resized(tensor, 0)},
        "shape": lambda: {**sound, name: tensor.unsqueeze(0).clone()},
        "type": lambda: {
            **sound,
            name: tensor.to(data.draw(st.sampled_from([d for d in others if d != tensor.dtype]))),
        },
        "name": lambda: {
            **{k: v for k, v in sound.items() if k != name},
            f"{name}{data.draw(st.text(min_size=1, max_size=5))}": tensor,
        },
        "missing": lambda: {k: v for k, v in sound.items() if k != name},
        "unknown": lambda: {**sound, data.draw(st.text(max_size=20)): tensor.clone()},
    }
    changed = changes[data.draw(st.sampled_from(sorted(changes)))]()
    if changed.keys() == sound.keys() and all(
        changed[k].dtype == v.dtype and torch.equal(changed[k], v) for k, v in sound.items()
    ):
        return  # the "unknown" name is that of another tensor
    assert_refused(changed, tmp_path)


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf"), 1e30])
def test_an_impossible_number_of_steps_is_refused(
    sound: Tensors, tmp_path: Path, value: float
) -> None:
    name = "optimizer.generator.bias.step"
    assert_refused({**sound, name: torch.tensor(value)}, tmp_path, "bias.step is")


# Random states


@many
@given(
    left=st.integers(-(2**31), 2**31 - 1),
    is_seeded=st.integers(-1, 2),
    place=st.one_of(st.integers(0, 2**64 - 1), st.integers(0, 1000)),
)
def test_a_crafted_random_state_is_refused(
    sound: Tensors, tmp_path: Path, left: int, is_seeded: int, place: int
) -> None:
    """torch checks each number, but not that they agree: it read beyond the generator's words."""
    content = bytearray(sound["random.cpu"].numpy().tobytes())
    if (left, is_seeded, place) == struct.unpack_from("<iiQ", content, 8):
        return
    is_agreed = is_seeded == 1 and 1 <= left <= 624 and place == 625 - left
    if is_agreed or (left, is_seeded, place) == (1, 1, 0):
        return  # another place in the same stream: a sound state
    struct.pack_into("<iiQ", content, 8, left, is_seeded, place)
    crafted = torch.frombuffer(content, dtype=torch.uint8)
    assert_refused({**sound, "random.cpu": crafted}, tmp_path, "random")


def test_a_place_beyond_the_words_is_refused(sound: Tensors, tmp_path: Path) -> None:
    """Both numbers are in their ranges: 624 words left from the last one on."""
    content = bytearray(sound["random.cpu"].numpy().tobytes())
    struct.pack_into("<iiQ", content, 8, 624, 1, 624)
    crafted = torch.frombuffer(content, dtype=torch.uint8)
    assert_refused({**sound, "random.cpu": crafted}, tmp_path, "random.cpu is not")


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
    place, key = numbers, data.draw(st.sampled_from(["state", "train"]))
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
    model = tiny_model(2)
    with suppress(UserError):
        run_fit(model, tmp_path, resume=True, ema=0.9, average=0, log_every=4, epochs=2)


@pytest.mark.parametrize(
    "change",
    [
        {"position": -1},
        {"position": True},
        {"position": 3.0},
        {"position": 2**60},
        {"epoch": 0},
        {"epoch_steps": 12},
        {"loss_count": 0},
        {"loss_sum": float("nan")},
        {"seconds": -1.0},
        {"seconds": float("inf")},
        {"learning_rate": "0.1"},
        {"best": None},
        {"best_epoch": 7},
        {"history": []},
        {"history": [{}]},
        {"candidates": [[1.0, 5]]},
        {"candidates": [[float("nan"), 1]]},
        {"averaged": [0]},
        {"logged": [0.0, 10**6, 0.0, 0, 0, 0, 0.0]},
        {"logged": [1]},
        {"monitor": {"loss": {"mean": 1.0}}},
        {"monitor": {"loss": {"mean": 1.0, "lowest": None}}},
        {"course": {}, "position": None},
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
    "text",
    [" ", "{", "[]", "null", "1" * 5000, "[" * 100_000, '{"state": {}, "train": 1}', "\x00"],
    ids=len,
)
def test_numbers_that_are_no_json_are_refused(sound: Tensors, tmp_path: Path, text: str) -> None:
    assert_refused(with_numbers(sound, text), tmp_path, "not a training state")


@pytest.mark.parametrize("value", ["1", None, [1], 1.0, True])
def test_fixed_settings_of_another_type_are_refused(
    sound: Tensors, tmp_path: Path, value: object
) -> None:
    numbers = numbers_in(sound)
    numbers["train"]["seed"] = value
    assert_refused(with_numbers(sound, json.dumps(numbers)), tmp_path, "not a training state")


def test_a_position_beyond_the_epoch_is_refused(sound: Tensors, tmp_path: Path) -> None:
    """The corpus has become smaller, or the number was crafted: the epoch ended in a division by
    zero."""
    numbers = numbers_in(sound)
    numbers["state"].update(position=9, epoch_steps=3)
    tensors = with_numbers(sound, json.dumps(numbers))
    save_tensors(tmp_path / STATE_FOLDER / STATE_FILE, tensors)
    with pytest.raises(CheckpointError, match="after batch 9 of epoch 2, which has 8 batches"):
        run_fit(tiny_model(), tmp_path, resume=True, ema=0.9)


def test_a_state_survives_json() -> None:
    state = TrainingState()
    mapping = json.loads(json.dumps(vars(state), default=vars))
    assert TrainingState.from_mapping(mapping) == state
