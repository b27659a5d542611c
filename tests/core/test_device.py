"""Devices and precisions by name."""

import os

import pytest
import torch
from tiny_runs import CPU

from core.device import autocast, choose_device
from core.errors import UserError


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
