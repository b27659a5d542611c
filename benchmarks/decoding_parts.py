#!/usr/bin/env python3
"""Measures the gain of each optimization of decoding: the time without it over the time with it.

Every variant leaves one optimization out. The variants take turns in every round, and ratios are
medians over the rounds. All float32 variants must give the same outputs. The table goes to stdout.

    python -m benchmarks.decoding_parts --data FOLDER
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from statistics import median
from unittest.mock import patch

import click
import torch
import torch.nn.functional as F
from torch import Tensor

from core.decoding.config import GenerationConfig
from core.inference import packed_linear as packed_linear_module
from core.inference.incremental_model import IncrementalModel
from tasks.commands.options import PATH
from tasks.seq2seq import generation as generation_module
from tasks.seq2seq.generation import EncodedTexts
from tasks.seq2seq.request import GenerationRequest
from tasks.translation.predict import Translator

Optimization = Callable[[], AbstractContextManager[object]]


class UnpackedLinear:
    """The layer as PyTorch computes it, with the interface of ``PackedLinear``."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self.weight, self.bias = weight.detach(), None if bias is None else bias.detach()

    def __call__(self, x: Tensor, *, relu: bool = False) -> Tensor:
        y = F.linear(x, self.weight, self.bias)
        return y.relu_() if relu else y

    def added_to(self, residual: Tensor, x: Tensor) -> Tensor:
        return residual + self(x)


def in_order(lengths: Sequence[object], *, batch_tokens: int, seed: int | None) -> list[list[int]]:
    """Returns batches of 128 in the order of the input."""
    return [list(range(len(lengths)))[i : i + 128] for i in range(0, len(lengths), 128)]


@contextmanager
def one_batch_at_a_time() -> Iterator[None]:
    def one_by_one(function: object, items: object, *, workers: object) -> object:
        return map(function, items)  # type: ignore[call-overload]

    with patch.object(generation_module, "map_on_cores", one_by_one):
        yield


OPTIMIZATIONS: dict[str, Optimization] = {
    "nothing": nullcontext,
    "fp16 weights for few rows": lambda: patch.object(packed_linear_module, "_FEW_ROWS", 0),
    "packed weights": lambda: patch.object(packed_linear_module, "PackedLinear", UnpackedLinear),
    "batches in parallel (operations split instead)": one_batch_at_a_time,
    "batches of one length": lambda: patch.object(generation_module, "bucket_by_length", in_order),
    "two threads for a single sentence (one instead)": lambda: patch.object(
        generation_module, "_FEW_THREADS", 1
    ),
    "one hypothesis wanted (the whole beam instead)": nullcontext,
}


@click.command()
@click.option("--data", type=PATH, required=True, help="A folder with test_2016_flickr.de.")
@click.option("--threads", default=2, show_default=True)
@click.option("--rounds", default=5, show_default=True)
@click.option(
    "--alone",
    default=50,
    show_default=True,
    help="Sentences translated one at a time.",
)
def main(data: Path, threads: int, rounds: int, alone: int) -> None:
    torch.set_num_threads(threads)
    translator = Translator.load(device="cpu")
    texts = (data / "test_2016_flickr.de").read_text(encoding="utf-8").splitlines()
    sources = [translator.source.encode(text) for text in texts]
    columns = {
        f"beam {width}, {how}": measure(translator, texts_at_a_time, width, rounds)
        for how, texts_at_a_time in (
            ("all at a time", [sources]),
            ("one at a time", [[source] for source in sources[:alone]]),
        )
        for width in (1, 5)
    }
    print(f"| without | {' | '.join(columns)} |")
    print(f"|---{'|---' * len(columns)}|")
    for name in OPTIMIZATIONS:
        cells = (f"{column[name]:.2f}" if name in column else "" for column in columns.values())
        print(f"| {name} | {' | '.join(cells)} |")


def measure(
    translator: Translator, batches: Sequence[Sequence[Sequence[int]]], width: int, rounds: int
) -> dict[str, float]:
    """Returns the time without each optimization, divided by the time with all of them."""
    whole = translator.config.generation.replaced(beam_size=width)
    options: dict[str, GenerationConfig] = dict.fromkeys(OPTIMIZATIONS, whole)
    whole_beam = "one hypothesis wanted (the whole beam instead)"
    options[whole_beam] = whole.replaced(n_best=width)
    if width == 1:
        del options[whole_beam]
    seconds: dict[str, list[float]] = {name: [] for name in options}
    outputs = {}
    for _ in range(rounds):
        for name, config in options.items():

            def generate(
                model: IncrementalModel,
                sources: Sequence[Sequence[int]],
                config: GenerationConfig = config,
            ) -> list[list[int]]:
                texts = EncodedTexts(segments=[[source] for source in sources])
                found = generation_module.search_segments(
                    model, texts, config, GenerationRequest(), translator.device
                )
                return [result.hypotheses[0].tokens for result in found]

            with OPTIMIZATIONS[name]():
                # A snapshot of its own, because some variants change how it is made.
                model = IncrementalModel(translator.models[0])
                generate(model, batches[0][:1])
                started = time.perf_counter()
                outputs[name] = [generate(model, sources) for sources in batches]
                seconds[name].append(time.perf_counter() - started)
    for name in options:
        assert outputs[name] == outputs["nothing"], name
    return {
        name: median(a / b for a, b in zip(times, seconds["nothing"], strict=True))
        for name, times in seconds.items()
    }


if __name__ == "__main__":
    main()
