"""Re-ranking: of many candidates for a second line, the best by more than their probability.

The most probable answers to different first lines are alike: frequent characters (风, 月) fit
everywhere. So candidates are drawn at random, those of a beam search are added, and all are ranked
by the sum of several scores, each per character and with a weight (:class:`RerankConfig`):

    forward    log P(second line | first line), of the model
    backward   log P(first line | second line), of the same model, because a couplet is parallel
               both ways: would the answer call for this first line? (the maximum mutual information
               of Li et al. 2016, section 4.2)
    rarity     log(1 + rank / 8) of each character, its rank among all characters by frequency
               (ibid., section 4.3, with a rank for a probability); ranks end at 2,000
"""

import math
from collections.abc import Sequence
from operator import eq, mul
from typing import Any, NamedTuple

from data.vocabulary import SPECIALS
from tasks.couplet.config import RerankConfig
from tasks.seq2seq.predictor import PairPredictor

# Two answers that share more of their characters than this are not both shown.
_MOST_SHARED = 0.5
_LAST_RANK = 2000


class Features(NamedTuple):
    """The scores of one candidate, per character; see the module."""

    forward: float
    backward: float
    rarity: float


def rank(
    features: Sequence[Features], seconds: Sequence[str], weights: RerankConfig, count: int
) -> list[tuple[int, float]]:
    """Returns the numbers and the scores of the best ``count`` of ``seconds``, the best first.

    A candidate that is much like a better one is left out, unless there are too few others.
    """
    factors = (1.0, weights.backward, weights.rarity)
    scores = [sum(map(mul, factors, own)) for own in features]
    order = sorted(range(len(seconds)), key=lambda i: -scores[i])
    chosen: list[int] = []
    for i in order:
        if len(chosen) < count and all(is_different(seconds[i], seconds[j]) for j in chosen):
            chosen.append(i)
    chosen += [i for i in order if i not in chosen][: count - len(chosen)]
    return [(i, scores[i]) for i in sorted(chosen, key=order.index)]


def features_of(
    first: str, seconds: Sequence[str], model: PairPredictor[Any, Any]
) -> list[Features]:
    """Returns the features of the candidates ``seconds`` of ``model``, all as long as ``first``."""
    seconds, firsts, vocabulary = list(seconds), [first] * len(seconds), model.target.vocabulary
    forward, backward = model.score_as_read(firsts, seconds), model.score_as_read(seconds, firsts)
    size = max(1, len(first))
    return [
        Features(
            forward[i].log_prob / size,
            backward[i].log_prob / size,
            sum(map(_rarity, vocabulary.encode([*second]))) / size,
        )
        for i, second in enumerate(seconds)
    ]


def is_different(line: str, other: str) -> bool:
    """Returns whether two lines of one length share at most half of their characters, in place."""
    return sum(map(eq, line, other)) <= _MOST_SHARED * len(line)


def _rarity(token: int) -> float:
    """Vocabularies are sorted by frequency, after the special tokens."""
    return math.log1p(min(max(0, token - len(SPECIALS)), _LAST_RANK) / 8)
