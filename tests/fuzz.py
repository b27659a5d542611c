"""Tries damaged files, hostile texts, corpora, options and requests on all commands.

    python -m tests.fuzz --minutes 10 --seed 1
    python -m tests.fuzz --seed 1 --only 123 --verbose

Each case runs a command in this process. It must end in time, with exit code 0, 1 or 2. An error is
one printable line. A damaged file is refused, or changes no answer, or stderr says what is wrong.
Every case depends on the seed and its number alone, so ``--only`` repeats one. The exit code is 1
if a case failed.
"""

from __future__ import annotations

import argparse
import faulthandler
import itertools
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

import torch
from click.testing import CliRunner, Result
from safetensors.torch import load_file

from tests.fuzz_damage import damage, text, value
from tests.tiny_corpora import WRITERS

COMMANDS = {"translation": "translate", "classification": "classify", "couplet": "couplet"}
TEXTS = {
    "translation": ["Ein Hund sieht einen Ball.", "Das Boot. Die Frau malt!"],
    "classification": ["oil prices shares", "goal coach"],
    "couplet": ["天地山水", "花月风云春，江河"],
}
SETTINGS = {
    "translation": ("data.vocab_size=400",),
    "classification": ("data.vocab_size=100",),
    "couplet": (),
}
_MAX_LINE = 2000  # characters in an error message


class Hang(BaseException):
    """A case took longer than the limit."""


@dataclass
class World:
    """The sound corpora and models that cases damage copies of."""

    folder: Path
    answers: dict[str, str] = field(default_factory=dict)

    def corpus(self, task: str) -> Path:
        return self.folder / "corpora" / task

    def model(self, task: str) -> Path:
        return self.folder / "models" / task

    def resumed(self, task: str) -> Path:
        return self.folder / "resumed" / task


@dataclass
class Case:
    """One case: what it is, what to run, and what is wrong with a result that looks sound."""

    what: str
    arguments: list[str]
    stdin: bytes = b""
    check: Callable[[Result], str] = lambda result: ""


def run(arguments: list[str], stdin: bytes = b"") -> Result:
    """Runs a command in this process."""
    import cli

    with tempfile.TemporaryFile() as file:  # commands wait for input with its file number
        file.write(stdin)
        file.seek(0)
        return CliRunner().invoke(cli.main, arguments, input=file)


def prepare(folder: Path) -> World:
    """Writes corpora, trains models, and asks them for their sound answers."""
    world = World(folder)
    for task, write in WRITERS.items():
        write(world.corpus(task))
        _expect_success(train_arguments(world, task, world.model(task)))
        shutil.copytree(world.model(task), world.resumed(task))
        _expect_success(resume_arguments(world, task, world.resumed(task)))
        world.answers[task] = _expect_success(answer_arguments(task, world.model(task)))
    return world


def _expect_success(arguments: list[str]) -> str:
    result = run(arguments)
    if result.exit_code != 0:
        raise SystemExit(f"{arguments} fails before any damage: {result.output}")
    return result.stdout


def train_arguments(world: World, task: str, out: Path, data: Path | None = None) -> list[str]:
    """Returns the arguments that train for one epoch."""
    settings = [f"--set={setting}" for setting in (*SETTINGS[task], "train.epochs=1")]
    data = data or world.corpus(task)
    return ["train", task, "--preset=tiny", f"--data={data}", f"--out={out}", *_MACHINE, *settings]


def resume_arguments(world: World, task: str, out: Path) -> list[str]:
    """Returns the arguments that train the run in ``out`` for a second epoch."""
    data = world.corpus(task)
    settings = ("--set=train.epochs=2", *_MACHINE)
    return ["train", task, f"--data={data}", f"--out={out}", "--resume", *settings]


def answer_arguments(task: str, model: Path) -> list[str]:
    return [COMMANDS[task], f"--model={model}", "--json", *_MACHINE[:1], "--", *TEXTS[task]]


_MACHINE = ("--device=cpu", "--threads=1")


# The cases. Each gets a random generator, the sound files, and an empty folder.


def damaged_model(rng: Random, world: World, folder: Path) -> Case:
    """A checkpoint folder with a damaged file, in a command that reads it."""
    task = rng.choice(list(COMMANDS))
    model = folder / "model"
    shutil.copytree(world.model(task), model, ignore=shutil.ignore_patterns("training"))
    what = damage(rng.choice(sorted(path for path in model.iterdir() if path.is_file())), rng)
    commands = [answer_arguments(task, model)] * 6 + [
        ["evaluate", task, f"--model={model}", f"--data={world.corpus(task)}", *_MACHINE],
        ["plot", "history", str(model), f"--output={folder / 'a.svg'}"],
        ["export", f"--model={model}", f"--out={folder / 'exported'}"],
    ]
    arguments = rng.choice(commands)

    def check(result: Result) -> str:
        if arguments is not commands[0] or result.stdout == world.answers[task]:
            return ""
        return "" if result.stderr.strip() else f"another answer: {result.stdout[:300]}"

    return Case(what, arguments, check=check)


def damaged_run(rng: Random, world: World, folder: Path) -> Case:
    """A run with a damaged file that is resumed."""
    task = rng.choice(list(COMMANDS))
    out = folder / "run"
    shutil.copytree(world.model(task), out)
    files = sorted(path for path in out.rglob("*") if path.is_file() and "lock" not in path.name)
    victim = rng.choice([*files, *[path for path in files if path.parent.name == "training"] * 3])
    what = damage(victim, rng)

    def check(result: Result) -> str:
        if victim.name == "config.json":  # users may change the configuration of a run
            return ""
        expected, found = (
            load_file(path / "model.safetensors") for path in (world.resumed(task), out)
        )
        is_same = all(torch.equal(expected[name], found[name]) for name in expected | found)
        return "" if is_same else "other weights, without a word"

    return Case(f"resume: {what}", resume_arguments(world, task, out), check=check)


def damaged_corpus(rng: Random, world: World, folder: Path) -> Case:
    """A corpus with a damaged file, to train on or to measure with."""
    task = rng.choice(list(COMMANDS))
    corpus = folder / "corpus"
    shutil.copytree(world.corpus(task), corpus)
    what = damage(rng.choice(sorted(path for path in corpus.rglob("*") if path.is_file())), rng)
    arguments = train_arguments(world, task, folder / "run", corpus)
    if rng.random() < 0.7:
        model = world.model(task)
        arguments = ["evaluate", task, f"--model={model}", f"--data={corpus}", *_MACHINE]
    return Case(f"corpus: {what}", arguments)


def hostile_texts(rng: Random, world: World, folder: Path) -> Case:
    """Texts on the command line, in a file or on standard input: as many answers as texts."""
    task = rng.choice(list(COMMANDS))
    command = [COMMANDS[task], f"--model={world.model(task)}", *_MACHINE]
    texts = [text(rng) for _ in range(rng.choice((1, 1, 3, 10)))]
    if rng.random() < 0.5:
        given = [item.replace("\0", "") for item in texts]
        return Case(f"texts {ascii(given)[:300]}", [*command, "--", *given], check=_lines(given))
    content = "\n".join(texts).encode() + b"\n"
    if rng.random() < 0.2:
        content += rng.randbytes(30) + b"\n"
    lines = content.split(b"\n")[:-1]
    if rng.random() < 0.5:
        return Case(f"stdin {content[:300]!r}", command, stdin=content, check=_lines(lines))
    path = folder / "texts"
    path.write_bytes(content)
    if rng.random() < 0.1:
        damage(path, rng)
        return Case("a damaged input", [*command, f"--input={path}"], stdin=b"")
    return Case(f"file {content[:300]!r}", [*command, f"--input={path}"], check=_lines(lines))


def hostile_pairs(rng: Random, world: World, folder: Path) -> Case:
    """Pairs to score."""
    task = rng.choice(("translation", "couplet"))
    line = "\t".join(text(rng) for _ in range(rng.choice((1, 2, 2, 2, 3))))
    arguments = ["score", task, f"--model={world.model(task)}", *_MACHINE]
    return Case(f"score {line[:300]!r}", arguments, stdin=line.encode() + b"\n")


def hostile_options(rng: Random, world: World, folder: Path) -> Case:
    """Options of a command with values from everywhere."""
    import cli

    task = rng.choice(list(COMMANDS))
    command = cli.main.get_command(None, COMMANDS[task])  # type: ignore[arg-type]
    excluded = ("output_file", "model", "threads", "device", "help")  # the others are drawn
    drawn = [p for p in command.params if p.name not in excluded]
    options = [p for p in drawn if p.param_type_name != "argument"]
    arguments = [COMMANDS[task], f"--model={world.model(task)}", *_MACHINE]
    for option in rng.sample(options, rng.choice((1, 1, 2, 4))):
        name = rng.choice([*option.opts, *option.secondary_opts])
        choices = (
            str(rng.randrange(-1, 6)),
            str(round(rng.random(), 2)),
            str(value(rng)).replace("\ud800", "\udcff")[:4300],
        )
        is_flag = getattr(option, "is_flag", False)
        arguments.append(name if is_flag else f"{name}={rng.choice(choices)}")
    return Case(f"options {ascii(arguments[4:])[:300]}", [*arguments, "--", *TEXTS[task]])


def hostile_config(rng: Random, world: World, folder: Path) -> Case:
    """A configuration: a damaged file, or values from everywhere."""
    task = rng.choice(list(COMMANDS))
    shown = ["train", task, "--show-config"]
    if rng.random() < 0.5:
        path = folder / rng.choice(("config.toml", "config.json"))
        source = (world.model(task) / "config.json").read_bytes()
        path.write_bytes(source if path.suffix == ".json" else run(shown).stdout_bytes)
        return Case(damage(path, rng), [*shown, f"--config={path}"])
    lines = run(shown).stdout.splitlines()
    names = [line.partition(" = ")[0] for line in lines if " = " in line]
    section = rng.choice(("model", "data", "train", "generation"))
    chosen = f"--set={section}.{rng.choice(names)}={value(rng)}"[:4300]
    return Case(ascii(chosen)[:300], [*shown, chosen])


def _lines(texts: list[Any]) -> Callable[[Result], str]:
    """Returns the check that there are as many lines as texts."""

    def check(result: Result) -> str:
        count = result.stdout.count("\n")
        return "" if count == len(texts) else f"{count} lines for {len(texts)} texts"

    return check


CASES = (
    *[damaged_model] * 5,
    *[damaged_run] * 3,
    *[damaged_corpus] * 3,
    *[hostile_texts] * 4,
    hostile_pairs,
    *[hostile_options] * 3,
    *[hostile_config] * 2,
)


def verdict(result: Result, check: Callable[[Result], str]) -> str:
    """Returns what is wrong with the result of a case; "" if nothing is."""
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        lines = traceback.format_exception(*(result.exc_info or ()))
        return "".join(["a traceback\n", *lines[-6:]])
    if result.exit_code not in (0, 1, 2):
        return f"exit code {result.exit_code}"
    if "Traceback" in result.stderr:
        return f"a traceback on stderr: {result.stderr[-500:]}"
    if result.exit_code == 0:
        return check(result)
    last = (result.stderr.splitlines() or [""])[-1]
    if not last.startswith("error: "):
        return f"no error message: {result.stderr[-300:]!r}"
    if len(last) > _MAX_LINE:
        return f"an error message of {len(last)} characters: {last[:200]!r}"
    if odd := [c for c in last if not (c.isprintable() or c == "\t")]:
        return f"an error message with {odd[0]!r}: {last[:200]!r}"
    return ""


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        raise Hang(f"no end after {seconds} seconds")

    # A library that does not return to Python is ended with its stack shown.
    faulthandler.dump_traceback_later(5 * seconds, exit=True)
    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        faulthandler.cancel_dump_traceback_later()


def try_case(world: World, seed: int, number: int, *, limit: float, verbose: bool) -> str:
    """Runs the case ``number`` and returns what is wrong with it; "" if nothing is."""
    rng = Random(f"{seed} {number}")
    make = rng.choice(CASES)
    # Some cases name a file to write.
    with tempfile.TemporaryDirectory(dir=world.folder) as folder, chdir(folder):
        case = make(rng, world, Path(folder))
        if verbose:
            print(f"{number}: {make.__name__}: {case.what}", file=sys.stderr, flush=True)
        try:
            with _time_limit(limit):
                result = run(case.arguments, case.stdin)
        except Hang as error:
            wrong = "".join([f"{error}\n", *traceback.format_tb(error.__traceback__)[-4:]])
        else:
            if verbose:
                print(f"    {result.exit_code}: {result.stderr[-200:]!r}", file=sys.stderr)
            wrong = verdict(result, case.check)
    return wrong and f"case {number}, {make.__name__}: {case.what}: {wrong}"


def main() -> int:
    """Runs cases until the time is over; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, metavar="NUMBER", help="Run this case alone.")
    parser.add_argument("--limit", type=float, default=30.0, help="Seconds for one case.")
    parser.add_argument("--verbose", action="store_true", help="Name every case before it runs.")
    options = parser.parse_args()
    faulthandler.enable()
    count = failures = 0
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        os.environ["TRANSFORMER_SUITE_DATA"] = str(Path(name) / "data")
        world = prepare(Path(name))
        how = {"limit": options.limit, "verbose": options.verbose}
        attempt = partial(try_case, world, options.seed, **how)
        end = time.monotonic() + 60 * options.minutes
        numbers = [options.only] if options.only is not None else itertools.count()
        for number in numbers:
            count += 1
            if wrong := attempt(number):
                failures += 1
                print(wrong, flush=True)
            if time.monotonic() > end:
                break
    print(f"{count} cases with the seed {options.seed}, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
