#!/usr/bin/env python3
"""Measures translation from text to text: this program, CTranslate2 and a tutorial's loop.

All use the same weights, sentences, tokenization and number of threads. They take turns in every
round, each in a process of its own. Each ratio is the median over the rounds of the ratio within a
round. The best configuration of each engine comes first. The tables go to stdout.

    python -m benchmarks.decoding --data FOLDER
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import click
import ctranslate2
import sacrebleu
import torch

from benchmarks.baselines import Contestant
from benchmarks.engines import ctranslate2_engine, ours, service, tutorial_loop
from benchmarks.serving import running_service
from tasks.commands.options import PATH

WIDTHS = (1, 5)
ROOT = Path(__file__).resolve().parents[1]

MEASURE = """
import json, resource, subprocess, sys, time
start = time.perf_counter()
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
seconds = [time.perf_counter() - start, used.ru_utime + used.ru_stime]
print(json.dumps([*seconds, used.ru_maxrss / 1024]))
"""


@click.command()
@click.option("--data", type=PATH, required=True, help="A folder with the two files below.")
@click.option("--source", default="test_2016_flickr.de", show_default=True)
@click.option("--reference", default="test_2016_flickr.en", show_default=True)
@click.option("--model", type=PATH, help="A checkpoint folder; by default the model that ships.")
@click.option("--threads", default=2, show_default=True)
@click.option("--sentences", default=1000, show_default=True)
@click.option("--rounds", default=5, show_default=True)
@click.option("--latency-sentences", default=200, show_default=True)
@click.option("--starts", default=5, show_default=True, help="How often the command is started.")
@click.option("--tutorial/--no-tutorial", default=True, help="The tutorials' loop takes a minute.")
@click.option("--memory/--no-memory", default=False, help="Measure the memory for files, too.")
def main(
    data: Path,
    source: str,
    reference: str,
    model: Path | None,
    threads: int,
    sentences: int,
    rounds: int,
    latency_sentences: int,
    starts: int,
    tutorial: bool,
    memory: bool,
) -> None:
    texts, references = (
        (data / name).read_text(encoding="utf-8").splitlines()[:sentences]
        for name in (source, reference)
    )
    versions = f"torch {torch.__version__}, CTranslate2 {ctranslate2.__version__}"
    print(f"{processor()}; {threads} threads; {len(texts)} sentences; {versions}\n", flush=True)
    limits = ("--max-texts=10000", "--max-body=10000000", "--rate-limit=0")
    own = ("--only=translation", "--int8", *((f"--translation={model}",) if model else ()))
    with running_service(f"--threads={threads}", *limits, *own) as port:
        engines = contestants(model, threads, port)
        loop = Contestant("the tutorials' loop", tutorial_loop, model, threads)
        for width in WIDTHS:
            print(f"### Beam {width}: all sentences\n")
            slow = loop if width == 1 and tutorial else None
            print_throughput(engines, slow, texts, references, width, rounds)
            print(f"\n### Beam {width}: one sentence at a time, the median\n")
            print_latency(engines, texts[:latency_sentences], width)
            print(flush=True)
        for engine in (*engines, loop):
            engine.end()
    print_starts(texts[:8], model, threads, starts)
    if memory:
        print_memory(texts, model, threads)


def contestants(model: Path | None, threads: int, port: int) -> list[Contestant]:
    """Returns all engines, the first of which is the one that the others are compared with."""
    kinds: list[tuple[str, Callable[..., Any], tuple[Any, ...]]] = [
        ("this program, `--int8`", ours, ("ctranslate2", True)),
        ("this program, `--engine ctranslate2`, float32", ours, ("ctranslate2", False)),
        ("**this program, float32**", ours, ("torch", False)),
        ("its service, `--int8` (the CPU is the client's)", service, (port,)),
    ]
    for workers, how in ((threads, f"{threads} workers"), (1, f"{threads} threads an operation")):
        for compute_type in ("int8", "float32"):
            name = f"CTranslate2, {compute_type}, {how}"
            kinds.append((name, ctranslate2_engine, (workers, compute_type)))
    return [Contestant(name, make, model, threads, *rest) for name, make, rest in kinds]


def print_throughput(
    engines: Sequence[Contestant],
    slow: Contestant | None,
    texts: list[str],
    references: list[str],
    width: int,
    rounds: int,
) -> None:
    """Prints a row for each engine; ``slow`` runs in the first round only."""
    outputs: dict[str, list[str]] = {}
    seconds: dict[str, list[float]] = {}
    used: dict[str, list[float]] = {}
    for engine in engines:
        engine.call([(texts[:50], width)])  # warms it up
    for number in range(rounds):
        for engine in (*engines, *((slow,) if slow and number == 0 else ())):
            (duration,), (outputs[engine.name],) = engine.call([(texts, width)])
            seconds.setdefault(engine.name, []).append(duration)
            used.setdefault(engine.name, []).append(engine.cpu_seconds)
    fastest = next(each.name for each in engines if each.name.startswith("CTranslate2, int8"))
    own = next(each.name for each in engines if each.name.startswith("**"))
    print("| | seconds | CPU seconds | time / CTranslate2 int8 | equal | BLEU | memory, MB |")
    print("|---|---|---|---|---|---|---|")
    for engine in (*engines, *((slow,) if slow else ())):
        times, found = seconds[engine.name], outputs[engine.name]
        ratio = median(a / b for a, b in zip(times, seconds[fastest], strict=False))
        same = sum(a == b for a, b in zip(found, outputs[own], strict=True))
        bleu = sacrebleu.corpus_bleu(found, [references]).score
        cells = f"{median(times):.2f} | {median(used[engine.name]):.2f} | {ratio:.2f}"
        print(f"| {engine.name} | {cells} | {same} | {bleu:.2f} | {engine.megabytes:.0f} |")


def print_latency(engines: Sequence[Contestant], texts: list[str], width: int) -> None:
    """Prints the time for a single sentence. The engines take turns every ten sentences."""
    seconds: dict[str, list[float]] = {engine.name: [] for engine in engines}
    used = dict.fromkeys(seconds, 0.0)
    for start in range(0, len(texts), 10):
        for engine in engines:
            times, _ = engine.call([([text], width) for text in texts[start : start + 10]])
            seconds[engine.name] += times
            used[engine.name] += engine.cpu_seconds
    best = min(median(seconds[name]) for name in seconds if name.startswith("CTranslate2, int8"))
    print("| | milliseconds | CPU milliseconds (mean) | time / CTranslate2 int8 |")
    print("|---|---|---|---|")
    for name, times in seconds.items():
        mean, middle = 1000 * used[name] / len(times), 1000 * median(times)
        print(f"| {name} | {middle:.1f} | {mean:.1f} | {middle / 1000 / best:.2f} |")


def print_starts(texts: list[str], model: Path | None, threads: int, starts: int) -> None:
    """Prints what the command needs for a few sentences, from its start to its end."""
    translate = [ROOT / "cli.py", "translate", *texts, "--threads", threads]
    translate += ["--model", model] if model else []
    commands: dict[str, list[Any]] = {
        f"`cli.py translate`, {len(texts)} sentences": translate,
        "with `--beam 1`": [*translate, "--beam", 1],
        "with `--int8`": [*translate, "--int8"],
        "`import torch` alone": ["-c", "import torch"],
    }
    found: dict[str, list[list[float]]] = {name: [] for name in commands}
    for _ in range(starts):
        for name, words in commands.items():
            found[name].append(measured(words))
    print("### The command\n\n| | seconds | CPU seconds | memory, MB |\n|---|---|---|---|")
    for name, rows in found.items():
        wall, cpu, megabytes = map(median, zip(*rows, strict=True))
        print(f"| {name} | {wall:.2f} | {cpu:.2f} | {megabytes:.0f} |", flush=True)


def print_memory(texts: Sequence[str], model: Path | None, threads: int) -> None:
    """Prints the peak memory of ``cli.py translate --beam 1`` for a short and for a long file."""
    print("\n### Peak memory of `cli.py translate --input FILE --beam 1`\n")
    print("| lines | megabytes |\n|---|---|")
    for count in (1_000, 100_000):
        with tempfile.TemporaryDirectory() as folder:
            source, target = Path(folder) / "in.txt", Path(folder) / "out.txt"
            lines = (list(texts) * (count // len(texts) + 1))[:count]
            source.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            words = [ROOT / "cli.py", "translate", "--input", source, "--output", target]
            words += ["--beam", 1, "--threads", threads, *(("--model", model) if model else ())]
            _, _, megabytes = measured(words)
            assert len(target.read_text(encoding="utf-8").splitlines()) == count
        print(f"| {count:,} | {megabytes:.0f} |", flush=True)


def measured(words: Sequence[object]) -> list[float]:
    """Returns the seconds, CPU seconds and peak megabytes of Python with these arguments."""
    # It is the only child of a process of its own.
    command = [sys.executable, "-c", MEASURE, sys.executable, *map(str, words)]
    run = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    numbers: list[float] = json.loads(run.stdout)
    return numbers


def processor() -> str:
    """Returns the name of the processor."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    fields = dict(line.replace("\t", "").split(": ", 1) for line in lines if ": " in line)
    family = f"family {fields.get('cpu family')}, model {fields.get('model')}"
    has_vnni = "with" if "avx512_vnni" in fields.get("flags", "") else "without"
    return f"{fields.get('model name', 'an unknown processor')} ({family}), {has_vnni} VNNI"


if __name__ == "__main__":
    main()
