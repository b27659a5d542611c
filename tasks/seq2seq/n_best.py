"""The best outputs of a text that was searched for in segments."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from core.decoding.search import Hypothesis


class Ranked:
    """A result together with its alternatives: the base class of the predictors' results."""

    others: tuple[Self, ...]

    @property
    def hypotheses(self) -> tuple[Self, ...]:
        """This result and its alternatives, the best first."""
        return (self, *self.others)


def joined(results: Iterable[Any]) -> Any:
    """Returns the first of ``results``, which are :class:`Ranked`, with the others as its own."""
    best, *others = results
    return replace(best, others=tuple(others))


@dataclass(frozen=True)
class Output:
    """One output of a whole text: a hypothesis for each of its segments, and their summed score.

    A text without segments has one output, without tokens and with score 0.
    """

    hypotheses: list[Hypothesis]
    score: float

    @property
    def tokens(self) -> list[int]:
        """The tokens of all segments, one segment after another."""
        return [token for hypothesis in self.hypotheses for token in hypothesis.tokens]

    @property
    def joined(self) -> Hypothesis:
        """All segments as one hypothesis."""
        log_prob = sum(hypothesis.log_prob for hypothesis in self.hypotheses)
        return Hypothesis(self.tokens, log_prob, self.score)


def best_combinations(segments: Sequence[Sequence[Hypothesis]], count: int) -> list[Output]:
    """Returns the ``count`` combinations with the highest summed scores, the best first.

    A combination has one hypothesis for each of ``segments``, which have some, the best first.
    """
    # Each of the best combinations extends one of the best combinations of the segments before.
    # They are linked lists (rest, hypothesis), so that none is copied on the way.
    best: list[tuple[float, _Chain]] = [(0.0, None)]
    for hypotheses in segments:
        longer: list[tuple[float, _Chain]] = [
            (total + hypothesis.score, (chain, hypothesis))
            for total, chain in best
            for hypothesis in hypotheses[:count]
        ]
        best = sorted(longer, key=lambda candidate: -candidate[0])[:count]
    return [Output(_unwound(chain), total) for total, chain in best]


def combinations_by_rank(segments: Sequence[Sequence[Hypothesis]], count: int) -> list[Output]:
    """Returns the first hypotheses of all segments, then the second ones, and so on.

    So sampled and diverse outputs differ in every segment; the best combinations would differ in
    one only. A segment with too few hypotheses repeats its last one.
    """
    longest = max(map(len, segments), default=1)
    ranked = [
        [hypotheses[min(rank, len(hypotheses) - 1)] for hypotheses in segments]
        for rank in range(min(count, longest))
    ]
    return [Output(chosen, sum((h.score for h in chosen), start=0.0)) for chosen in ranked]


_Chain = tuple["_Chain", Hypothesis] | None


def _unwound(chain: _Chain) -> list[Hypothesis]:
    hypotheses = []
    while chain is not None:
        chain, hypothesis = chain
        hypotheses.append(hypothesis)
    return hypotheses[::-1]
