"""Every task is trained by two processes as by one."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from core.distributed.process_group import ProcessGroup, joined_group
from core.distributed.world import world_from_environment
from tests.tasks import tiny_models
from tests.torchrun import run_ranks

CPU = torch.device("cpu")
SETTINGS = (
    "train.precision=fp32",
    "model.dropout=0",
    "train.epochs=1",
    "train.learning_rate=0.005",
)
OWN_SETTINGS = {
    # All random choices but the masks of dropout are the same for all processes: the
    # segmentation of words, and the held-out examples.
    "translation": ("data.vocab_size=400", "data.augment=0.2"),
    "classification": (
        "data.vocab_size=100",
        "data.max_sen_len=same",
        "model.ngrams=2",
        "model.char_ngrams=4",
        "model.ngram_dropout=0",
        "data.fit_ngrams=0",
    ),
    "couplet": (),
}
FILES = ("config.json", "vocabulary.txt")


def train(task: str, corpus: Path, out: Path, group: ProcessGroup | None = None) -> dict[str, Any]:
    settings = (*SETTINGS, *OWN_SETTINGS[task])
    return tiny_models.train(task, corpus, out, *settings, group=group or ProcessGroup())


@pytest.fixture(scope="module")
def by_two(tiny_corpora: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the three runs."""
    folder = tmp_path_factory.mktemp("by_two")

    def program() -> None:
        world = world_from_environment()
        with joined_group(world, CPU, timeout=300) as group:
            for task, corpus in tiny_corpora.items():
                metrics = train(task, corpus, folder / task, group)
                assert bool(metrics) == world.is_main

    done = run_ranks(2, program)
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
