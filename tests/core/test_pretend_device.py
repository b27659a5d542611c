"""Every task on a pretend GPU (:mod:`tests.pretend_device`), in a process of its own."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils import backend_registration

from tests.readme_blocks import ROOT

PARTS = (
    (backend_registration, "_setup_privateuseone_for_python_backend"),
    (torch._C, "_set_only_lift_cpu_tensors"),
    (torch.Tensor, "_make_wrapper_subclass"),
)

pytestmark = pytest.mark.skipif(
    not all(hasattr(owner, name) for owner, name in PARTS),
    reason="this PyTorch lacks private parts that the pretend device is made of",
)

PER_BATCH = 5
"""What the program waits for once in a batch of a search: its encoder, and its last outputs."""


@pytest.fixture(scope="module")
def report(
    tiny_corpora: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """Operators and synchronizations by task; the program has compared its results with a CPU's."""
    tasks = ("translation", "classification", "couplet")
    command = [sys.executable, "-m", "tests.pretend_program", tmp_path_factory.mktemp("pretend")]
    done = subprocess.run(
        [*map(str, command), *(str(tiny_corpora[task]) for task in tasks)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize(
    ("task", "most"), [("translation", 3), ("classification", 2), ("couplet", 3)]
)
def test_a_training_step_rarely_waits_for_the_device(
    report: dict[str, Any], task: str, most: int
) -> None:
    assert report[task]["training"]["operators"] > 50
    assert report[task]["training"]["synchronizations"] <= most


@pytest.mark.parametrize("task", ["translation", "couplet"])
@pytest.mark.parametrize("search", ["greedy", "beam", "diverse", "sampling", "constrained"])
def test_a_step_of_a_search_waits_twice_at_most(
    report: dict[str, Any], task: str, search: str
) -> None:
    """Diverse beam search stores each of its eight outputs by itself."""
    found = report[task][search]
    most = 2 * found["steps"] + PER_BATCH + 16 * (search == "diverse")
    assert 0 < found["synchronizations"] <= most
