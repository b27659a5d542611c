"""Re-ranking: of many candidates for a second line, the best by more than their probability.

The most probable answers to different first lines are alike: frequent characters (风, 月) fit
everywhere. So candidates are drawn at random, and ranked by the sum of several scores, each per
character and with a weight (:class:`RerankConfig`):

    forward          log P(second line | first line), of the model
    backward         log P(first line | second line), of the same model, because a couplet is
                     parallel both ways: would the answer call for this first line? (the maximum
                     mutual information of Li et al. 2016, section 4.2)
    rarity           log(1 + rank / 8) of each character, its rank among all characters by frequency
                     (ibid., section 4.3, with a rank for a probability); ranks end at 2,000
    parts_of_speech  the share of characters in a word of the same part of speech as the character
                     that they answer, and that begin a word where that one does (jieba)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from operator import eq
from typing import TYPE_CHECKING, NamedTuple, Protocol

from data.tokenizers import JiebaWords
from data.vocabulary import SPECIALS, Vocabulary
from tasks.couplet.config import RerankConfig
from tasks.seq2seq.scoring import PairScore

if TYPE_CHECKING:
    from jieba.posseg import POSTokenizer

# Two answers that share more of their characters than this are not both shown.
_MOST_SHARED = 0.5
_LAST_RANK = 2000


class Features(NamedTuple):
    """The scores of one candidate, per character; see the module."""

    forward: float
    backward: float
    rarity: float
    parts_of_speech: float


class Scorer(Protocol):
    """What the ranking needs of a predictor."""

    def score(self, sources: list[str], targets: list[str]) -> list[PairScore]: ...


@dataclass(frozen=True)
class Reranker:
    """Ranks candidates.

    Args:
        model: the predictor that has made them.
        vocabulary: that of ``model``.
    """

    model: Scorer
    vocabulary: Vocabulary
    weights: RerankConfig

    def rank(self, first: str, seconds: Sequence[str], count: int) -> list[tuple[int, float]]:
        """Returns the numbers and the scores of the best ``count`` candidates, the best first.

        A candidate that is much like a better one is left out, unless there are too few others.
        """
        weights = self.weights
        scores = [
            of.forward
            + weights.backward * of.backward
            + weights.rarity * of.rarity
            + weights.parts_of_speech * of.parts_of_speech
            for of in self.features(first, seconds)
        ]
        order = sorted(range(len(seconds)), key=lambda i: -scores[i])
        chosen: list[int] = []
        for i in order:
            if len(chosen) < count and all(is_different(seconds[i], seconds[j]) for j in chosen):
                chosen.append(i)
        chosen += [i for i in order if i not in chosen][: count - len(chosen)]
        return [(i, scores[i]) for i in chosen]

    def features(self, first: str, seconds: Sequence[str]) -> list[Features]:
        """Returns the features of all candidates, which have the length of ``first``."""
        seconds, firsts = list(seconds), [first] * len(seconds)
        forward = [of.log_prob for of in self.model.score(firsts, seconds)]
        backward = [of.log_prob for of in self.model.score(seconds, firsts)]
        # The dictionary takes two seconds to load.
        parts_of_speech = _parts_of_speech if self.weights.parts_of_speech else lambda line: []
        parts = parts_of_speech(first)
        size = max(1, len(first))
        return [
            Features(
                forward[i] / size,
                backward[i] / size,
                sum(map(_rarity, self.vocabulary.encode([*second]))) / size,
                sum(map(eq, parts, parts_of_speech(second))) / size,
            )
            for i, second in enumerate(seconds)
        ]


def is_different(one: str, other: str) -> bool:
    """Returns whether two lines of one length share at most half of their characters, in place."""
    return sum(map(eq, one, other)) <= _MOST_SHARED * len(one)


def _rarity(token: int) -> float:
    """Vocabularies are sorted by frequency, after the special tokens."""
    return math.log1p(min(max(0, token - len(SPECIALS)), _LAST_RANK) / 8)


def _parts_of_speech(line: str) -> list[tuple[str, bool]]:
    """Returns for each character the tag of its word (n noun, v verb...), and if it begins it."""
    return [
        (flag[:1], place == 0) for word, flag in _tagger().cut(line) for place in range(len(word))
    ]


@cache
def _tagger() -> POSTokenizer:
    """Returns jieba's tagger, with a dictionary that is read from its package."""
    from jieba.posseg import POSTokenizer

    return POSTokenizer(JiebaWords().words)
