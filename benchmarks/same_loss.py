#!/usr/bin/env python3
"""Whether training by this program ends at the validation loss of the plain loop.

Both begin with the same weights and take the same batches in the same order, at the same learning
rates; what each drops out is its own. After every epoch the validation loss (cross-entropy of the
target tokens, without smoothing) of both, as a table on stdout, for several seeds.

    python -m benchmarks.same_loss --data FOLDER
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
import torch
from torch import nn

from benchmarks.training import (
    Batch,
    PlainTransformer,
    Step,
    our_step,
    plain_step,
    read_pairs,
    target_tokens,
)
from core.training.schedule import inverse_sqrt
from data.batching import bucket_by_length, epoch_seed
from data.vocabulary import PAD_ID
from tasks.commands.options import PATH
from tasks.seq2seq.batches import Pair, as_tensors
from tasks.translation.model import TranslationModel

PEAK_RATE = 1e-3
WARMUP_STEPS = 200


@click.command()
@click.option("--data", type=PATH, required=True, help="A folder with train.* and val.* (de, en).")
@click.option("--seeds", default=2, show_default=True)
@click.option("--epochs", default=2, show_default=True)
@click.option("--threads", default=2, show_default=True)
@click.option("--batch-tokens", default=2500, show_default=True)
def main(data: Path, seeds: int, epochs: int, threads: int, batch_tokens: int) -> None:
    torch.set_num_threads(threads)
    pairs, vocab_size = read_pairs(data)
    held_out, _ = read_pairs(data, "val")
    of_validation = list(batches_of(held_out, batch_tokens, None))
    print("| seed | epoch | ours | plain |")
    print("|---|---|---|---|", flush=True)
    for seed in range(1, seeds + 1):
        torch.manual_seed(seed)
        ours, our_model = our_step(vocab_size)
        plain, plain_model = plain_step(vocab_size, fused=True)
        begin_alike(plain_model, our_model)
        for epoch in range(1, epochs + 1):
            losses = []
            for step, model in ((ours, our_model), (plain, plain_model)):
                train(step, pairs, batch_tokens, epoch_seed(seed, epoch), epoch)
                losses.append(validation_loss(model, of_validation))
            print(f"| {seed} | {epoch} | {losses[0]:.4f} | {losses[1]:.4f} |", flush=True)


@torch.no_grad()
def begin_alike(plain: PlainTransformer, ours: TranslationModel) -> None:
    """Gives ``plain`` the weights of ``ours``."""
    plain.transformer.load_state_dict(ours.transformer.state_dict())
    plain.embedding.weight.copy_(ours.src_embedding.embedding.weight)
    plain.generator.bias.copy_(ours.generator.bias)


def batches_of(pairs: Sequence[Pair], batch_tokens: int, seed: int | None) -> Sequence[Batch]:
    lengths = [(len(source) + 1, len(target) + 1) for source, target in pairs]
    buckets = bucket_by_length(lengths, batch_tokens=batch_tokens, seed=seed)
    return [as_tensors([pairs[i] for i in indices]) for indices in buckets]


def train(step: Step, pairs: Sequence[Pair], batch_tokens: int, seed: int, epoch: int) -> None:
    """One epoch; the learning rate goes by the number of the step."""
    batches = batches_of(pairs, batch_tokens, seed)
    rate = inverse_sqrt(PEAK_RATE, WARMUP_STEPS)
    for number, batch in enumerate(batches, start=(epoch - 1) * len(batches) + 1):
        step(batch, rate(number))


@torch.no_grad()
def validation_loss(model: nn.Module, batches: Sequence[Batch]) -> float:
    """The mean cross-entropy of a target token, in nats."""
    model.eval()
    total = 0.0
    for src, tgt in batches:
        logits, targets = model(src, tgt[:-1]).flatten(0, 1), tgt[1:].flatten()
        total += nn.functional.cross_entropy(
            logits, targets, ignore_index=PAD_ID, reduction="sum"
        ).item()
    model.train()
    return total / sum(map(target_tokens, batches))


if __name__ == "__main__":
    main()
