"""Kills training runs without warning, and checks that they end as if nothing had happened.

    python -m tests.kill_and_resume --kills 20 --seed 1

Each run is the ``train`` command in a process that gets SIGKILL: every third time in the middle of
a save, every third time at any moment, every third time a little after a save. The run is continued
with ``--resume`` in a new process, or started again if it had not begun, until it ends. Then all
its tensors, its curve and its measurements are compared with those of an uninterrupted run, bit for
bit.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

import cli
from tests.forked import forked, forked_cli
from tests.tiny_corpora import WRITERS

TIMEOUT = 600.0

# They use all parts of a state: dropout, moments, averages, accumulated batches, the curve.
SETTINGS = {
    "train.epochs": 4,
    "train.batch_tokens": 100,
    "train.save_every": 3,
    "train.log_every": 2,
    "train.accumulate": 2,
    "train.ema": 0.9,
    "train.average": 2,
    "train.precision": "fp32",  # a killed run that begins anew would measure again
    "model.dropout": 0.3,
}
OWN_SETTINGS: dict[str, dict[str, object]] = {
    "couplet": {},
    "translation": {"data.vocab_size": 400, "data.augment": 0.1},
    "classification": {"data.vocab_size": 100, "data.token_dropout": 0.2},
}


def train_with_slow_saves(arguments: Sequence[str]) -> None:
    """Runs the program with slow writes, so that it can be killed in the middle of one."""
    fsync = os.fsync

    def slow_fsync(handle: int) -> None:
        time.sleep(0.04)
        fsync(handle)

    os.fsync = slow_fsync
    cli.main(arguments)


class Victim:
    """A training run in ``out`` that is killed and resumed."""

    def __init__(
        self, task: str, data: Path, out: Path, *, rng: random.Random, seconds: float
    ) -> None:
        self.out = out
        self._rng = rng
        self._seconds = seconds
        self._begin = train_command(task, data, out)
        self._resume = [*self._begin[:6], "--resume"]

    def live(self, kind: str | None) -> str:
        """Runs until a kill of that kind, or to the end. Returns where the kill happened."""
        command = self._resume if (self.out / "config.json").is_file() else self._begin
        process = forked(
            partial(train_with_slow_saves, command),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        try:
            if kind is not None:
                self._wait_for_moment(kind, process)
                process.kill()
            _, errors = process.communicate(timeout=TIMEOUT)
        finally:
            process.kill()
        if process.returncode == 0:
            return "ended"
        assert process.returncode == -9, errors.decode()
        if unfinished(self.out):
            return "inside a save"
        has_state = (self.out / "training/state.safetensors").exists()
        return "between saves" if has_state else "before the first save"

    def _wait_for_moment(self, kind: str, process: subprocess.Popen[bytes]) -> None:
        if kind == "any":
            deadline = time.monotonic() + self._rng.uniform(0.0, self._seconds)
            while time.monotonic() < deadline and process.poll() is None:
                time.sleep(0.005)
            return
        seen: set[Path] = set()
        wanted = self._rng.randint(1, 12)
        before = unfinished(self.out)
        while len(seen) < wanted and process.poll() is None:
            seen |= unfinished(self.out) - before
            time.sleep(0.001)
        if kind == "later":
            time.sleep(self._rng.uniform(0.0, 0.05 * self._seconds))


def unfinished(folder: Path) -> set[Path]:
    """Returns the files in ``folder`` that are being written."""
    return set(folder.rglob(".*.partial*"))


def train_command(task: str, data: Path, out: Path) -> list[str]:
    """Returns the arguments of ``cli.py``."""
    settings = SETTINGS | OWN_SETTINGS[task]
    return [
        *("train", task, "--data", str(data), "--out", str(out), "--preset", "tiny"),
        "--threads=1",  # otherwise, the load would choose their number, which decides the bits
        *(f"--set={name}={value}" for name, value in settings.items()),
    ]


def content_of(folder: Path) -> dict[str, Any]:
    """Returns the content of a run's files, without times and the command."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_dir() or name.startswith("training/lock"):
            continue
        if path.suffix == ".safetensors":
            tensors = load_file(path)
            if "numbers" in tensors:
                numbers = json.loads(tensors.pop("numbers").numpy().tobytes())
                found[f"{name}: numbers"] = without_times(numbers)
            found.update((f"{name}: {key}", tensor) for key, tensor in tensors.items())
        elif path.suffix == ".csv":
            with path.open(newline="") as file:
                found[name] = without_times(list(csv.DictReader(file)))
        elif path.suffix == ".json":
            found[name] = without_times(json.loads(path.read_text()))
        else:
            found[name] = path.read_bytes()
    return found


def without_times(value: Any) -> Any:
    """Returns ``value`` without what differs between any two runs."""
    ignored = ("seconds", "tokens_per_second", "training_seconds", "trained", "command", "logged")
    if isinstance(value, dict):
        return {k: without_times(v) for k, v in value.items() if k not in ignored}
    return [without_times(item) for item in value] if isinstance(value, list) else value


def differences(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """Returns the names of the differences."""

    def is_same(name: str) -> bool:
        a, b = one.get(name), other.get(name)
        if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
            return a.dtype == b.dtype and torch.equal(a, b)
        return type(a) is type(b) and bool(a == b)

    return [name for name in sorted(one.keys() | other.keys()) if not is_same(name)]


def kill_and_resume(task: str, kills: int, seed: int, folder: Path) -> Counter[str]:
    """Kills runs ``kills`` times. Returns where the kills happened, and how many runs ended.

    Raises:
        AssertionError: a run differs from the uninterrupted one; the message names the differences.
    """
    rng = random.Random(seed)
    data = WRITERS[task](folder / "data")
    straight = folder / "straight"
    started = time.monotonic()
    process = forked_cli(
        *train_command(task, data, straight), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    _, errors = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 0, errors.decode()
    seconds = time.monotonic() - started
    expected = content_of(straight)
    struck: Counter[str] = Counter()
    kinds = [("inside", "any", "later")[i % 3] for i in range(kills)]
    while kinds:
        out = folder / f"killed-{struck['ended']}"
        victim = Victim(task, data, out, rng=rng, seconds=seconds)
        while (where := victim.live(kinds[0] if kinds else None)) != "ended":
            kinds.pop(0)
            struck[where] += 1
            print(f"killed {where} ({kills - len(kinds)} of {kills})", file=sys.stderr)
        struck[where] += 1
        wrong = differences(expected, content_of(victim.out))
        shown = ", ".join(wrong[:5])
        assert not wrong, f"{victim.out} and {straight} have {len(wrong)} differences: {shown}"
    return struck


def main(arguments: Sequence[str] | None = None) -> None:
    """Kills runs and prints where the kills happened."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--task", choices=sorted(OWN_SETTINGS), default="couplet")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        struck = kill_and_resume(options.task, options.kills, options.seed, Path(folder))
    ended = struck.pop("ended")
    places = ", ".join(f"{count} {where}" for where, count in sorted(struck.items()))
    print(f"{options.kills} kills ({places}): {ended} runs, all equal to the uninterrupted one")


if __name__ == "__main__":
    main()
