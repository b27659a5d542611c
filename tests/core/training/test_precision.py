"""``train.precision=auto``: bf16 where the device computes in it."""

import os
from typing import Any

import pytest
import torch

from core.training.precision import autocast, precision_for
from tests.core.training.tiny_runs import CPU


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
