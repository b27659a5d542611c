"""Couplet models side by side: perplexity, BLEU, variety of the answers, rules, time.

    python -m benchmarks.couplets --data couplet --model runs/couplet --plain runs/plain
    python -m benchmarks.couplets --data couplet --train-plain runs/plain --set train.epochs=2

The baseline is the plain Transformer of the tutorials, with the sizes of our default: post-norm,
three embedding tables, attention alone to find the character that is answered, the schedule of the
paper, greedy answers without rules.
"""

from __future__ import annotations

import argparse
import math
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import sacrebleu
import torch

from core.config import complete, override, to_mapping
from core.inference.incremental_model import greedy_decode
from core.model.sequence_to_sequence import SequenceToSequence
from core.storage.checkpoint import WEIGHTS_FILE, load_model
from data.codec import TextCodec
from tasks.couplet.config import (
    CoupletConfig,
    CoupletTransformerConfig,
    laptop,
)
from tasks.couplet.dataset import TOKENIZER, LoadCoupletDataset
from tasks.couplet.evaluate import shares
from tasks.couplet.predict import CoupletWriter
from tasks.couplet.rules import check
from tasks.couplet.tones import is_punctuation
from tasks.couplet.train import CoupletTraining
from tasks.runs import run
from tasks.runs.checkpoint_folder import model_folder, read_config
from tasks.runs.training import RunOptions
from tasks.seq2seq.batches import source_tensor
from tasks.seq2seq.objective import measure_pairs

CPU = torch.device("cpu")
FIVE = "晚风摇树树还挺"
WAYS = {"beam 5": {"beam_size": 5}, "candidates": {"candidates": 1}}
"""The options of each way to answer within the form."""


def plain_config() -> CoupletConfig:
    """Returns the tutorials' configuration of training, with the sizes of our default model."""
    config = laptop()
    own = {"aligned": False, "norm_first": False, "positions": "sinusoidal"}
    sizes = to_mapping(config.model) | own
    return replace(
        config,
        model=complete(CoupletTransformerConfig, None, sizes),
        train=replace(config.train, schedule="noam", average=0, clip_norm=0.0),
    )


def plain_model(vocab_size: int, config: CoupletTransformerConfig) -> SequenceToSequence:
    """Returns a Transformer with a table for each line and another for the output."""
    return SequenceToSequence(
        vocab_size, vocab_size, config, share_embeddings=False, tie_output=False
    )


class PlainTraining(CoupletTraining):
    """The training of such a model."""

    model_class = staticmethod(plain_model)


def load_plain(folder: Path) -> CoupletWriter:
    """Loads a model that ``--train-plain`` has left."""
    config = read_config(folder, "couplet", CoupletConfig)
    codec = TextCodec.load(folder, tokenizer=TOKENIZER)
    make = partial(plain_model, len(codec.vocabulary), config.model)
    model = load_model(folder / WEIGHTS_FILE, make).eval().requires_grad_(False)
    return CoupletWriter([model], codec, config, CPU)


def greedy_without_rules(writer: CoupletWriter, firsts: Sequence[str]) -> list[str]:
    """Returns the greedy answers, whose form nothing but their length is forced into."""
    codec = writer.codec
    src = source_tensor([codec.vocabulary.encode([*first]) for first in firsts])
    limits = torch.tensor([len(first) for first in firsts])
    return [codec.decode(ids) for ids in greedy_decode(writer.models[0], src, max_lengths=limits)]


def row(name: str, pairs: Sequence[tuple[str, str]], answers: Sequence[str], seconds: float) -> str:
    """Returns a line of the table: BLEU, variety, rules, and the time of one answer."""
    bleu = sacrebleu.BLEU(tokenize="char").corpus_score(answers, [[second for _, second in pairs]])
    counts = Counter("".join(answers))
    words = [(c, count) for c, count in counts.most_common(9) if not is_punctuation(c)]
    often = " ".join(f"{character} {count}" for character, count in words[:5])
    kept = shares([check(first, a) for (first, _), a in zip(pairs, answers, strict=True)])
    least = min(kept, key=lambda rule: kept[rule])
    return (
        f"| {name} | {bleu.score:.2f} | {len(counts)} | {often} | "
        f"{100 * kept[least]:.1f}% ({least}) | {1000 * seconds / len(pairs):.0f} ms |"
    )


def measure(
    name: str, writer: CoupletWriter, data: LoadCoupletDataset, lines: int, ways: Sequence[str]
) -> None:
    """Prints the rows of one model, one for each of ``ways`` and one for greedy search."""
    pairs = data.read("test")[:lines]
    firsts = [first for first, _ in pairs]
    for way in ways:
        begun = time.perf_counter()
        answers = [found.second for found in writer.answer_scored(firsts, **WAYS[way])]
        print(row(f"{name}, {way}", pairs, answers, time.perf_counter() - begun), flush=True)
    begun = time.perf_counter()
    answers = greedy_without_rules(writer, firsts)
    print(row(f"{name}, greedy, no rules", pairs, answers, time.perf_counter() - begun))
    examples = data.encoded("test", max_len=writer.max_len)
    loss = measure_pairs(writer.models, examples, batch_tokens=4000, device=CPU)["loss"]
    writer.answer(FIVE, candidates=5)  # the dictionary of readings is loaded now
    begun = time.perf_counter()
    writer.answer_scored(FIVE, candidates=5)
    print(
        f"\n{name}: perplexity {math.exp(loss):.1f} a character on all {len(examples):,} test "
        f"couplets, five candidates in {time.perf_counter() - begun:.2f} s\n",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare couplet models.")
    parser.add_argument("--data", type=Path, required=True, help="folders train, val, test")
    parser.add_argument("--model", type=Path, action="append", default=[], help="may be repeated")
    parser.add_argument("--plain", type=Path, action="append", default=[], help="may be repeated")
    parser.add_argument("--train-plain", type=Path, metavar="FOLDER", help="train a baseline there")
    parser.add_argument("--resume", action="store_true", help="with --train-plain")
    parser.add_argument("--set", action="append", default=[], help="with --train-plain")
    parser.add_argument("--lines", type=int, default=400, help="the first lines to answer")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.train_plain is not None:
        run_options = RunOptions(
            data=options.data, out=options.train_plain, device=CPU, resume=options.resume
        )
        config = override(plain_config(), options.set)
        run.train(config, run_options, PlainTraining, task="couplet")
        return
    writers = {str(path): CoupletWriter.load(path, device="cpu") for path in options.model}
    plain = {f"plain {path}": load_plain(path) for path in options.plain}
    writers |= plain
    if not writers:
        writers["shipped"] = CoupletWriter.load(model_folder("couplet", None), device="cpu")
    print("| model and search | BLEU | distinct | most often | least kept rule | an answer |")
    print("|---|---|---|---|---|---|")
    first = next(iter(writers.values()))
    data = LoadCoupletDataset(options.data, first.config.data, seed=1, codec=first.codec)
    pairs = data.read("test")[: options.lines]
    print(row("the references", pairs, [second for _, second in pairs], 0.0))
    for name, writer in writers.items():
        data = LoadCoupletDataset(options.data, writer.config.data, seed=1, codec=writer.codec)
        ways = [*WAYS] if name not in plain else ["beam 5"]
        measure(name, writer, data, options.lines, ways)


if __name__ == "__main__":
    main()
