"""``train.precision=auto`` on a CPU: measured once, and then a run like any other."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from core.training import precision
from core.training.precision import choose_precision
from tests.core.training.tiny_runs import Disturbed, Pairs, loss_of, run_fit, tiny_model

Timed = list[str]


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> Timed:
    """The precisions that are measured, on a CPU that is twice as fast in bf16."""
    return measured_as(monkeypatch, bf16=0.5, fp32=1.0)


def measured_as(monkeypatch: pytest.MonkeyPatch, **seconds: float) -> Timed:
    timed: Timed = []

    def fake(name: str, *_: object) -> float:
        timed.append(name)
        return seconds[name]

    monkeypatch.setattr(precision, "has_bf16_arithmetic", lambda: True)
    monkeypatch.setattr(precision, "_seconds", fake)
    return timed


def weights(folder: Path, **options: Any) -> list[Tensor]:
    model = tiny_model()
    run_fit(model, folder, epochs=2, **options)
    return [weight.detach() for weight in model.parameters()]


def test_a_run_in_bf16_is_the_run_that_asked_for_bf16(
    tmp_path: Path, timed: Timed, capsys: pytest.CaptureFixture[str]
) -> None:
    """The measurement changes neither the random numbers nor the gradients."""
    chosen = weights(tmp_path / "auto", precision="auto")
    assert set(timed) == {"bf16", "fp32"}
    assert "train.precision=auto: bf16. A batch takes 0.5 s in bf16, 1 s" in capsys.readouterr().err
    timed.clear()
    asked_for = weights(tmp_path / "bf16", precision="bf16")
    assert timed == []
    assert all(map(torch.equal, chosen, asked_for))
    other = weights(tmp_path / "fp32", precision="fp32")
    assert not all(map(torch.equal, chosen, other))


def test_a_resumed_run_does_not_measure_again(
    tmp_path: Path, timed: Timed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On another CPU the measurement could decide otherwise, in the middle of the run."""
    whole = weights(tmp_path / "whole", precision="auto")

    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        weights(tmp_path / "stopped", precision="auto", data=Disturbed(6, stop))
    timed = measured_as(monkeypatch, bf16=9.0, fp32=1.0)
    resumed = weights(tmp_path / "stopped", precision="auto", resume=True)
    assert timed == []
    assert all(map(torch.equal, resumed, whole))
    measured_as(monkeypatch, bf16=0.97, fp32=1.0)  # about as fast is not faster
    chosen = weights(tmp_path / "auto", precision="auto")
    assert all(map(torch.equal, chosen, weights(tmp_path / "fp32", precision="fp32")))


def test_bf16_arithmetic_is_one_of_the_capabilities(monkeypatch: pytest.MonkeyPatch) -> None:
    have = {"avx512_f": True, "amx_bf16": False}
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: have, raising=False)
    assert not precision.has_bf16_arithmetic()
    have["amx_bf16"] = True
    assert precision.has_bf16_arithmetic()
    monkeypatch.delattr(torch.cpu, "get_capabilities")  # an older PyTorch
    assert not precision.has_bf16_arithmetic()


def test_the_measurement_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """In both precisions, without a trace in the model or in the random numbers."""
    monkeypatch.setattr(precision, "has_bf16_arithmetic", lambda: True)
    model = tiny_model().train()
    types, of_model = set(), loss_of(model)
    layer = model.transformer.encoder.layers[0].linear1
    layer.register_forward_hook(lambda module, inputs, out: types.add(out.dtype))
    before = torch.get_rng_state()
    data = Pairs()
    batch = data.batch(data.plan(1)[0])
    assert choose_precision(of_model, list(model.parameters()), batch) in ("bf16", "fp32")
    assert types == {torch.bfloat16, torch.float32}
    assert torch.equal(torch.get_rng_state(), before)
    assert all(weight.grad is None for weight in model.parameters())
    assert choose_precision(of_model, list(model.parameters()), None) == "fp32"
    monkeypatch.setattr(precision, "has_bf16_arithmetic", lambda: False)
    types.clear()
    assert choose_precision(of_model, list(model.parameters()), batch) == "fp32"
    assert not types
