#!/usr/bin/env python3
"""Translation models side by side: quality on validation data, speed, and size.

The models take turns: in each round, every model translates all sentences with greedy search and
then with beam search. The speed is the median over the rounds, from text to text.

    python -m benchmarks.candidates --data FOLDER runs/one runs/two
"""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median

import click
import torch
from sacrebleu import BLEU

from core.storage.checkpoint import WEIGHTS_FILE
from tasks.commands.options import PATH
from tasks.seq2seq.objective import measure_pairs
from tasks.translation.dataset import ParallelCorpus
from tasks.translation.evaluate import score
from tasks.translation.predict import Translator

BEAMS = (1, 5)


class Candidate:
    """The model in ``folder``, and the split of the corpus ``data`` that it translates."""

    def __init__(self, folder: Path, data: Path, split: str) -> None:
        self.folder = folder
        self.translator = Translator.load(folder, device="cpu")
        config = self.translator.config
        given = {"source": self.translator.source, "target": self.translator.target}
        dataset = ParallelCorpus(data, config.data, seed=config.train.seed, **given)
        self.sources, self.references = zip(*dataset.read(split), strict=True)
        self.pairs = dataset.encoded(split, max_len=self.translator.max_len)
        self.seconds: dict[int, list[float]] = {beam: [] for beam in BEAMS}
        self.outputs: dict[int, list[str]] = {}
        self.translator.translate(self.sources[:50])  # warms it up

    def take_turn(self) -> None:
        for beam in BEAMS:
            started = time.perf_counter()
            self.outputs[beam] = self.translator.translate(self.sources, beam_size=beam)
            self.seconds[beam].append(time.perf_counter() - started)

    def row(self) -> list[str]:
        """Returns the cells of the table."""
        batch_tokens = self.translator.config.train.batch_tokens
        options = {"batch_tokens": batch_tokens, "device": self.translator.device}
        loss = measure_pairs(self.translator.models, self.pairs, **options)["loss"]
        scores = [f"{score(BLEU(), self.outputs[beam], self.references)[0]:.2f}" for beam in BEAMS]
        speeds = [f"{len(self.sources) / median(self.seconds[beam]):.0f}" for beam in BEAMS]
        parameters = sum(p.numel() for p in self.translator.models[0].parameters()) / 1e6
        size = (self.folder / WEIGHTS_FILE).stat().st_size / 1e6
        sizes = [f"{parameters:.2f}", f"{size:.1f}"]
        return [str(self.folder), f"{loss:.3f}", *scores, *speeds, *sizes]


@click.command()
@click.argument("folders", type=PATH, nargs=-1, required=True)
@click.option("--data", type=PATH, required=True, help="The folder of the corpus.")
@click.option("--split", default="val", show_default=True)
@click.option("--threads", default=2, show_default=True)
@click.option("--rounds", default=3, show_default=True)
def main(folders: tuple[Path, ...], data: Path, split: str, threads: int, rounds: int) -> None:
    torch.set_num_threads(threads)
    candidates = [Candidate(folder, data, split) for folder in folders]
    for _ in range(rounds):
        for candidate in candidates:
            candidate.take_turn()
    print(f"{split}, {threads} threads, torch {torch.__version__}\n")
    print(
        "| model | loss | BLEU, greedy | BLEU, beam 5 | sentences/s, greedy | sentences/s, beam 5 ",
        end="",
    )
    print("| million parameters | megabytes |\n|---|---|---|---|---|---|---|---|")
    for candidate in candidates:
        print(f"| {' | '.join(candidate.row())} |", flush=True)


if __name__ == "__main__":
    main()
