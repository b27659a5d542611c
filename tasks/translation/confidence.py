"""How probable it is that a translation is good, from what the search knows anyway.

A logistic regression over three features of a segment and its hypothesis, fitted on validation
pairs. A translation counts as good if its sentence chrF (Popović 2015) is at least
:data:`GOOD_CHRF`. The lowest token probability and the distance to the second hypothesis added
nothing to these features.
"""

import math
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from core.decoding.search import Hypothesis
from core.storage.checkpoint import load_optional, save_tensors
from tasks.runs.checkpoint_folder import CONFIDENCE_FILE

GOOD_CHRF = 60.0
"""The chrF from which a translation counts as good."""

UNFAMILIAR, MOST_IF_UNFAMILIAR = 0.1, 0.3
"""The confidence in the translation of a text of this familiarity or less is at most this."""
MOST_IF_LOOPED = 0.2
"""The confidence in a translation that repeats itself is at most this."""
DOUBTFUL = 0.4
"""A translation of lower confidence is probably wrong."""
LEAST_OF_A_KIND = 10
"""So many good and so many other translations are needed to tell them apart."""

_FEATURES = 3
_DIGITS = 4
# Words; in Chinese, Japanese and Korean the characters.
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|\w+")
# A hypothesis may hold tokens that the model finds impossible; the logarithm stays finite.
_LOWEST = -100.0


class Confidence:
    """The weights of the logistic regression ``[F + 1]``; the last is the intercept."""

    def __init__(self, weights: Tensor) -> None:
        self.weights = weights

    @classmethod
    def fit(cls, features: Sequence[Sequence[float]], is_good: Sequence[bool]) -> "Confidence":
        """Returns the confidence for segments with these :func:`features_of`, good or not."""
        from sklearn.linear_model import LogisticRegression

        x = np.asarray(features, dtype=float)
        mean, scale = x.mean(axis=0), np.maximum(x.std(axis=0), 1e-6)
        model = LogisticRegression().fit((x - mean) / scale, is_good)
        slopes = model.coef_[0] / scale
        return cls(torch.tensor([*slopes, float(model.intercept_[0]) - float(slopes @ mean)]))

    @classmethod
    def load(cls, folder: Path) -> "Confidence | None":
        """Loads it from ``folder``, None without its file. Raises a CheckpointError if damaged."""
        tensors = load_optional(folder / CONFIDENCE_FILE, {"weights": [_FEATURES + 1]})
        return None if tensors is None else cls(tensors["weights"])

    def save(self, folder: Path) -> None:
        """Writes it into a checkpoint folder."""
        save_tensors(folder / CONFIDENCE_FILE, {"weights": self.weights})

    def of(self, segments: Sequence[Sequence[int]], hypotheses: Sequence[Hypothesis]) -> float:
        """Returns the confidence in the translation of one text, which has segments.

        It is the mean of the probabilities that their translations are good, weighted by tokens.
        """
        *slopes, intercept = self.weights.tolist()
        total = count = 0.0
        for ids, hypothesis in zip(segments, hypotheses, strict=True):
            features = features_of(ids, hypothesis)
            logit = intercept + sum(a * b for a, b in zip(slopes, features, strict=True))
            total += len(ids) * (1.0 / (1.0 + math.exp(-logit)) if logit > _LOWEST else 0.0)
            count += len(ids)
        return round(total / count, _DIGITS)


def features_of(ids: Sequence[int], hypothesis: Hypothesis) -> list[float]:
    """Returns the log-probability per token, and the logarithms of the lengths and their ratio.

    The lengths of the source ``ids`` and of the hypothesis include ``<eos>``.
    """
    source, target = len(ids) + 1, len(hypothesis.tokens) + 1
    mean = max(hypothesis.log_prob / target, _LOWEST)
    return [mean, math.log(source), math.log(target / source)]


def capped(confidence: float, source: str, translation: str, familiarity: float | None) -> float:
    """Returns ``confidence``, less if the source is unlike the training data or there is a loop.

    A model that has seen nothing like a text is as certain of its output as ever.
    """
    if familiarity is not None and familiarity <= UNFAMILIAR:
        confidence = min(confidence, MOST_IF_UNFAMILIAR)
    return min(confidence, MOST_IF_LOOPED) if has_loop(source, translation) else confidence


def has_loop(source: str, translation: str) -> bool:
    """Returns whether a translation repeats itself.

    It has a word three times in a row, and the source has none, or it is longer than twice the
    source plus five words.
    """
    given, words = (_WORD.findall(text.lower()) for text in (source, translation))
    return len(words) > 2 * len(given) + 5 or (_has_triple(words) and not _has_triple(given))


def _has_triple(words: Sequence[str]) -> bool:
    return any(a == b == c for a, b, c in zip(words, words[1:], words[2:], strict=False))


def are_good(translations: Sequence[str], references: Sequence[str]) -> list[bool]:
    """Returns which translations are good, compared with one reference each."""
    from sacrebleu import CHRF

    chrf = CHRF()
    return [
        chrf.sentence_score(translation, [reference]).score >= GOOD_CHRF
        for translation, reference in zip(translations, references, strict=True)
    ]
