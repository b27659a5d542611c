"""``train.precision=auto``: bf16 where the device computes in it."""

import math
import os
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch

from core.training.gradient import autocast, precision_for
from core.training.state import TrainingState
from core.training.step import TrainingStep
from tests.core.training.tiny_runs import (
    CPU,
    Crash,
    Disturbed,
    Pairs,
    crash,
    loss_of,
    mean_loss,
    run_fit,
    same,
    tiny_config,
    tiny_model,
    weights_of,
)


@pytest.mark.parametrize(
    ("capabilities", "expected"),
    [
        ({"avx512_f": True, "amx_bf16": False}, "fp32"),
        ({"avx512_f": True, "amx_bf16": True}, "bf16"),
        ({"architecture": "arm64 with bf16"}, "fp32"),
    ],
)
def test_a_cpu_with_bf16_instructions(
    monkeypatch: pytest.MonkeyPatch, capabilities: dict[str, Any], expected: str
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities, raising=False)
    assert precision_for(CPU) == expected
    assert [precision_for(CPU, wanted) for wanted in ("fp32", "bf16")] == ["fp32", "bf16"]
    monkeypatch.delattr(torch.cpu, "get_capabilities")  # an older PyTorch
    assert precision_for(CPU) == "fp32"


def test_autocast(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound on the kernels that are kept, unless the user has set one."""
    monkeypatch.setenv("LRU_CACHE_CAPACITY", "77")
    monkeypatch.delenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY", raising=False)
    product = torch.ones(2, 2)
    with autocast("fp32", CPU):
        assert (product @ product).dtype == torch.float32
    assert "ONEDNN_PRIMITIVE_CACHE_CAPACITY" not in os.environ
    with autocast("bf16", CPU):
        assert (product @ product).dtype == torch.bfloat16
    assert os.environ["ONEDNN_PRIMITIVE_CACHE_CAPACITY"] == "32"
    assert os.environ["LRU_CACHE_CAPACITY"] == "77"


@pytest.mark.parametrize(("has_bf16", "expected"), [(True, "bf16"), (False, "fp16")])
def test_an_older_gpu_trains_in_fp16(
    monkeypatch: pytest.MonkeyPatch, has_bf16: bool, expected: str
) -> None:
    """T4 and V100 trained in emulated bf16, slower than fp32, and GPU 0 was asked about GPU 1."""
    asked: list[object] = []

    def is_supported(including_emulation: bool = True) -> bool:
        return has_bf16 or including_emulation

    monkeypatch.setattr(torch.cuda, "device", lambda gpu: asked.append(gpu) or nullcontext())
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", is_supported)
    gpu = torch.device("cuda:1")
    assert precision_for(gpu) == expected
    assert asked == [gpu]


# fp16, which a CPU has too


def test_a_run_in_fp16_learns_and_is_resumed_to_the_bit(tmp_path: Path) -> None:
    models = [tiny_model(dropout=0.0), tiny_model(99, dropout=0.0)]
    before = mean_loss(models[0], Pairs().plan(1)[0])
    options = {"precision": "fp16", "epochs": 4}
    state = run_fit(models[0], tmp_path / "straight", **options)
    assert state.history[-1].train_loss < 0.9 * before
    with pytest.raises(Crash):
        run_fit(tiny_model(dropout=0.0), tmp_path / "1", data=Disturbed(9, crash), **options)
    resumed = run_fit(models[1], tmp_path / "1", resume=True, **options)
    assert same(*map(weights_of, models))
    assert (resumed.loss_scale, resumed.scaled_steps) == (state.loss_scale, state.scaled_steps)


def test_gradients_beyond_fp16_halve_the_scale_and_leave_the_step_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is doubled again after steps without that; the loss that is reported has no scale."""
    monkeypatch.setattr("core.training.step._STEPS_OF_A_SCALE", 2)
    model, state = tiny_model(dropout=0.0), TrainingState(loss_scale=2.0**60)
    step = TrainingStep(model, tiny_config(precision="fp16"), CPU)
    batch, before = Pairs().batch(Pairs().plan(1)[0]), weights_of(model)
    expected = mean_loss(model, Pairs().plan(1)[0])
    while state.scaled_steps == 0:
        assert same(weights_of(model), before)
        scale = state.loss_scale
        assert step.take(state, [batch], loss_of(model), 0.01) == pytest.approx(expected, rel=1e-2)
    assert 1.0 <= scale == state.loss_scale < 2.0**60
    assert not same(weights_of(model), before)
    assert math.log2(2.0**60 / scale) == state.step - 1
    step.take(state, [batch], loss_of(model), 0.01)
    assert (state.loss_scale, state.scaled_steps) == (2 * scale, 0)
