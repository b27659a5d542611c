"""Freed memory that the process keeps, in processes of their own: it is for good."""

import ctypes
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from core.training.memory import keep_freed_memory
from tasks.runs import process
from tests.core.training.tiny_runs import run_fit, tiny_model

ROOT = Path(__file__).parents[3]

# As a training step does: several large blocks at a time, and then none.
PROGRAM = """
import resource, sys
from core.training.memory import keep_freed_memory

print(keep_freed_memory() if sys.argv[1] == "keep" else None)
before = 0
for turn in range(int(sys.argv[2])):
    if turn == 3:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    blocks = [bytearray(b"x" * (20 << 20)) for _ in range(4)]
    del blocks
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def run(what: str, *, turns: int, **environment: str) -> tuple[str, int]:
    """What the function returned, and how many pages the system had to provide after turn 3."""
    own = {k: v for k, v in os.environ.items() if not k.startswith(("MALLOC_", "GLIBC_"))}
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM, what, str(turns)],
        cwd=ROOT,
        env={**own, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    returned, pages = found.stdout.split()
    return returned, int(pages)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library than glibc")
def test_the_next_step_has_the_memory_of_the_last() -> None:
    returned, kept = run("keep", turns=8)
    assert returned == "True"
    _, usual = run("not", turns=8)
    assert kept < usual / 20


@pytest.mark.parametrize("name", ["MALLOC_ARENA_MAX", "GLIBC_TUNABLES"])
def test_settings_of_the_user_hold(name: str) -> None:
    assert run("keep", turns=0, **{name: ""})[0] == "False"


def test_another_c_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("MALLOC_") or name == "GLIBC_TUNABLES":
            monkeypatch.delenv(name)
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    assert keep_freed_memory() is False


def test_fit_leaves_malloc_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``fit`` used to change ``malloc`` of whichever program called it, for good: a notebook kept a
    gigabyte that it had freed. Only the ``train`` command owns its process."""
    opened: list[object] = []
    load = ctypes.CDLL

    def noted(name: object, *arguments: object) -> object:
        opened.append(name)
        return load(name, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(ctypes, "CDLL", noted)
    run_fit(tiny_model(), tmp_path, epochs=1)
    assert None not in opened
    process.configure_process(threads=1)
    assert None in opened
