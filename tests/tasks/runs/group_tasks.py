"""Trains every task in several processes: ``torchrun ... group_tasks.py CORPORA.json FOLDER``."""

import json
import sys
from pathlib import Path
from typing import Any

import torch

from transformer_suite.core.distributed.process_group import ProcessGroup, joined_group
from transformer_suite.core.distributed.world import world_from_environment
from transformer_suite.tasks import registry
from transformer_suite.tasks.runs import run

CPU = torch.device("cpu")
SETTINGS = ("model.dropout=0", "train.epochs=1", "train.learning_rate=0.005")
OWN_SETTINGS = {
    # All random choices but the masks of dropout are the same for all processes: the
    # segmentation of words, and the held-out examples.
    "translation": ("data.vocab_size=400", "data.bpe_dropout=0.2"),
    "classification": (
        "data.vocab_size=100",
        "data.max_sen_len=same",
        "data.ppmi_window=2",
        "model.ngrams=2",
        "model.char_ngrams=4",
        "model.ngram_dropout=0",
    ),
    "couplet": (),
}


def train(task: str, corpus: Path, out: Path, group: ProcessGroup | None = None) -> dict[str, Any]:
    config = registry.make_config(
        task, preset="tiny", config_file=None, assignments=(*SETTINGS, *OWN_SETTINGS[task])
    )
    return run.train(task, config, data=corpus, out=out, device=CPU, group=group)


def main(corpora: Path, folder: Path) -> None:
    world = world_from_environment()
    assert world is not None
    with joined_group(world, CPU) as group:
        for task, corpus in json.loads(corpora.read_text()).items():
            metrics = train(task, Path(corpus), folder / task, group)
            assert bool(metrics) == world.is_main


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
