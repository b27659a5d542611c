"""Devices by name, and the number of threads."""

import os
from pathlib import Path

import pytest
import torch

from core import device as device_module
from core.device import choose_device, free_cores, use_threads
from core.errors import UserError
from tests.core.training.tiny_runs import CPU


def test_devices_by_name() -> None:
    assert choose_device("cpu") == CPU
    assert choose_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")


@pytest.mark.parametrize("name", ["gpu", "", "meta", "mps", "cuda:x", "cpu:zero", None])
def test_what_is_no_device(name: str) -> None:
    with pytest.raises(UserError, match="must be auto, cpu, cuda or cuda:N"):
        choose_device(name)


def test_a_gpu_that_is_not_there() -> None:
    with pytest.raises(UserError, match="device cuda:99: this machine has"):
        choose_device("cuda:99")


@pytest.mark.parametrize("name", ["auto", "cuda:0", "cpu"])
def test_a_gpu_has_tf32_and_no_attention_of_cudnn(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[object] = []
    environment: dict[str, str] = {}
    monkeypatch.setattr(os, "environ", environment)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.backends.cuda, "enable_cudnn_sdp", calls.append)
    monkeypatch.setattr(torch, "set_float32_matmul_precision", calls.append)
    choose_device(name)
    assert calls == ([] if name == "cpu" else [False, "high"])
    variable = "PYTORCH_CUDA_ALLOC_CONF"
    assert environment == ({} if name == "cpu" else {variable: "expandable_segments:True"})
    environment.clear()
    environment["PYTORCH_ALLOC_CONF"] = "max_split_size_mb:64"
    choose_device(name)
    assert environment == {"PYTORCH_ALLOC_CONF": "max_split_size_mb:64"}


def test_each_process_of_a_machine_takes_its_own_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(os, "environ", {})
    monkeypatch.setattr(torch.backends.cuda, "enable_cudnn_sdp", lambda enabled: None)
    monkeypatch.setattr(torch, "set_float32_matmul_precision", lambda precision: None)
    found = [str(choose_device("auto", local_rank=rank)) for rank in (0, 1)]
    assert found == ["cuda:0", "cuda:1"]
    assert str(choose_device("cuda", local_rank=1)) == "cuda:1"
    assert [str(choose_device(name, local_rank=3)) for name in ("cpu", "cuda:0")] == [
        "cpu",
        "cuda:0",
    ]
    for name in ("auto", "cuda"):
        with pytest.raises(
            UserError, match="cuda:2: this machine has 2 usable GPUs; start one proc"
        ):
            choose_device(name, local_rank=2)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(UserError, match="cuda: this machine has 0 usable GPUs; use cpu"):
        choose_device("cuda")


# Threads


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine of eight cores, of which nobody uses any; its files are in a folder."""
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    (tmp_path / "loadavg").write_text("0.10 0.20 0.30 1/100 4711\n")
    monkeypatch.setattr(device_module, "_LOAD_FILE", tmp_path / "loadavg")
    monkeypatch.setattr(device_module, "_QUOTA_FILE", tmp_path / "cpu.max")
    return tmp_path


@pytest.mark.parametrize(
    ("load", "cores"),
    [
        ("0.10 0.20 0.30 1/100 4711", 8),
        ("3.10 1.20 0.30 4/100 4711", 5),
        ("7.90 1.20 0.30 9/100 4711", 1),
        ("99.0 99.0 99.0 99/100 4711", 1),
        ("7.90 7.90 7.90 1/100 4711", 8),  # a run that has just ended
        ("0.10 0.20 0.30 8/100 4711", 8),  # a moment, no load
        ("nonsense", 8),
    ],
)
def test_cores_that_other_processes_use_are_not_free(machine: Path, load: str, cores: int) -> None:
    """On a busy machine the copy task did not end in ten minutes with two threads, and took ten
    seconds with one: its threads waited for one another in every operation."""
    (machine / "loadavg").write_text(f"{load}\n")
    assert free_cores() == cores


def test_affinity_is_a_limit(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As by ``taskset``; others may be busy on the other cores."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {1, 3})
    assert free_cores() == 2
    (machine / "loadavg").write_text("6.00 6.00 6.00 7/100 4711\n")
    assert free_cores() == 2


@pytest.mark.parametrize(
    ("content", "cores"),
    [("max 100000", 8), ("250000 100000", 2), ("50000 100000", 1), ("rubbish", 8)],
)
def test_the_cgroup_is_a_limit(machine: Path, content: str, cores: int) -> None:
    """As by ``docker run --cpus``: torch takes as many threads as the machine has cores."""
    (machine / "cpu.max").write_text(f"{content}\n")
    assert free_cores() == cores


def test_a_system_without_these_files_uses_its_cores(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (machine / "loadavg").unlink()
    monkeypatch.delattr(os, "sched_getaffinity")
    assert free_cores() == 8


@pytest.mark.parametrize(
    ("count", "variable", "threads"), [(None, None, 1), (3, None, 3), (None, "2", 2)]
)
def test_threads_are_those_asked_for_or_the_free_cores(
    count: int | None, variable: str | None, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_module, "free_cores", lambda: 1)
    monkeypatch.delenv("OMP_NUM_THREADS")
    if variable is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", variable)
    before = torch.get_num_threads()
    torch.set_num_threads(2)  # as torch does itself, by the variable or the number of cores
    try:
        assert use_threads(count) == torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
