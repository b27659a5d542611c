"""The best outputs of a text that was searched for in pieces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from transformer_suite.core.decoding.search import Hypothesis


@dataclass(frozen=True)
class Output:
    """One output of a whole text: a hypothesis for each of its pieces, and the sum of their scores.

    A text without pieces has one output, of no tokens and the score 0.
    """

    hypotheses: list[Hypothesis]
    score: float

    @property
    def tokens(self) -> list[int]:
        """The tokens of all pieces, one after another."""
        return [token for hypothesis in self.hypotheses for token in hypothesis.tokens]


def best_combinations(of_pieces: Sequence[Sequence[Hypothesis]], count: int) -> list[Output]:
    """The ``count`` combinations of one hypothesis a piece with the highest sums, the best first.

    Args:
        of_pieces: the hypotheses of each piece, the best first; at least one.

    Returns:
        All combinations, where there are fewer. The first is made of the first of every piece.
    """
    # Each of the best sums ends in one of the best sums of the pieces before. What leads up to a
    # sum is a chain of (chain before, hypothesis), so that none is copied on the way.
    best: list[tuple[float, _Chain]] = [(0.0, None)]
    for hypotheses in of_pieces:
        longer: list[tuple[float, _Chain]] = [
            (total + hypothesis.score, (chain, hypothesis))
            for total, chain in best
            for hypothesis in hypotheses[:count]
        ]
        best = sorted(longer, key=lambda one: -one[0])[:count]
    return [Output(_unwound(chain), total) for total, chain in best]


def combinations_by_rank(of_pieces: Sequence[Sequence[Hypothesis]], count: int) -> list[Output]:
    """The first hypotheses of all pieces, then the second ones, and so on, ``count`` times.

    That keeps draws apart from each other, and alternatives as different as they were found, where
    the best sums would differ in one piece only. A piece that has no more repeats its last.
    """
    longest = max(map(len, of_pieces), default=1)
    ranked = [
        [hypotheses[min(rank, len(hypotheses) - 1)] for hypotheses in of_pieces]
        for rank in range(min(count, longest))
    ]
    return [Output(one, sum((h.score for h in one), start=0.0)) for one in ranked]


_Chain = tuple["_Chain", Hypothesis] | None


def _unwound(chain: _Chain) -> list[Hypothesis]:
    hypotheses = []
    while chain is not None:
        chain, hypothesis = chain
        hypotheses.append(hypothesis)
    return hypotheses[::-1]
