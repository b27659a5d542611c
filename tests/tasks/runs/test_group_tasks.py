"""Every task is trained by two processes as by one. group_tasks.py says how."""

import json
from pathlib import Path

import pytest

from tests.tasks.runs.group_tasks import train
from tests.torchrun import torchrun

PROGRAM = Path(__file__).with_name("group_tasks.py")
FILES = ("config.json", "vocabulary.txt")


@pytest.fixture(scope="module")
def by_two(tiny_corpora: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the three runs."""
    folder = tmp_path_factory.mktemp("by_two")
    corpora = folder / "corpora.json"
    corpora.write_text(json.dumps({task: str(path) for task, path in tiny_corpora.items()}))
    done = torchrun(2, PROGRAM, corpora, folder)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("epoch 1:") == 3
    return folder


def test_two_train_as_one(
    task: str, by_two: Path, tiny_corpora: dict[str, Path], tmp_path: Path
) -> None:
    alone = train(task, tiny_corpora[task], tmp_path)
    together = json.loads((by_two / task / "metrics.json").read_text())
    assert (alone["processes"], together["processes"]) == (1, 2)
    for name in ("steps", "parameters", "best_epoch"):
        assert together[name] == alone[name]
    assert together["validation"] == pytest.approx(alone["validation"], abs=1e-4)
    (ours,), (theirs,) = together["history"], alone["history"]
    for name in ("train_loss", "gradient_norm", "learning_rate"):
        assert ours[name] == pytest.approx(theirs[name], rel=1e-4)
    for name in FILES:
        assert (by_two / task / name).read_bytes() == (tmp_path / name).read_bytes()
