#!/usr/bin/env python3
"""How fast a translation model is trained: this program, ``torch.nn.Transformer``, and the limit.

All have the same model: 3 + 3 layers, d_model 256, 512 inside, 4 heads, one joint vocabulary,
dropout 0.3, label smoothing 0.1, float32. The contestants take turns of a few batches, each in a
process of its own, and every ratio is the median over the batches. The speed is target tokens
without padding per second.

* plain: ``torch.nn.Transformer`` on the batches and with the optimizer of this program;
* tutorial: the same on batches of 128 random sentences, padded to the longest;
* limit: the matrix products of a step of this program and nothing else, at the speed of a large
  matrix product.

    python -m benchmarks.training --data FOLDER
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from statistics import median

import click
import torch
from torch import Tensor, nn

from benchmarks.baselines import Contestant
from core.model.config import TransformerConfig
from core.training.config import TrainConfig
from core.training.state import TrainingState
from core.training.step import TrainingStep
from data.batching import bucket_by_length
from data.vocabulary import PAD_ID
from tasks.commands.options import PATH
from tasks.seq2seq.batches import Pair, as_tensors
from tasks.seq2seq.objective import pair_loss
from tasks.translation.model import TranslationModel
from tasks.translation.predict import Translator

MODEL = TransformerConfig(
    d_model=256,
    nhead=4,
    num_encoder_layers=3,
    num_decoder_layers=3,
    dim_feedforward=512,
    dropout=0.3,
)
LABEL_SMOOTHING = 0.1
LEARNING_RATE = 3e-4

Batch = tuple[Tensor, Tensor]
Step = Callable[[Batch, float], None]
"""Takes one step over a batch at a learning rate."""

Rate = Callable[[int], float]
"""From the number of a batch to its target tokens a second."""


@dataclass(frozen=True)
class Setting:
    """The settings that all contestants share."""

    data: Path
    threads: int
    batches: int
    batch_tokens: int
    seed: int = 1


WARM_UP = 4
TURN = 5
"""The number of batches before the next contestant's turn."""


class PlainTransformer(nn.Module):
    """The model of the tutorials, around ``torch.nn.Transformer``."""

    def __init__(self, vocab_size: int) -> None:
        super().__init__()
        width = MODEL.d_model
        self.embedding = nn.Embedding(vocab_size, width)
        self.dropout = nn.Dropout(MODEL.dropout)
        self.transformer = nn.Transformer(
            width,
            MODEL.nhead,
            MODEL.num_encoder_layers,
            MODEL.num_decoder_layers,
            MODEL.dim_feedforward,
            MODEL.dropout,
            norm_first=MODEL.norm_first,
        )
        self.generator = nn.Linear(width, vocab_size)
        self.generator.weight = self.embedding.weight  # one table, as in this program
        position = torch.arange(MODEL.max_len).unsqueeze(1)
        rate = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
        table = torch.zeros(MODEL.max_len, 1, width)
        table[:, 0, 0::2], table[:, 0, 1::2] = (
            torch.sin(position * rate),
            torch.cos(position * rate),
        )
        self.register_buffer("table", table)

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        def embed(ids: Tensor) -> Tensor:
            x = self.embedding(ids) * math.sqrt(MODEL.d_model)
            return self.dropout(x + self.table[: len(ids)])

        causal = self.transformer.generate_square_subsequent_mask(len(tgt))
        src_is_pad, tgt_is_pad = (src == PAD_ID).t(), (tgt == PAD_ID).t()
        hidden = self.transformer(
            embed(src),
            embed(tgt),
            tgt_mask=causal.isinf(),
            src_key_padding_mask=src_is_pad,
            tgt_key_padding_mask=tgt_is_pad,
            memory_key_padding_mask=src_is_pad,
        )
        return self.generator(hidden)


def our_step(vocab_size: int) -> tuple[Step, TranslationModel]:
    """Returns a training step of this program, as in ``core.training.fit``, and its model."""
    model = TranslationModel(vocab_size, vocab_size, MODEL, share_embeddings=True)
    model.train()
    config = TrainConfig(precision="fp32", label_smoothing=LABEL_SMOOTHING)
    step, state = TrainingStep(model, config, torch.device("cpu")), TrainingState()
    loss = pair_loss(model, LABEL_SMOOTHING)

    def take(batch: Batch, rate: float) -> None:
        step.take(state, [batch], loss, rate)

    return take, model


def plain_step(vocab_size: int, *, fused: bool) -> tuple[Step, PlainTransformer]:
    """Returns a step as it is usually written, and its model."""
    model = PlainTransformer(vocab_size).train()
    criterion = nn.CrossEntropyLoss(ignore_index=PAD_ID, label_smoothing=LABEL_SMOOTHING)
    optimizer = torch.optim.Adam(
        model.parameters(), lr=LEARNING_RATE, betas=(0.9, 0.98), eps=1e-9, fused=fused or None
    )

    def step(batch: Batch, rate: float) -> None:
        for group in optimizer.param_groups:
            group["lr"] = rate
        src, tgt = batch
        logits = model(src, tgt[:-1])
        loss = criterion(logits.reshape(-1, logits.shape[-1]), tgt[1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        loss.item()

    return step, model


def matrix_products(batch: Batch, vocab_size: int) -> float:
    """Returns the floating-point operations of the matrix products of a step.

    Two for each weight and position in the forward pass, and twice as many in the backward pass;
    attention over the padded lengths, the output layer over the tokens without padding.
    """
    src, tgt = batch
    width, inner = MODEL.d_model, MODEL.dim_feedforward
    s, t, b = len(src), len(tgt) - 1, src.shape[1]
    tokens = int((tgt[1:] != PAD_ID).sum())
    encoder = s * b * (4 * width * width + 2 * width * inner + 2 * s * width)
    decoder = t * b * (6 * width * width + 2 * width * inner + 2 * (t + s) * width)
    decoder += s * b * 2 * width * width  # the memory's keys and values
    layers = encoder * MODEL.num_encoder_layers + decoder * MODEL.num_decoder_layers
    return 3.0 * 2.0 * (layers + tokens * width * vocab_size)


def large_product_rate(size: int = 2048) -> float:
    """Returns the floating-point operations per second of a large matrix product, best of two."""
    a, b = torch.randn(size, size), torch.randn(size, size)
    seconds = []
    for _ in range(2):
        started = time.perf_counter()
        torch.mm(a, b)
        seconds.append(time.perf_counter() - started)
    return 2.0 * size**3 / min(seconds)


def rate_of(step: Step, batch: Batch) -> float:
    """Returns the target tokens per second of one step."""
    started = time.perf_counter()
    step(batch, LEARNING_RATE)
    return target_tokens(batch) / (time.perf_counter() - started)


def target_tokens(batch: Batch) -> int:
    return int((batch[1][1:] != PAD_ID).sum())


def read_pairs(data: Path, split: str = "train") -> tuple[list[Pair], int]:
    """Returns the pairs of ``split`` in the vocabulary of the shipped model, and its size."""
    translator = Translator.load(device="cpu")
    sides = [
        [codec.encode(line) for line in (data / f"{split}.{name}").read_text("utf-8").splitlines()]
        for name, codec in (("de", translator.source), ("en", translator.target))
    ]
    return list(zip(*sides, strict=True)), len(translator.source.vocabulary)


def ours(setting: Setting) -> Rate:
    """Returns the speed of a step of this program, on its length buckets."""
    batches, vocab_size = in_buckets(setting)
    return warmed_up(our_step(vocab_size)[0], batches)


def plain(setting: Setting) -> Rate:
    """Returns the speed of a plain step on the same batches."""
    batches, vocab_size = in_buckets(setting)
    return warmed_up(plain_step(vocab_size, fused=True)[0], batches)


def tutorial(setting: Setting) -> Rate:
    """Returns the speed of a plain step on random sentences."""
    batches, vocab_size = at_random(setting, 128)
    return warmed_up(plain_step(vocab_size, fused=False)[0], batches)


def limit(setting: Setting) -> Rate:
    """Returns the speed of the matrix products alone, at the rate of a large one."""
    batches, vocab_size = in_buckets(setting)

    def rate(number: int) -> float:
        batch = batches[WARM_UP + number]
        return target_tokens(batch) * large_product_rate() / matrix_products(batch, vocab_size)

    return rate


def in_buckets(setting: Setting) -> tuple[list[Batch], int]:
    """Returns the first batches of an epoch, and the size of the vocabulary."""
    pairs, vocab_size = prepare(setting)
    lengths = [(len(source) + 1, len(target) + 1) for source, target in pairs]
    buckets = bucket_by_length(lengths, batch_tokens=setting.batch_tokens, seed=setting.seed)
    taken = islice(cycle(buckets), WARM_UP + setting.batches)
    return [as_tensors([pairs[i] for i in indices]) for indices in taken], vocab_size


def at_random(setting: Setting, size: int) -> tuple[list[Batch], int]:
    """Returns batches of ``size`` random sentences, and the size of the vocabulary."""
    pairs, vocab_size = prepare(setting)
    rng = random.Random(setting.seed)
    count = WARM_UP + setting.batches
    return [as_tensors(rng.sample(pairs, size)) for _ in range(count)], vocab_size


def prepare(setting: Setting) -> tuple[list[Pair], int]:
    torch.set_num_threads(setting.threads)
    torch.manual_seed(setting.seed)
    return read_pairs(setting.data)


def warmed_up(step: Step, batches: Sequence[Batch]) -> Rate:
    """Returns the speed of ``step`` by the number of a batch, after a few steps of warm-up."""
    for batch in batches[:WARM_UP]:
        step(batch, LEARNING_RATE)
    return lambda number: rate_of(step, batches[WARM_UP + number])


def take_turns(contestants: Sequence[Contestant], batches: int) -> list[list[float]]:
    """Returns the speed of each contestant for every batch, and ends the contestants."""
    rates: list[list[float]] = [[] for _ in contestants]
    for start in range(0, batches, TURN):
        for contestant, rates_of_one in zip(contestants, rates, strict=True):
            rates_of_one += contestant.call(range(start, min(start + TURN, batches)))[1]
    for contestant in contestants:
        contestant.end()
    return rates


@click.command()
@click.option("--data", type=PATH, required=True, help="A folder with train.de and train.en.")
@click.option("--threads", default=2, show_default=True)
@click.option(
    "--batches", default=40, show_default=True, help="The number of batches for each contestant."
)
@click.option("--batch-tokens", default=2500, show_default=True)
@click.option("--seed", default=1, show_default=True)
def main(data: Path, threads: int, batches: int, batch_tokens: int, seed: int) -> None:
    setting = Setting(data, threads, batches, batch_tokens, seed)
    contestants = [
        Contestant("ours", ours, setting),
        Contestant("plain", plain, setting),
        Contestant("tutorial", tutorial, setting),
        Contestant("limit", limit, setting),
    ]
    rates = take_turns(contestants, batches)
    print(f"torch {torch.__version__}, {threads} threads, batches of {batch_tokens} tokens\n")
    print("| contestant | target tokens per second | speed of ours, relative to it |")
    print("|---|---|---|")
    for contestant, rates_of_one in zip(contestants, rates, strict=True):
        ratio = median(own / other for own, other in zip(rates[0], rates_of_one, strict=True))
        print(f"| {contestant.name} | {median(rates_of_one):,.0f} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
