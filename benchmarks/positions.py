#!/usr/bin/env python3
"""What each kind of positions costs: a training step and greedy decoding, relative to sinusoids.

The models have the default sizes and random weights. They take turns on the same batches of random
words, as long as captions, in one thread. A ratio is the median over the batches. Times are those
of the processor, so other programs disturb them less.

    python -m benchmarks.positions
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from statistics import median

import click
import torch

from core.decoding.greedy_search import greedy_search
from core.inference.incremental_model import IncrementalModel
from core.model.config import POSITIONS, TransformerConfig
from core.training.config import TrainConfig
from core.training.state import TrainingState
from core.training.step import TrainingStep
from data.batching import bucket_by_length
from tasks.seq2seq.batches import as_tensors
from tasks.seq2seq.objective import pair_loss
from tasks.translation.model import TranslationModel

WORDS = 6000
STEPS = 14  # of decoding: the length of a caption

Batch = tuple[torch.Tensor, ...]
Function = Callable[[Batch], object]


def model_of(positions: str) -> TranslationModel:
    config = TransformerConfig(positions=positions)
    return TranslationModel(WORDS, WORDS, config, share_embeddings=True)


def training(positions: str) -> Function:
    """Returns a training step."""
    model = model_of(positions).train()
    step = TrainingStep(model, TrainConfig(precision="fp32"), torch.device("cpu"))
    state, loss = TrainingState(), pair_loss(model, 0.1)
    return lambda batch: step.take(state, [batch], loss, 1e-4)


def decoding(positions: str) -> Function:
    """Returns greedy decoding of ``STEPS`` tokens for each source."""
    prepared = IncrementalModel(model_of(positions).eval())

    def decode(batch: Batch) -> object:
        limits = torch.full((batch[0].shape[1],), STEPS)
        return greedy_search(prepared.step, prepared.start(batch[0]), max_lengths=limits)

    return decode


def random_batches(count: int, batch_tokens: int) -> list[Batch]:
    rng = random.Random(1)

    def sentence() -> list[int]:
        return rng.choices(range(4, WORDS), k=max(4, round(rng.gauss(14, 4))))

    pairs = [(sentence(), sentence()) for _ in range(count * batch_tokens // 10)]
    lengths = [(len(source), len(target)) for source, target in pairs]
    buckets = bucket_by_length(lengths, batch_tokens=batch_tokens, seed=1)
    return [as_tensors([pairs[i] for i in indices]) for indices in buckets[:count]]


def ratios(functions: Sequence[Function], batches: Sequence[Batch]) -> list[float]:
    """Returns each function's time relative to the first one's."""
    for function in functions:
        function(batches[0])
    rows = [[seconds(function, batch) for function in functions] for batch in batches]
    return [median(row[i] / row[0] for row in rows) for i in range(len(functions))]


def seconds(function: Function, batch: Batch) -> float:
    started = time.process_time()
    function(batch)
    return time.process_time() - started


@click.command()
@click.option("--batches", default=40, show_default=True)
@click.option("--batch-tokens", default=2500, show_default=True)
def main(batches: int, batch_tokens: int) -> None:
    torch.set_num_threads(1)
    sources = random_batches(batches, batch_tokens)
    single = [tuple(x[:, :1] for x in batch) for batch in sources]
    table = {"training step": ratios([training(kind) for kind in POSITIONS], sources)}
    decoders = [decoding(kind) for kind in POSITIONS]
    table["greedy, a batch"] = ratios(decoders, sources)
    table["greedy, one sentence"] = ratios(decoders, single)
    print(f"| | {' | '.join(POSITIONS)} |\n|---|{'---|' * len(POSITIONS)}")
    for name, row in table.items():
        print(f"| {name} | {' | '.join(f'{ratio:.2f}' for ratio in row)} |")


if __name__ == "__main__":
    main()
