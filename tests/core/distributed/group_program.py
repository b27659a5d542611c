"""What the processes of test_process_group.py do.

Every process notes in FOLDER/RANK.json what it has seen. The last thing they do is to fail.
"""

import json
import math
import os
import signal
import sys
from functools import partial
from pathlib import Path
from typing import Any

import torch.distributed as dist
from torch import Tensor

from core.distributed import data_parallel
from core.distributed.process_group import ProcessGroup, joined_group
from core.distributed.world import is_first_to_fail, world_from_environment
from core.errors import Interrupted, UserError
from tasks.seq2seq.objective import measure_pairs
from tests.core.training.tiny_runs import (
    CPU,
    Disturbed,
    Pairs,
    loss_of,
    run_fit,
    tiny_model,
    validation_of,
)
from tests.tasks.seq2seq.test_objective import PAIRS
from tests.tasks.tiny_models import network

# Whole runs without dropout, for one process to have too, and what they are fitted with.
RUNS: dict[str, dict[str, Any]] = {
    "plain": {"epochs": 2, "clip_norm": 0.5},
    "accumulated": {"epochs": 2, "clip_norm": 0.5, "accumulate": 2},
    "pairs": {"epochs": 1, "clip_norm": 0.5, "data": Pairs(size=2)},
    "single": {"epochs": 1, "data": Pairs(size=1)},
    "begun": {"epochs": 2},
}


# The gradients of the tiny model fill several buckets.
dist._DEFAULT_FIRST_BUCKET_BYTES = 1000
data_parallel._BUCKET_MEGABYTES = 0.001


def measured(group: ProcessGroup) -> tuple[dict[str, float], int]:
    """Returns the metrics of a model, and the number of batches that this process measured."""
    model, batches = network(), []
    model.generator.register_forward_hook(lambda *call: batches.append(1))
    return measure_pairs([model], PAIRS, batch_tokens=16, device=CPU, group=group), len(batches)


class Program:
    def __init__(self, group: ProcessGroup, folder: Path) -> None:
        self.group = group
        self.folder = folder
        self.is_last = group.rank == group.size - 1
        self.seen: dict[str, Any] = {}

    def run(self) -> None:
        self.talk()
        for name in ("plain", "accumulated", "pairs", "single"):
            self.fit(name, dropout=0.0, **RUNS[name])
        self.stop("begun", at=8, dropout=0.0, resume=True, **RUNS["begun"])
        self.fit("dropout", epochs=1)
        self.stop("stopped", at=5, epochs=1)
        self.fit("stopped", epochs=1, resume=True)
        self.diverge()
        self.disagree()
        self.read_other_data()
        (self.folder / f"{self.group.rank}.json").write_text(json.dumps(self.seen))

    def talk(self) -> None:
        group, file = self.group, self.folder / "file"
        with group.main_process_first():
            self.seen["was there"] = file.exists()
            if group.is_main:
                file.touch()
        self.seen["share"] = group.shard(list(range(7)))
        self.seen["sum"] = group.sum([1, 0.5 * group.rank])
        self.seen["any"] = [group.any(False), group.any(group.is_main), group.any(self.is_last)]
        self.seen["from first"] = group.broadcast(lambda: {"rank": group.rank, "nan": math.nan})

        self.seen["gathered"] = group.gather([f"no. {number}" for number in self.seen["share"]])
        self.seen["measured"], self.seen["batches"] = measured(group)

    def fit(self, name: str, *, dropout: float = 0.3, **changes: Any) -> None:
        # Each begins with weights of its own, and must be given those of the first.
        model = tiny_model(1 + self.group.rank, dropout=dropout)
        validations = 0

        def validate() -> dict[str, float]:
            nonlocal validations
            validations += 1
            return validation_of(model)()

        state = run_fit(
            model,
            self.folder / name,
            validate=validate,
            group=self.group,
            average=0,
            precision="fp32",
            **changes,
        )
        self.seen[name] = {
            "history": [row.columns() for row in state.history],
            "validations": validations,
            "checksum": sum(p.double().sum().item() for p in model.parameters()),
        }

    def stop(self, name: str, *, at: int, **changes: Any) -> None:
        """SIGTERM comes, twice, to the last process alone, in a step of its own counting."""
        send = partial(os.kill, os.getpid(), signal.SIGTERM)
        data = Disturbed(at, lambda: [send(), send()]) if self.is_last else Pairs()
        try:
            self.fit(name, data=data, **changes)
        except Interrupted as error:
            self.seen[f"end of {name}"] = str(error)

    def diverge(self) -> None:
        """The last process alone computes nonsense, in its second step."""
        model, steps = tiny_model(), 0

        def loss(batch: tuple[Tensor, ...]) -> tuple[Tensor, int]:
            nonlocal steps
            steps += 1
            total, count = loss_of(model)(batch)
            return total * math.nan if self.is_last and steps == 2 else total, count

        try:
            run_fit(model, self.folder / "diverged", loss=loss, group=self.group)
        except UserError as error:
            self.seen["divergence"] = str(error)

    def disagree(self) -> None:
        """The first process resumes another state than the others."""
        name = "plain" if self.group.is_main else "accumulated"
        try:
            run_fit(tiny_model(), self.folder / name, group=self.group, resume=True)
        except UserError as error:
            self.seen["disagreement"] = str(error)

    def read_other_data(self) -> None:
        """The last process has one batch less."""
        data = Pairs(batches=7 if self.is_last else 8)
        try:
            run_fit(tiny_model(), self.folder / "other", data=data, group=self.group)
        except UserError as error:
            self.seen["other data"] = str(error)


def main(folder: Path) -> None:
    world = world_from_environment()
    try:
        with joined_group(world, CPU, timeout=100) as group:
            program = Program(group, folder)
            program.run()
            if program.is_last:
                raise UserError("this is the end")
    except UserError as error:
        sys.exit(f"error: {error}" if is_first_to_fail() else 1)
