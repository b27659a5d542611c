#!/usr/bin/env python3
"""How fast a translation model is trained: this program, ``torch.nn.Transformer``, and the limit.

The model is the same in all: 3 + 3 layers, d_model 256, 512 inside, 4 heads, one joint vocabulary,
dropout 0.3, label smoothing 0.1, float32. The rivals take turns of a few batches, each in a process
of its own, and every ratio is the median over the batches. What is counted is target tokens,
padding left out, for each second.

* plain: ``torch.nn.Transformer`` on the very batches of this program, with its optimizer; as it is,
  and with the settings of the C library's memory that this program makes for itself;
* tutorial: the same on 128 random sentences a batch, padded to the longest;
* limit: the matrix products of a step of this program, done at the rate that a large matrix product
  reaches beside it, and nothing else.

    python -m benchmarks.training --data FOLDER
"""

from __future__ import annotations

import math
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from statistics import median

import click
import torch
from torch import Tensor, nn

from benchmarks.rivals import Rival
from transformer_suite.core.model.config import TransformerConfig
from transformer_suite.core.training.config import TrainConfig
from transformer_suite.core.training.memory import keep_freed_memory
from transformer_suite.core.training.run import Run
from transformer_suite.data.batching import bucket_by_length
from transformer_suite.data.vocabulary import PAD_ID
from transformer_suite.tasks.commands.console import PATH
from transformer_suite.tasks.seq2seq.batches import Pair, as_tensors
from transformer_suite.tasks.seq2seq.objective import pair_loss
from transformer_suite.tasks.translation.model import TranslationModel
from transformer_suite.tasks.translation.predict import Translator

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
"""One step over a batch at a learning rate."""

Rate = Callable[[int], float]
"""From the number of a batch to its target tokens a second."""


@dataclass(frozen=True)
class Setting:
    """What all rivals have in common."""

    data: Path
    threads: int
    batches: int
    batch_tokens: int
    seed: int = 1


WARM_UP = 4
TURN = 5
"""So many batches one after another, before it is the next one's turn."""


class PlainTransformer(nn.Module):
    """The model that tutorials build around ``torch.nn.Transformer``."""

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


def our_step(vocab_size: int, folder: Path) -> tuple[Step, TranslationModel]:
    """A step of this program's training, as ``core.training.fit.fit`` takes it, and its model."""
    model = TranslationModel(vocab_size, vocab_size, MODEL, share_embeddings=True)
    model.train()
    config = TrainConfig(precision="fp32", label_smoothing=LABEL_SMOOTHING)
    run = Run(model, config, folder, torch.device("cpu"), "loss")
    loss = pair_loss(model, LABEL_SMOOTHING)
    return lambda batch, rate: void(run.step([batch], loss, rate)), model


def plain_step(vocab_size: int, *, fused: bool) -> tuple[Step, PlainTransformer]:
    """A step as it is usually written, and its model."""
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
    """The floating-point operations of a step's matrix products: two for each weight and position
    forwards, and twice as many backwards; attention over the padded lengths, the output layer over
    the words alone."""
    src, tgt = batch
    width, inner = MODEL.d_model, MODEL.dim_feedforward
    s, t, b = len(src), len(tgt) - 1, src.shape[1]
    words = int((tgt[1:] != PAD_ID).sum())
    encoder = s * b * (4 * width * width + 2 * width * inner + 2 * s * width)
    decoder = t * b * (6 * width * width + 2 * width * inner + 2 * (t + s) * width)
    decoder += s * b * 2 * width * width  # the memory's keys and values
    layers = encoder * MODEL.num_encoder_layers + decoder * MODEL.num_decoder_layers
    return 3.0 * 2.0 * (layers + words * width * vocab_size)


def large_product_rate(size: int = 2048) -> float:
    """Floating-point operations a second of a large matrix product, the better of two."""
    a, b = torch.randn(size, size), torch.randn(size, size)
    seconds = []
    for _ in range(2):
        started = time.perf_counter()
        torch.mm(a, b)
        seconds.append(time.perf_counter() - started)
    return 2.0 * size**3 / min(seconds)


def rate_of(step: Step, batch: Batch) -> float:
    """Target tokens a second."""
    started = time.perf_counter()
    step(batch, LEARNING_RATE)
    return target_tokens(batch) / (time.perf_counter() - started)


def target_tokens(batch: Batch) -> int:
    return int((batch[1][1:] != PAD_ID).sum())


def read_pairs(data: Path, part: str = "train") -> tuple[list[Pair], int]:
    """The pairs of ``part``, in the vocabulary of the model that ships, and its size."""
    translator = Translator.load(device="cpu")
    sides = [
        [codec.encode(line) for line in (data / f"{part}.{name}").read_text("utf-8").splitlines()]
        for name, codec in (("de", translator.source), ("en", translator.target))
    ]
    return list(zip(*sides, strict=True)), len(translator.source.vocabulary)


def void(_: object) -> None:
    """Takes anything, and returns nothing."""


def ours(setting: Setting) -> Rate:
    """A step of this program, in the buckets that it trains on."""
    batches, vocab_size = in_buckets(setting)
    keep_freed_memory()  # as ``core.training.fit.fit`` does
    with tempfile.TemporaryDirectory() as folder:
        return warmed_up(our_step(vocab_size, Path(folder))[0], batches)


def plain(setting: Setting) -> Rate:
    """A plain step over the same batches."""
    batches, vocab_size = in_buckets(setting)
    return warmed_up(plain_step(vocab_size, fused=True)[0], batches)


def plain_keeping_memory(setting: Setting) -> Rate:
    keep_freed_memory()
    return plain(setting)


def tutorial(setting: Setting) -> Rate:
    """A plain step over random sentences."""
    batches, vocab_size = at_random(setting, 128)
    return warmed_up(plain_step(vocab_size, fused=False)[0], batches)


def limit(setting: Setting) -> Rate:
    """The matrix products of this program's batches at the rate of a large one."""
    batches, vocab_size = in_buckets(setting)

    def rate(number: int) -> float:
        batch = batches[WARM_UP + number]
        return target_tokens(batch) * large_product_rate() / matrix_products(batch, vocab_size)

    return rate


def in_buckets(setting: Setting) -> tuple[list[Batch], int]:
    """The first batches of an epoch, and the size of the vocabulary."""
    pairs, vocab_size = prepare(setting)
    lengths = [(len(source) + 1, len(target) + 1) for source, target in pairs]
    buckets = bucket_by_length(lengths, batch_tokens=setting.batch_tokens, seed=setting.seed)
    taken = islice(cycle(buckets), WARM_UP + setting.batches)
    return [as_tensors([pairs[i] for i in indices]) for indices in taken], vocab_size


def at_random(setting: Setting, size: int) -> tuple[list[Batch], int]:
    """Batches of ``size`` sentences of any length, and the size of the vocabulary."""
    pairs, vocab_size = prepare(setting)
    chance = random.Random(setting.seed)
    count = WARM_UP + setting.batches
    return [as_tensors(chance.sample(pairs, size)) for _ in range(count)], vocab_size


def prepare(setting: Setting) -> tuple[list[Pair], int]:
    torch.set_num_threads(setting.threads)
    torch.manual_seed(setting.seed)
    return read_pairs(setting.data)


def warmed_up(step: Step, batches: Sequence[Batch]) -> Rate:
    """The rate of ``step`` by the number of a batch, after a few batches more."""
    for batch in batches[:WARM_UP]:
        step(batch, LEARNING_RATE)
    return lambda number: rate_of(step, batches[WARM_UP + number])


def take_turns(rivals: Sequence[Rival], batches: int) -> list[list[float]]:
    """The rates of each of ``rivals`` for every batch; ends them."""
    rates: list[list[float]] = [[] for _ in rivals]
    for start in range(0, batches, TURN):
        for rival, of_rival in zip(rivals, rates, strict=True):
            of_rival += rival.call(range(start, min(start + TURN, batches)))[1]
    for rival in rivals:
        rival.end()
    return rates


@click.command()
@click.option("--data", type=PATH, required=True, help="A folder with train.de and train.en.")
@click.option("--threads", default=2, show_default=True)
@click.option("--batches", default=40, show_default=True, help="So many for each rival.")
@click.option("--batch-tokens", default=2500, show_default=True)
@click.option("--seed", default=1, show_default=True)
def main(data: Path, threads: int, batches: int, batch_tokens: int, seed: int) -> None:
    setting = Setting(data, threads, batches, batch_tokens, seed)
    rivals = [
        Rival("ours", ours, setting),
        Rival("plain", plain, setting),
        Rival("plain, freed memory kept", plain_keeping_memory, setting),
        Rival("tutorial", tutorial, setting),
        Rival("limit", limit, setting),
    ]
    rates = take_turns(rivals, batches)
    print(f"torch {torch.__version__}, {threads} threads, batches of {batch_tokens} tokens\n")
    print("| rival | target tokens a second | ours is so many times as fast |")
    print("|---|---|---|")
    for rival, of_rival in zip(rivals, rates, strict=True):
        ratio = median(own / other for own, other in zip(rates[0], of_rival, strict=True))
        print(f"| {rival.name} | {median(of_rival):,.0f} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
