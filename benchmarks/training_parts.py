#!/usr/bin/env python3
"""What each optimization of training is worth: the time without it, divided by the time with it.

Each variant leaves out one optimization and runs in its own process, in turns with the complete
program. Ratios are medians over the batches. The model is that of ``benchmarks.training``.

    python -m benchmarks.training_parts --data FOLDER
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from statistics import median
from unittest.mock import patch

import click
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.baselines import Contestant
from benchmarks.training import (
    Rate,
    Setting,
    at_random,
    in_buckets,
    our_step,
    take_turns,
    warmed_up,
)
from core.model import attention as attention_module
from core.model import dropout as dropout_module
from core.training import step as step_module
from core.training.loss import label_smoothed_cross_entropy
from tasks.commands.options import PATH
from tasks.seq2seq import objective as objective_module

Part = Callable[[], AbstractContextManager[object]]


@contextmanager
def dropout_of_torch() -> Iterator[None]:
    """Uses PyTorch's dropout: one random number for every element."""
    with (
        patch.object(dropout_module, "dropout", F.dropout),
        patch.object(attention_module, "dropout", F.dropout),
    ):
        yield


def loss_of_all_logits(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor,
    targets: Tensor,
    *,
    label_smoothing: float,
) -> Tensor:
    """Computes all logits, and then the loss."""
    logits = F.linear(hidden, weight, bias)
    return label_smoothed_cross_entropy(logits, targets, label_smoothing=label_smoothing)


class PlainAdam(torch.optim.Adam):
    def __init__(self, config: object, parameters: Sequence[nn.Parameter]) -> None:
        super().__init__(parameters, lr=0.0, betas=(0.9, 0.98), eps=1e-9)

    def step(self, learning_rate: float) -> None:  # type: ignore[override]
        self.param_groups[0]["lr"] = learning_rate
        super().step()


PARTS: dict[str, Part] = {
    "nothing": nullcontext,
    "a microbatch for each core (all operations split instead)": lambda: patch.object(
        step_module, "microbatch_count", lambda batch: 1
    ),
    "sixteen random bits for an element (a random number instead)": dropout_of_torch,
    "the loss with its gradients, in chunks (all logits at once instead)": lambda: patch.object(
        objective_module, "linear_cross_entropy", loss_of_all_logits
    ),
    "fused Adam": lambda: patch.object(step_module, "AdamW", PlainAdam),
    "batches of one length": nullcontext,
}


@click.command()
@click.option("--data", type=PATH, required=True, help="A folder with train.de and train.en.")
@click.option("--threads", default=2, show_default=True)
@click.option("--batches", default=30, show_default=True, help="Batches of each variant.")
@click.option("--batch-tokens", default=2500, show_default=True)
def main(data: Path, threads: int, batches: int, batch_tokens: int) -> None:
    setting = Setting(data, threads, batches, batch_tokens)
    print("| without | time |\n|---|---|")
    for name in PARTS:
        contestants = [Contestant(part, variant, setting, part) for part in ("nothing", name)]
        whole, without = take_turns(contestants, batches)
        ratio = median(a / b for a, b in zip(whole, without, strict=True))
        print(f"| {name} | {ratio:.2f} |", flush=True)


def variant(setting: Setting, name: str) -> Rate:
    """Returns the rate of a step without the optimization ``name``."""
    batches, vocab_size = in_buckets(setting)
    if name == "batches of one length":
        sentences = sum(source.shape[1] for source, _ in batches)
        batches, _ = at_random(setting, sentences // len(batches))
    PARTS[name]().__enter__()  # for as long as the process lives
    return warmed_up(our_step(vocab_size)[0], batches)


if __name__ == "__main__":
    main()
