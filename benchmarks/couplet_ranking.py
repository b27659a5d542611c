"""How often the true second line is ranked first among drawn ones, and which weights rank best.

    python -m benchmarks.couplet_ranking --data couplet [--model FOLDER] [--couplets 400]

For each of the first validation couplets of 5 to 14 characters, the model draws answers at
temperature 1, and the 20 first different ones stand beside the true line. (At the temperature of
``rerank``, 0.6, the true line is the one that the model thinks least probable: a fit finds that and
nothing else.) The weights of the scores are fitted on one half of the couplets, by a logistic
regression on the differences between the true line and each other one (Herbrich et al. 2000), and
measured on the other half, both ways.

Two scores are tried beside those of :mod:`tasks.couplet.reranking`: ``words``, the share of
characters in a word that ``words/word_pairs.tsv`` has as an answer at that place, and ``cliches``,
the mean logarithm of how often the pairs of neighboring characters are in the training lines.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression

from tasks.couplet.predict import CoupletWriter
from tasks.couplet.reranking import features_of

NAMES = ("forward", "backward", "rarity", "words", "cliches")
OTHERS = 20

Matrix = np.ndarray[tuple[int, int], np.dtype[np.float64]]


def read(folder: Path) -> list[tuple[str, str]]:
    """Returns the couplets of a folder."""
    sides = ((folder / f"{side}.txt").read_text("utf-8").splitlines() for side in ("in", "out"))
    return [(a.replace(" ", ""), b.replace(" ", "")) for a, b in zip(*sides, strict=True)]


def words_share(first: str, second: str, pairs: frozenset[tuple[str, str]]) -> float:
    """Returns the share of places that are inside a word and its answer."""
    covered: set[int] = set()
    for size in range(2, 5):
        for i in range(len(first) - size + 1):
            if (first[i : i + size], second[i : i + size]) in pairs:
                covered.update(range(i, i + size))
    return len(covered) / len(first)


def cliches(second: str, counts: Counter[str]) -> float:
    """Returns the mean logarithm of the frequency of neighboring characters."""
    neighbors = [a + b for a, b in pairwise(second)]
    return sum(math.log1p(counts[each]) for each in neighbors) / len(neighbors)


def fitted(tables: Sequence[Matrix], columns: Sequence[int]) -> Matrix:
    """Returns the weights of ``columns`` that put the first row of each table before the others."""
    differences = np.concatenate([(table[:1] - table[1:])[:, columns] for table in tables])
    both = np.concatenate([differences, -differences])
    classes = np.repeat([1, 0], len(differences))
    weights: Matrix = LogisticRegression(fit_intercept=False, C=10.0).fit(both, classes).coef_
    return weights


def ranked_first(tables: Sequence[Matrix], columns: Sequence[int], weights: Matrix) -> float:
    """Returns the share of tables whose first row has the largest sum."""
    sums = [table[:, columns] @ weights.reshape(-1) for table in tables]
    return float(np.mean([each.argmax() == 0 for each in sums]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folders train, val, words")
    parser.add_argument("--model", help="A checkpoint folder; by default the model that ships.")
    parser.add_argument("--couplets", type=int, default=400)
    options = parser.parse_args()
    writer = CoupletWriter.load(options.model, device="cpu")
    table = (options.data / "words" / "word_pairs.tsv").read_text("utf-8").splitlines()
    pairs = frozenset((a, b) for a, b, *_ in (line.split("\t") for line in table[1:]))
    pairs |= {(b, a) for a, b in pairs}
    training = [line for pair in read(options.data / "train") for line in pair]
    counts = Counter(a + b for line in training for a, b in pairwise(line))
    tables: list[Matrix] = []
    for first, true in read(options.data / "val"):
        if len(tables) == options.couplets or not 5 <= len(first) <= 14:
            continue
        drawn = writer.answer(first, sample=True, temperature=1.0, n_best=32)
        others = [line for line in dict.fromkeys(drawn) if line != true][:OTHERS]
        if len(others) < OTHERS:
            continue
        lines = [true, *others]
        features = features_of(first, lines, writer)
        rows = [
            [*own, words_share(first, line, pairs), cliches(line, counts)]
            for own, line in zip(features, lines, strict=True)
        ]
        tables.append(np.array(rows))
    halves = tables[::2], tables[1::2]
    ranking = writer.config.rerank
    now = np.array([[1.0, ranking.backward, ranking.rarity]])
    print(f"{len(tables)} couplets; the share whose true line is first of {OTHERS + 1}:")
    print(f"  forward alone: {ranked_first(tables, [0], np.ones((1, 1))):.3f}")
    print(f"  the weights now: {ranked_first(tables, [0, 1, 2], now):.3f}")
    for added in ([], [3], [4], [3, 4]):
        columns = [0, 1, 2, *added]
        shares = [
            ranked_first(other, columns, fitted(half, columns))
            for half, other in (halves, halves[::-1])
        ]
        names = [NAMES[column] for column in columns]
        weights = zip(names, fitted(tables, columns)[0], strict=True)
        said = ", ".join(f"{name} {weight:.2f}" for name, weight in weights)
        print(f"  fitted: {said}: {sum(shares) / 2:.3f}")


if __name__ == "__main__":
    main()
