"""Who a process is among several, and how they are connected."""

import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from core.distributed.world import World, process_group, world_from_environment
from core.errors import ConfigError, UserError
from tests.core.training.tiny_runs import CPU

ROOT = Path(__file__).resolve().parents[3]
TORCHRUN = {
    "RANK": "5",
    "WORLD_SIZE": "8",
    "LOCAL_RANK": "1",
    "MASTER_ADDR": "host",
    "MASTER_PORT": "29500",
}


def test_a_process_on_its_own_has_no_world() -> None:
    """Whatever else a container's environment may hold."""
    assert world_from_environment({}) is None
    assert world_from_environment({"WORLD_SIZE": "1", "MASTER_ADDR": "host"}) is None


def test_torchrun_says_who_a_process_is() -> None:
    world = world_from_environment(TORCHRUN)
    assert world == World(rank=5, size=8, local_rank=1)
    assert not world.is_main
    assert World(rank=0, size=2, local_rank=0).is_main


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("WORLD_SIZE", None, "RANK is set, but not WORLD_SIZE"),
        ("MASTER_PORT", None, "RANK is set, but not MASTER_PORT"),
        ("RANK", "first", "RANK must be a number, not 'first'"),
        ("RANK", "8", "RANK must be from 0 to 7, not 8"),
        ("RANK", "-1", "RANK must be from 0 to 7, not -1"),
        ("WORLD_SIZE", "0", "WORLD_SIZE must be at least 1, not 0"),
        ("LOCAL_RANK", "8", "LOCAL_RANK must be from 0 to 7, not 8"),
    ],
)
def test_half_a_world_is_refused(variable: str, value: str | None, message: str) -> None:
    variables = {**TORCHRUN, variable: value}
    with pytest.raises(ConfigError, match=message):
        world_from_environment({name: v for name, v in variables.items() if v is not None})


def test_a_group_is_there_inside_and_gone_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MASTER_ADDR", "localhost")
    monkeypatch.setenv("MASTER_PORT", "0")  # any that is free
    for _ in range(2):
        with process_group(World(rank=0, size=1, local_rank=0), CPU):
            assert dist.get_backend() == "gloo"
            one = torch.ones(1)
            dist.all_reduce(one)
            assert one.item() == 1.0
        assert not dist.is_initialized()


def test_a_greeting_is_no_result(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """gloo of torch 2.8 and others prints "Rank 0 is connected to ..." below Python."""
    monkeypatch.setattr(dist, "init_process_group", lambda *_, **__: os.write(1, b"Rank 0\n"))
    for name in ("barrier", "destroy_process_group"):
        monkeypatch.setattr(dist, name, lambda: None)
    with process_group(World(rank=0, size=1, local_rank=0), CPU):
        os.write(1, b"a result\n")
    assert capfd.readouterr() == ("a result\n", "Rank 0\n")


def test_others_that_do_not_come_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MASTER_ADDR", "localhost")
    monkeypatch.setenv("MASTER_PORT", "0")
    world = World(rank=0, size=2, local_rank=0)
    with (
        pytest.raises(UserError, match=r"rank 0: the 2 processes cannot connect: .*imed out"),
        process_group(world, CPU, timeout=timedelta(seconds=1)),
    ):
        pass
    assert not dist.is_initialized()


def test_asking_imports_no_torch() -> None:
    program = (
        "import sys, core.distributed.world as d\nd.world_from_environment({}); print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "core.distributed.world" in done.stdout.split()
    assert "torch" not in done.stdout.split()
