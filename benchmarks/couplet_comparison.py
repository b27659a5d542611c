#!/usr/bin/env python3
"""Prints what the blind judgments of second lines say (``couplet_comparison/README.md``).

    python -m benchmarks.couplet_comparison

``couplet_comparison/judged.tsv`` has a row for each different pair of lines: ``kind`` of the first
line (classical, modern, test), ``first``, ``second``, the ``systems`` that wrote it, ``points`` (0
to 3) and ``reason`` of a reader, and the points of three others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

from sklearn.metrics import cohen_kappa_score

from benchmarks.everyday_sentences import read_table

FOLDER = Path(__file__).with_name("couplet_comparison")
READERS = ("points", "second_reader", "third_reader", "fourth_reader")

Row = Mapping[str, str]


class Counts(NamedTuple):
    """How often one system has more points than the other, as many, or fewer."""

    wins: int
    ties: int
    losses: int


def points_of(rows: Iterable[Row], system: str, kind: str, reader: str) -> dict[str, int]:
    """Returns the points that a reader gave to a system's answer to each first line of a kind."""
    return {
        row["first"]: int(row[reader])
        for row in rows
        if system in row["systems"].split(",") and kind in ("all", row["kind"])
    }


def compare(one: Mapping[str, int], other: Mapping[str, int]) -> Counts:
    """Returns how often ``one`` wins, of the first lines that both have answered."""
    differences = [one[first] - other[first] for first in one.keys() & other.keys()]
    wins, losses = sum(d > 0 for d in differences), sum(d < 0 for d in differences)
    return Counts(wins, len(differences) - wins - losses, losses)


def agreement(rows: Iterable[Row], other: str) -> tuple[float, float, float]:
    """Returns the shares of the pairs to which the first reader and an ``other`` give the same
    points and points at most one apart, and the quadratic weighted kappa (Cohen 1968)."""
    both = [(int(row[READERS[0]]), int(row[other])) for row in rows]
    equal = sum(a == b for a, b in both) / len(both)
    close = sum(abs(a - b) <= 1 for a, b in both) / len(both)
    return equal, close, float(cohen_kappa_score(*zip(*both, strict=True), weights="quadratic"))


def report(rows: Sequence[Row]) -> Iterable[str]:
    """Yields the lines of the report."""
    kinds = ["all", *dict.fromkeys(row["kind"] for row in rows)]
    systems = list(dict.fromkeys(name for row in rows for name in row["systems"].split(",")))
    yield "kind        system   lines  mean points of each reader  3, 2, 1, 0 points of the first"
    for kind in kinds:
        for system in systems:
            given = [list(points_of(rows, system, kind, r).values()) for r in READERS]
            if first := given[0]:
                means = "  ".join(f"{sum(points) / len(points):.2f}" for points in given)
                shares = ", ".join(str(first.count(p)) for p in (3, 2, 1, 0))
                yield f"{kind:<11} {system:<8} {len(first):5}  {means}      {shares}"
    for one, other in combinations(systems, 2):
        for kind in kinds:
            readers = [
                compare(points_of(rows, one, kind, r), points_of(rows, other, kind, r))
                for r in READERS
            ]
            if lines := sum(readers[0]):
                shares = ", ".join(f"{1 - each.losses / lines:.0%}" for each in readers)
                wins, ties, losses = readers[0]
                yield (
                    f"{one} and {other}, {kind}: {wins} wins, {ties} ties, {losses} losses; "
                    f"wins or ties, each reader: {shares}"
                )
    for other in READERS[1:]:
        equal, close, kappa = agreement(rows, other)
        yield (
            f"{other} and the first one, {len(rows)} pairs: the same points {equal:.0%}, at most "
            f"one apart {close:.0%}, quadratic weighted kappa {kappa:.2f}"
        )


if __name__ == "__main__":
    print(*report(read_table(FOLDER / "judged.tsv")), sep="\n")
