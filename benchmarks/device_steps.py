#!/usr/bin/env python3
"""Counts what a step costs a GPU's program: operators to launch, and results to wait for.

On a pretend GPU (``tests/pretend_device.py``): a launch takes a real one's program some
microseconds, and a wait leaves the GPU idle. The table goes to stdout.

    python -m benchmarks.device_steps --data FOLDER
"""

from __future__ import annotations

from typing import Any

import click
import torch

from core.inference.incremental_model import IncrementalModel
from core.training.config import TrainConfig
from core.training.state import TrainingState
from core.training.step import TrainingStep
from tasks.commands.options import PATH
from tasks.couplet.predict import CoupletWriter
from tasks.seq2seq import predictor
from tasks.seq2seq.objective import pair_loss
from tasks.translation.predict import Translator
from tests.pretend_device import DEVICE, Pretending, counts, synchronizations

SEARCHES: dict[str, dict[str, Any]] = {
    "greedy": {"beam_size": 1},
    "beam 5": {"beam_size": 5},
    "diverse, beam 4": {"beam_size": 4, "n_best": 2, "diversity": 0.5},
    "sampling": {"sample": True},
}
TARGETS, SENTENCES = 25, 160
steps: list[object] = []


@click.command()
@click.option("--data", type=PATH, required=True, help="A folder with test_2016_flickr.de.")
def main(data: Any) -> None:
    predictor.choose_device = lambda name: DEVICE  # type: ignore[attr-defined]
    step = IncrementalModel.step

    def counted(self: IncrementalModel, *args: Any) -> torch.Tensor:
        steps.append(None)
        return step(self, *args)

    IncrementalModel.step = counted  # type: ignore[method-assign, assignment]
    texts = (data / "test_2016_flickr.de").read_text(encoding="utf-8").splitlines()[:20]
    print("| step of | operators | waits |\n|---|---|---|")
    with Pretending():
        translator, writer = Translator.load(), CoupletWriter.load()
        for name, options in SEARCHES.items():
            report(f"{name}, 20 captions", translator, texts, options)
        report("beam 5, 2 couplets", writer, ["晚风摇树树还挺", "春风送暖"], {"beam_size": 5})
        counts.clear()
        train(translator)
        numbers = f"{counts['operators']} | {synchronizations()}"
        print(f"| training, {TARGETS * SENTENCES:,} targets | {numbers} |")


def report(name: str, model: Any, texts: list[str], options: dict[str, Any]) -> None:
    """Prints the means over the steps of a search, what is done once in a search included."""
    steps.clear()
    counts.clear()
    model.predict(texts, **options)
    means = (count / len(steps) for count in (counts["operators"], synchronizations()))
    print("| {} | {:.0f} | {:.1f} |".format(name, *means), flush=True)


def train(translator: Translator) -> None:
    """Takes a step with a batch of random words."""
    model = translator.models[0].train().requires_grad_(True)
    words = len(translator.source.vocabulary)
    src = torch.randint(4, words, (TARGETS, SENTENCES))
    tgt = torch.randint(4, words, (TARGETS + 1, SENTENCES))
    config = TrainConfig(precision="fp32", ema=0.0)
    state = TrainingState()
    TrainingStep(model, config, DEVICE).take(state, [(src, tgt)], pair_loss(model, 0.1), 1e-4)


if __name__ == "__main__":
    main()
