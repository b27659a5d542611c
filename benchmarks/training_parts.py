#!/usr/bin/env python3
"""What each part of fast training is worth: the time without it, divided by the time with it.

Every variant leaves one thing out and takes turns with the whole, batch after batch, on the same
batches; ratios are medians over the batches. The model is that of ``benchmarks.training``. The
table goes to stdout.

    python -m benchmarks.training_parts --data FOLDER
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from unittest.mock import patch

import click
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import core.attention
import core.dropout
import core.linear
import core.run
import core.softmax
import tasks.pairs
from benchmarks.training import our_step, rate_of, read_pairs
from core.loss import label_smoothed_cross_entropy
from data.batching import bucket_by_length
from tasks.console import PATH
from tasks.pairs import as_tensors

Part = Callable[[], AbstractContextManager[object]]


def mask_of_torch(x: Tensor, p: float) -> tuple[Tensor, float]:
    """A random number for every element."""
    return torch.empty_like(x).bernoulli_(1.0 - p), 1.0 / (1.0 - p)


def fused_attention(
    q: Tensor, k: Tensor, v: Tensor, blocked: Tensor | None, dropout_p: float
) -> Tensor:
    """PyTorch's own function, dropout and all."""
    is_open = None if blocked is None else ~blocked
    return F.scaled_dot_product_attention(q, k, v, attn_mask=is_open, dropout_p=dropout_p)


def loss_of_all_logits(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor,
    targets: Tensor,
    *,
    label_smoothing: float,
    r_drop: float,
) -> Tensor:
    """The output layer, and then the loss."""
    logits = core.linear.linear(hidden, weight, bias)
    return label_smoothed_cross_entropy(logits, targets, label_smoothing=label_smoothing)


def plain_adam(config: object, parameters: Sequence[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.Adam(parameters, lr=0.0, betas=(0.9, 0.98), eps=1e-9)


PARTS: dict[str, Part] = {
    "nothing": nullcontext,
    "a part of the batch for each core (all operations split instead)": lambda: patch.object(
        core.run, "number_of_parts", lambda batch: 1
    ),
    "the products of oneDNN": lambda: patch.object(core.linear, "HAS_ONEDNN", False),
    "sixteen random bits for an element (a random number instead)": lambda: patch.object(
        core.dropout, "_kept", mask_of_torch
    ),
    "own attention with dropout (PyTorch's instead)": lambda: patch.object(
        core.attention, "attend", fused_attention
    ),
    "loss and gradient in one pass, in chunks": lambda: patch.object(
        tasks.pairs, "linear_cross_entropy", loss_of_all_logits
    ),
    "softmax padded to a register": lambda: patch.object(core.softmax, "_REGISTER_BYTES", 0),
    "fused Adam": nullcontext,
    "batches of one length": nullcontext,
}


@click.command()
@click.option("--data", type=PATH, required=True, help="A folder with train.de and train.en.")
@click.option("--threads", default=2, show_default=True)
@click.option("--batches", default=30, show_default=True, help="So many for each variant.")
@click.option("--batch-tokens", default=2500, show_default=True)
def main(data: Path, threads: int, batches: int, batch_tokens: int) -> None:
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    pairs, vocab_size = read_pairs(data)
    lengths = [(len(source) + 1, len(target) + 1) for source, target in pairs]
    buckets = bucket_by_length(lengths, batch_tokens=batch_tokens, seed=1)
    size = len(pairs) // len(buckets)
    order = random.Random(1).sample(range(len(pairs)), len(pairs))
    mixed = [order[i : i + size] for i in range(0, len(order), size)]
    rates: dict[str, list[float]] = {name: [] for name in PARTS}
    with tempfile.TemporaryDirectory() as folder:
        whole, _ = our_step(vocab_size, Path(folder))
        with patch.object(core.run, "make_optimizer", plain_adam):
            unfused, _ = our_step(vocab_size, Path(folder))
        in_buckets, at_random = (
            cycle(as_tensors([pairs[i] for i in indices]) for indices in chunks)
            for chunks in (buckets, mixed)
        )
        for _ in range(2):
            rate_of(whole, next(in_buckets))
            rate_of(unfused, next(in_buckets))
        for batch, of_random_sentences in islice(zip(in_buckets, at_random, strict=True), batches):
            for name, part in PARTS.items():
                step = unfused if name == "fused Adam" else whole
                taken = of_random_sentences if name == "batches of one length" else batch
                with part():
                    rates[name].append(rate_of(step, taken))
    print("| without | time |\n|---|---|")
    for name, of_batches in rates.items():
        ratio = median(a / b for a, b in zip(rates["nothing"], of_batches, strict=True))
        print(f"| {name} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
