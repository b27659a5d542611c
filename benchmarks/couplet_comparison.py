#!/usr/bin/env python3
"""A blind comparison: our second lines and those of the tutorials' plain Transformer.

A seed samples first lines of the test set and decides which answer is A and which is B. Ours is the
default answer of the model, the other the greedy answer without rules (:mod:`benchmarks.couplets`).
A reader judges ``couplet_comparison/pairs.tsv`` without knowing whose answers they are, and writes
``judgments.tsv``: for each answer one digit, 0 or 1, for each point of the rubric, and a reason.

    grammar          the line is made of words and phrases that exist
    parts_of_speech  words answer words of the same part of speech
    meaning          words answer words of a related or opposite meaning
    sense            the two lines say something together
    tone             opposed tones at the end and at places 2, 4 and 6 of each clause

The point for tone is given by :mod:`tasks.couplet.rules`, for both answers in the same way. So the
result is printed with this point and without it.

    python -m benchmarks.couplet_comparison pairs --data couplet --plain runs/plain
    python -m benchmarks.couplet_comparison count

Without ``--plain``, ``pairs`` keeps the first lines and the plain model's answers of its last run:
a new model of ours is compared with the same answers.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import click

from benchmarks.couplets import greedy_without_rules, load_plain
from benchmarks.everyday_sentences import read_table
from core.errors import UserError
from core.storage.files import write_text
from tasks.commands.options import PATH
from tasks.couplet.dataset import LoadCoupletDataset
from tasks.couplet.predict import CoupletWriter
from tasks.couplet.rules import check

FOLDER = Path(__file__).with_name("couplet_comparison")
POINTS = ("grammar", "parts_of_speech", "meaning", "sense", "tone")
SEED = 1


class Counts(NamedTuple):
    """How often our answer has more points than the other, as many, or fewer."""

    wins: int
    ties: int
    losses: int


def sample(firsts: Sequence[str], count: int, seed: int) -> list[str]:
    """Returns ``count`` different first lines, as varied in length as all of them are."""
    return random.Random(seed).sample(sorted(set(firsts)), count)


def is_ours_first(first: str, seed: int) -> bool:
    """Returns whether answer A to ``first`` is ours."""
    return random.Random(f"{seed} {first}").random() < 0.5


def has_tone(first: str, second: str) -> bool:
    """Returns whether an answer gets the point for tone."""
    kept = check(first, second)
    return kept["ending"] and kept["tones"]


def count_points(digits: str, *, with_tone: bool = True) -> int:
    """Returns the number of points in a judgment such as ``11010``.

    Raises:
        UserError: anything but one digit, 0 or 1, for each point of the rubric.
    """
    if len(digits) != len(POINTS) or set(digits) - {"0", "1"}:
        raise UserError(f"{digits!r} is no judgment: {len(POINTS)} digits, each 0 or 1")
    return digits.count("1") - (not with_tone and digits[-1] == "1")


def count(
    judgments: Sequence[Mapping[str, str]], *, seed: int = SEED, with_tone: bool = True
) -> Counts:
    """Returns how often our answer wins: here the judgments meet the key.

    Args:
        judgments: rows with ``first``, ``points_a`` and ``points_b``.
        seed: that of :func:`is_ours_first`.
    """
    differences = []
    for row in judgments:
        points = [count_points(row[f"points_{name}"], with_tone=with_tone) for name in "ab"]
        ours, other = points if is_ours_first(row["first"], seed) else points[::-1]
        differences.append(ours - other)
    wins, losses = sum(d > 0 for d in differences), sum(d < 0 for d in differences)
    return Counts(wins, len(differences) - wins - losses, losses)


def share_of_point(
    judgments: Sequence[Mapping[str, str]], place: int, *, seed: int = SEED
) -> tuple[float, float]:
    """Returns the shares of our and of the other answers with one point of the rubric."""
    totals = [0, 0]
    for row in judgments:
        both = [int(row[f"points_{name}"][place]) for name in "ab"]
        ours, other = both if is_ours_first(row["first"], seed) else both[::-1]
        totals[0] += ours
        totals[1] += other
    return totals[0] / len(judgments), totals[1] / len(judgments)


def sign_test(wins: int, losses: int) -> float:
    """Returns the two-sided p-value of the sign test, without ties (Dixon and Mood 1946)."""
    n = wins + losses
    tail = sum(math.comb(n, k) for k in range(max(wins, losses), n + 1)) / 2**n
    return min(1.0, 2.0 * tail)


@click.group()
def main() -> None:
    """Compares our second lines with those of the tutorials' plain Transformer."""


@main.command()
@click.option("--data", type=PATH, help="With --plain: the corpus, with a folder test.")
@click.option("--plain", type=PATH, help="What --train-plain has left.")
@click.option("--model", type=PATH, help="A checkpoint folder; by default the model that ships.")
@click.option("--lines", default=100, show_default=True, help="With --plain.")
@click.option("--seed", default=SEED, show_default=True)
def pairs(data: Path | None, plain: Path | None, model: Path | None, lines: int, seed: int) -> None:
    """Writes pairs.tsv: first lines and two answers to each, and nothing about whose they are."""
    path, ours = FOLDER / "pairs.tsv", CoupletWriter.load(model, device="cpu")
    if plain is None:
        old = read_table(path)
        firsts = [row["first"] for row in old]
        others = [row["b" if is_ours_first(row["first"], seed) else "a"] for row in old]
    elif data is None:
        raise click.UsageError("--plain needs --data")
    else:
        dataset = LoadCoupletDataset(data, ours.config.data, seed=seed, codec=ours.codec)
        firsts = sample([first for first, _ in dataset.read("test")], lines, seed)
        others = greedy_without_rules(load_plain(plain), firsts)
    rows = [("first", "a", "b")]
    for first, *answers in zip(firsts, ours.answer(firsts), others, strict=True):
        rows.append((first, *(answers if is_ours_first(first, seed) else answers[::-1])))
    write_text(path, "".join("\t".join(row) + "\n" for row in rows))


@main.command("count")
@click.option("--seed", default=SEED, show_default=True)
def count_command(seed: int) -> None:
    """Prints wins, ties and losses of our answers in judgments.tsv."""
    rows = read_table(FOLDER / "judgments.tsv")
    for name, with_tone in (("all five points", True), ("without tone", False)):
        wins, ties, losses = count(rows, seed=seed, with_tone=with_tone)
        share = (wins + ties) / len(rows)
        print(
            f"{name}: {wins} wins, {ties} ties, {losses} losses; {share:.0%} wins or ties; "
            f"sign test p = {sign_test(wins, losses):.2g}"
        )
    print("\nshare of answers with the point   ours  plain")
    for place, point in enumerate(POINTS):
        shares = share_of_point(rows, place, seed=seed)
        print(f"{point:<33} {shares[0]:5.0%}  {shares[1]:5.0%}")


if __name__ == "__main__":
    main()
