"""Trains every task in several processes: ``torchrun ... team_tasks.py CORPORA.json FOLDER``."""

import json
import sys
from pathlib import Path
from typing import Any

import torch

from transformer_suite.core.distributed.team import Team, joined
from transformer_suite.core.distributed.world import world_from_environment
from transformer_suite.tasks import registry

CPU = torch.device("cpu")
SETTINGS = ("model.dropout=0", "train.epochs=1", "train.learning_rate=0.005")
OWN_SETTINGS = {
    # What is left to chance but for dropout's masks is the same for all: which pieces words are cut
    # into, and which examples are held out.
    "translation": ("data.vocab_size=100", "data.bpe_dropout=0.2"),
    "classification": ("data.vocab_size=100", "data.max_sen_len=same"),
    "couplet": (),
}


def train(task: str, corpus: Path, out: Path, team: Team | None = None) -> dict[str, Any]:
    config = registry.make_config(
        task, preset="tiny", config_file=None, assignments=(*SETTINGS, *OWN_SETTINGS[task])
    )
    return registry.module(task, "train").train(config, data=corpus, out=out, device=CPU, team=team)


def main(corpora: Path, folder: Path) -> None:
    world = world_from_environment()
    assert world is not None
    with joined(world, CPU) as team:
        for task, corpus in json.loads(corpora.read_text()).items():
            metrics = train(task, Path(corpus), folder / task, team)
            assert bool(metrics) == world.is_first


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
