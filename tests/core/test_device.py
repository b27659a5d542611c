"""Devices and precisions by name."""

import os

import pytest
import torch

from tests.core.training.tiny_runs import CPU
from transformer_suite.core.device import autocast, choose_device, device_of_rank
from transformer_suite.core.errors import UserError


def test_devices_by_name() -> None:
    assert choose_device("cpu") == CPU
    assert choose_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")


@pytest.mark.parametrize("name", ["gpu", "", "meta", "mps", "cuda:x", "cpu:zero"])
def test_what_is_no_device(name: str) -> None:
    with pytest.raises(UserError, match="must be auto, cpu, cuda or cuda:N"):
        choose_device(name)


def test_a_gpu_that_is_not_there() -> None:
    with pytest.raises(UserError, match="--device cuda:99: this machine has"):
        choose_device("cuda:99")


def test_each_process_of_a_machine_takes_its_own_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert [device_of_rank("auto", rank) for rank in (0, 1)] == ["cuda:0", "cuda:1"]
    assert device_of_rank("cuda", 1) == "cuda:1"
    assert [device_of_rank(name, 3) for name in ("cpu", "cuda:0")] == ["cpu", "cuda:0"]
    for name in ("auto", "cuda"):
        with pytest.raises(UserError, match=f"--device {name}: 3 or more processes, but 2 usable"):
            device_of_rank(name, 2)


def test_processes_without_a_gpu_take_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert device_of_rank("auto", 5) == "cpu"
    with pytest.raises(UserError, match="0 usable GPUs"):
        device_of_rank("cuda", 0)


def test_precisions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LRU_CACHE_CAPACITY", "77")
    monkeypatch.delenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY", raising=False)
    product = torch.ones(2, 2)
    with autocast("fp32", CPU):
        assert (product @ product).dtype == torch.float32
    with autocast("auto", CPU):
        assert (product @ product).dtype == torch.float32
    assert "ONEDNN_PRIMITIVE_CACHE_CAPACITY" not in os.environ
    with autocast("bf16", CPU):
        assert (product @ product).dtype == torch.bfloat16
    # A bound on the kernels that are kept, unless the user has set one.
    assert os.environ["ONEDNN_PRIMITIVE_CACHE_CAPACITY"] == "32"
    assert os.environ["LRU_CACHE_CAPACITY"] == "77"
