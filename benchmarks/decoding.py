#!/usr/bin/env python3
"""Measures the speed of translation: a tutorial's loop, CTranslate2 and this program.

All use the same weights, sentences, rules and number of threads. They take turns in every round.
Each ratio is the median over the rounds of the ratio within a round. The table goes to stdout.
CTranslate2 runs in two ways: with all threads on one operation, which is its default, and with one
thread for each of several batches.

    python -m benchmarks.decoding --data FOLDER
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import click
import sacrebleu
import torch

from benchmarks.baselines import Contestant
from benchmarks.engines import Ids, ctranslate2_engine, ours, tutorial_loop
from tasks.commands.options import PATH
from tasks.runs.checkpoint_folder import model_folder
from tasks.translation.export import to_ctranslate2
from tasks.translation.predict import Translator

WIDTHS = (1, 5)
BATCH_SIZE = 128  # of CTranslate2: the fastest of 32, 64 and 128
ROOT = Path(__file__).resolve().parents[1]


@click.command()
@click.option("--data", type=PATH, required=True, help="A folder with the two files below.")
@click.option("--source", default="test_2016_flickr.de", show_default=True)
@click.option("--reference", default="test_2016_flickr.en", show_default=True)
@click.option("--model", type=PATH, help="A checkpoint folder; by default the model that ships.")
@click.option("--threads", default=2, show_default=True)
@click.option("--rounds", default=5, show_default=True)
@click.option("--latency-sentences", default=200, show_default=True)
@click.option("--memory/--no-memory", default=False, help="Measure the memory for files, too.")
def main(
    data: Path,
    source: str,
    reference: str,
    model: Path | None,
    threads: int,
    rounds: int,
    latency_sentences: int,
    memory: bool,
) -> None:
    torch.set_num_threads(threads)
    translator = Translator.load(model, device="cpu")
    texts = (data / source).read_text(encoding="utf-8").splitlines()
    references = (data / reference).read_text(encoding="utf-8").splitlines()
    sources = [translator.source.encode(text) for text in texts]
    print(f"{len(sources)} sentences, {threads} threads, torch {torch.__version__}\n")
    with tempfile.TemporaryDirectory() as folder:
        export = Path(folder) / "ctranslate2"
        to_ctranslate2(translator, model_folder("translation", model), export)
        words = list(translator.source.vocabulary.itos)
        for width in WIDTHS:
            options = translator.config.generation.replaced(beam_size=width)
            engines = [Contestant("ours, float32", ours, model, threads, options)]
            for compute_type in ("float32", "int8"):
                for workers in (1, threads):
                    how = f"{workers} workers" if workers > 1 else f"{threads} threads an operation"
                    arguments = (export, words, threads, options, compute_type, workers, BATCH_SIZE)
                    name = f"CTranslate2, {compute_type}, {how}"
                    engines.append(Contestant(name, ctranslate2_engine, *arguments))
            single = []
            if width == 1:
                single.append(Contestant("tutorials' loop", tutorial_loop, model, threads))
            print(f"### Beam {width}: all sentences\n")
            print_throughput(engines, single, sources, references, translator, rounds)
            print(f"\n### Beam {width}: one sentence at a time\n")
            print_latency(engines, sources[:latency_sentences])
            print(flush=True)
            for engine in (*engines, *single):
                engine.end()
    if memory:
        print_memory(texts, model, threads)


def print_throughput(
    engines: Sequence[Contestant],
    single: Sequence[Contestant],
    sources: Ids,
    references: Sequence[str],
    translator: Translator,
    rounds: int,
) -> None:
    """Prints a row for each engine. The slow ones, ``single``, run in the first round only."""
    for engine in engines:
        engine.call([sources[:50]])  # warms it up
    outputs: dict[str, Ids] = {}
    seconds: dict[str, list[float]] = {e.name: [] for e in (*engines, *single)}
    for number in range(rounds):
        for engine in (*engines, *(single if number == 0 else ())):
            (duration,), (outputs[engine.name],) = engine.call([sources])
            seconds[engine.name].append(duration)
    first = engines[0].name
    print("| engine | seconds | time relative to ours, float32 | same outputs | BLEU |")
    print("|---|---|---|---|---|")
    for name, times in seconds.items():
        ratio = median(other / own for other, own in zip(times, seconds[first], strict=False))
        same = sum(a == b for a, b in zip(outputs[name], outputs[first], strict=True))
        texts = [translator.target.decode(ids) for ids in outputs[name]]
        bleu = sacrebleu.corpus_bleu(texts, [list(references)]).score
        print(f"| {name} | {median(times):.2f} | {ratio:.2f} | {same} | {bleu:.2f} |")


def print_latency(engines: Sequence[Contestant], sources: Ids) -> None:
    """Prints the median time for a single sentence. The engines take turns every ten sentences."""
    seconds: dict[str, list[float]] = {engine.name: [] for engine in engines}
    for start in range(0, len(sources), 10):
        for engine in engines:
            times, _ = engine.call([[source] for source in sources[start : start + 10]])
            seconds[engine.name] += times
    own = median(seconds[engines[0].name])
    print("| engine | milliseconds (median) | time relative to ours, float32 |")
    print("|---|---|---|")
    for name, times in seconds.items():
        print(f"| {name} | {1000 * median(times):.1f} | {median(times) / own:.2f} |")


def print_memory(texts: Sequence[str], model: Path | None, threads: int) -> None:
    """Prints the peak memory of ``cli.py translate --beam 1`` for a short and for a long file."""
    print("### Peak memory of `cli.py translate --input FILE --beam 1`\n")
    print("| lines | megabytes |")
    print("|---|---|")
    for count in (1_000, 100_000):
        repeated = (list(texts) * (count // len(texts) + 1))[:count]
        print(f"| {count:,} | {_peak_megabytes(repeated, model, threads):.0f} |", flush=True)


def _peak_megabytes(texts: Sequence[str], model: Path | None, threads: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "in.txt", Path(folder) / "out.txt"
        source.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
        words = ["translate", "--input", source, "--output", target, "--beam", "1"]
        words += ["--threads", threads, *(("--model", model) if model else ())]
        # In a process of its own, whose only child is the program.
        measure = (
            "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True); "
            "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
        )
        command = [sys.executable, "-c", measure, sys.executable, ROOT / "cli.py", *words]
        run = subprocess.run(
            [str(word) for word in command], check=True, stdout=subprocess.PIPE, text=True
        )
        assert len(target.read_text(encoding="utf-8").splitlines()) == len(texts)
        kilobytes = int(run.stdout)
    return kilobytes / 1024


if __name__ == "__main__":
    main()
