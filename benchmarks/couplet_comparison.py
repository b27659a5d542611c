#!/usr/bin/env python3
"""Prints what the blind judgments of second lines say (``couplet_comparison/README.md``).

    python -m benchmarks.couplet_comparison

``couplet_comparison/judged.tsv`` has a row for each different pair of lines: ``kind`` of the first
line (classical, modern, test), ``first``, ``second``, the ``systems`` that wrote it, ``points`` (0
to 3), ``reason``, and the points of a second reader for some of the pairs (``second_reader``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

from sklearn.metrics import cohen_kappa_score

from benchmarks.everyday_sentences import read_table

FOLDER = Path(__file__).with_name("couplet_comparison")

Row = Mapping[str, str]


class Counts(NamedTuple):
    """How often one system has more points than the other, as many, or fewer."""

    wins: int
    ties: int
    losses: int


def points_of(rows: Iterable[Row], system: str, kind: str = "all") -> dict[str, int]:
    """Returns the points of a system's answer to each first line of a kind."""
    return {
        row["first"]: int(row["points"])
        for row in rows
        if system in row["systems"].split(",") and kind in ("all", row["kind"])
    }


def compare(one: Mapping[str, int], other: Mapping[str, int]) -> Counts:
    """Returns how often ``one`` wins, of the first lines that both have answered."""
    differences = [one[first] - other[first] for first in one.keys() & other.keys()]
    wins, losses = sum(d > 0 for d in differences), sum(d < 0 for d in differences)
    return Counts(wins, len(differences) - wins - losses, losses)


def agreement(rows: Iterable[Row]) -> tuple[int, float, float, float]:
    """Returns the pairs that both readers judged, the shares with the same points and with points
    at most one apart, and the quadratic weighted kappa (Cohen 1968)."""
    both = [(int(r["points"]), int(r["second_reader"])) for r in rows if r["second_reader"]]
    equal = sum(a == b for a, b in both) / len(both)
    close = sum(abs(a - b) <= 1 for a, b in both) / len(both)
    kappa = cohen_kappa_score(*zip(*both, strict=True), weights="quadratic")
    return len(both), equal, close, float(kappa)


def report(rows: Sequence[Row]) -> Iterable[str]:
    """Yields the lines of the report."""
    kinds = ["all", *dict.fromkeys(row["kind"] for row in rows)]
    systems = list(dict.fromkeys(name for row in rows for name in row["systems"].split(",")))
    yield "kind        system   lines  mean  points 3, 2, 1, 0"
    for kind in kinds:
        for system in systems:
            if points := list(points_of(rows, system, kind).values()):
                mean = sum(points) / len(points)
                shares = ", ".join(str(points.count(p)) for p in (3, 2, 1, 0))
                yield f"{kind:<11} {system:<8} {len(points):5}  {mean:4.2f}  {shares}"
    for one, other in combinations(systems, 2):
        for kind in kinds:
            counts = compare(points_of(rows, one, kind), points_of(rows, other, kind))
            if lines := sum(counts):
                share = (counts.wins + counts.ties) / lines
                yield (
                    f"{one} and {other}, {kind}: {counts.wins} wins, {counts.ties} ties, "
                    f"{counts.losses} losses; wins or ties {share:.0%}"
                )
    count, equal, close, kappa = agreement(rows)
    yield (
        f"a second reader of {count} pairs: the same points {equal:.0%}, at most one apart "
        f"{close:.0%}, quadratic weighted kappa {kappa:.2f}"
    )


if __name__ == "__main__":
    print(*report(read_table(FOLDER / "judged.tsv")), sep="\n")
