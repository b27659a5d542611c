#!/usr/bin/env python3
"""Translation models side by side: quality on validation data, speed, and size.

The models take turns: in each round, every model translates all sentences with greedy search and
then with beam search. The speed is the median over the rounds, from text to text.

    python -m benchmarks.candidates --data FOLDER runs/one runs/two
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import click
import torch

from transformer_suite.core.storage.checkpoint import WEIGHTS_FILE
from transformer_suite.tasks.commands.options import PATH
from transformer_suite.tasks.seq2seq.objective import measure_pairs
from transformer_suite.tasks.translation.dataset import LoadEnglishGermanDataset
from transformer_suite.tasks.translation.evaluate import bleu
from transformer_suite.tasks.translation.predict import Translator

BEAMS = (1, 5)


@dataclass
class Candidate:
    """A model in ``folder``, and the seconds and the translations of its rounds by beam size."""

    folder: Path
    translator: Translator
    seconds: dict[int, list[float]] = field(default_factory=lambda: {beam: [] for beam in BEAMS})
    outputs: dict[int, list[str]] = field(default_factory=dict)

    def take_turn(self, sources: list[str]) -> None:
        for beam in BEAMS:
            started = time.perf_counter()
            self.outputs[beam] = self.translator.translate(sources, beam_size=beam)
            self.seconds[beam].append(time.perf_counter() - started)

    def row(self, data: Path, split: str) -> list[str]:
        """Returns the cells of the table."""
        config = self.translator.config
        given = {"source": self.translator.source, "target": self.translator.target}
        dataset = LoadEnglishGermanDataset(data, config.data, seed=config.train.seed, **given)
        loss = measure_pairs(
            self.translator.models,
            dataset.encoded(split, max_len=self.translator.max_len),
            batch_tokens=config.train.batch_tokens,
            device=self.translator.device,
        )["loss"]
        sources, references = dataset.read(split)
        scores = [f"{bleu(self.outputs[beam], references)[0]:.2f}" for beam in BEAMS]
        speeds = [f"{len(sources) / median(self.seconds[beam]):.0f}" for beam in BEAMS]
        size = (self.folder / WEIGHTS_FILE).stat().st_size / 1e6
        parameters = sum(p.numel() for p in self.translator.models[0].parameters()) / 1e6
        return [
            str(self.folder),
            f"{loss:.3f}",
            *scores,
            *speeds,
            f"{parameters:.2f}",
            f"{size:.1f}",
        ]


@click.command()
@click.argument("folders", type=PATH, nargs=-1, required=True)
@click.option("--data", type=PATH, required=True, help="The folder of the corpus.")
@click.option("--split", default="val", show_default=True)
@click.option("--threads", default=2, show_default=True)
@click.option("--rounds", default=3, show_default=True)
def main(folders: tuple[Path, ...], data: Path, split: str, threads: int, rounds: int) -> None:
    torch.set_num_threads(threads)
    candidates = [Candidate(folder, Translator.load(folder, device="cpu")) for folder in folders]
    texts = {}
    for candidate in candidates:
        languages = candidate.translator.config.data
        path = data / f"{split}.{languages.src}"
        texts[candidate.folder] = path.read_text("utf-8").splitlines()
        candidate.translator.translate(texts[candidate.folder][:50])  # warms it up
    for _ in range(rounds):
        for candidate in candidates:
            candidate.take_turn(texts[candidate.folder])
    print(f"{split}, {threads} threads, torch {torch.__version__}\n")
    print(
        "| model | loss | BLEU, greedy | BLEU, beam 5 | sentences/s, greedy | sentences/s, beam 5 ",
        end="",
    )
    print("| million parameters | megabytes |\n|---|---|---|---|---|---|---|---|")
    for candidate in candidates:
        print(f"| {' | '.join(candidate.row(data, split))} |", flush=True)


if __name__ == "__main__":
    main()
