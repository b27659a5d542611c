"""Who a process is among several."""

import subprocess
import sys
from pathlib import Path

import pytest

from core.distributed.world import World, world_from_environment
from core.errors import ConfigError

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
    assert world_from_environment({}) == World()
    assert world_from_environment({"WORLD_SIZE": "1", "MASTER_ADDR": "host"}) == World()


def test_torchrun_says_who_a_process_is() -> None:
    world = world_from_environment(TORCHRUN)
    assert world == World(rank=5, size=8, local_rank=1)
    assert not world.is_main
    assert World(rank=0, size=2, local_rank=0).is_main


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("WORLD_SIZE", None, "RANK is set, but RANK, WORLD_SIZE, LOCAL_RANK are not all numbers"),
        ("RANK", "first", "RANK is set, but RANK, WORLD_SIZE, LOCAL_RANK are not all numbers"),
        ("RANK", "8", "RANK must be from 0 to 7, not 8"),
    ],
)
def test_half_a_world_is_refused(variable: str, value: str | None, message: str) -> None:
    variables = {**TORCHRUN, variable: value}
    with pytest.raises(ConfigError, match=message):
        world_from_environment({name: v for name, v in variables.items() if v is not None})


def test_asking_imports_no_torch() -> None:
    program = (
        "import sys, core.distributed.world as d\nd.world_from_environment({}); print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "core.distributed.world" in done.stdout.split()
    assert "torch" not in done.stdout.split()
