"""Which of two languages a text is in, learned from the two sides of a parallel corpus.

Character n-grams of the words have log-odds, the logarithm of how much more frequent they are in
the target language than in the source language (naive Bayes, as in Cavnar and Trenkle 1994 and
Lui and Baldwin 2012). A translator uses it to leave text alone that needs no translation.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Literal
from zlib import crc32

import torch
from torch import Tensor

from core.storage.checkpoint import load_optional, save_tensors
from tasks.runs.checkpoint_folder import LANGUAGE_FILE
from tasks.translation.segments import sentences

MIN_WORDS = 3
"""A sentence of fewer words is too short to be sure about."""
MAX_FALSE_ALARMS, MIN_RECOGNIZED = 0.001, 0.9
"""A detector that is worse than this on held-out pairs is of no use."""

# A text with a mean log-odds nearer to zero than this is in neither language for sure: 0 to 3%
# of English sentences are, and 99.8% of French captions.
_KNOWN = 0.45
_BUCKETS = 1 << 15  # n-grams are counted by their checksum
_LONGEST = 4
_SMOOTHING = 0.5
_WORD = re.compile(r"[^\W\d_]+")


class LanguageDetector:
    """Tells target texts from source texts by the ``log_odds`` ``[BUCKETS]`` of their n-grams."""

    def __init__(self, log_odds: Tensor) -> None:
        self.log_odds = log_odds
        self._of_bucket: list[float] = log_odds.tolist()
        # Half of the words of a text are frequent ones.
        self._evidence_of = lru_cache(maxsize=10_000)(self._evidence_of_word)

    @classmethod
    def fit(cls, sources: Iterable[str], targets: Iterable[str]) -> "LanguageDetector":
        """Returns the detector of the languages of ``sources`` and of ``targets``."""
        of_source, of_target = (_log_frequencies(texts) for texts in (sources, targets))
        # As rounded as it is in the file.
        return cls((of_target - of_source).half().float())

    @classmethod
    def load(cls, folder: Path) -> "LanguageDetector | None":
        """Loads it from ``folder``, None without its file. Raises a CheckpointError if damaged."""
        tensors = load_optional(folder / LANGUAGE_FILE, {"log_odds": [_BUCKETS]})
        return None if tensors is None else cls(tensors["log_odds"].float())

    def save(self, folder: Path) -> None:
        """Writes it into a checkpoint folder; 64 KiB."""
        save_tensors(folder / LANGUAGE_FILE, {"log_odds": self.log_odds.half()})

    def is_target(self, text: str) -> bool:
        """Returns whether every sentence of ``text`` is in the target language for sure.

        Sentences of fewer than :data:`MIN_WORDS` words have no say; one must be longer.
        """
        words = [_WORD.findall(sentence.lower()) for sentence in sentences(text)]
        found = [self._evidence(sentence) for sentence in words if len(sentence) >= MIN_WORDS]
        return bool(found) and all(plus - minus > _KNOWN * n for plus, minus, n in found)

    def side(self, text: str) -> tuple[Literal["source", "target"] | None, float]:
        """Returns the language of ``text`` and the share of the evidence that speaks for it.

        None, and 0, is the language of a text of fewer than :data:`MIN_WORDS` words and of one that
        is like neither language, as texts in a third one are.
        """
        words = _WORD.findall(text.lower())
        plus, minus, count = self._evidence(words)
        if len(words) < MIN_WORDS or abs(plus - minus) < _KNOWN * count:
            return None, 0.0
        share = max(plus, minus) / (plus + minus)
        return ("target" if plus > minus else "source"), share

    def recognized(self, texts: Sequence[str]) -> float:
        """Returns the share of ``texts`` that are in the target language for sure."""
        return sum(map(self.is_target, texts)) / max(1, len(texts))

    def is_useful(self, sources: Sequence[str], targets: Sequence[str]) -> bool:
        """Returns whether it tells held-out texts of the two languages apart."""
        alarms = self.recognized(sources) * len(sources)
        is_quiet = alarms <= max(1.0, MAX_FALSE_ALARMS * len(sources))
        return is_quiet and self.recognized(targets) >= MIN_RECOGNIZED

    def _evidence(self, words: Iterable[str]) -> tuple[float, float, int]:
        """Returns the log-odds for the target, those for the source, and how many there are."""
        plus, minus, counts = zip((0.0, 0.0, 0), *map(self._evidence_of, words), strict=True)
        return sum(plus), sum(minus), sum(counts)

    def _evidence_of_word(self, word: str) -> tuple[float, float, int]:
        odds = [self._of_bucket[bucket] for bucket in _buckets(word)]
        return sum(x for x in odds if x > 0), -sum(x for x in odds if x < 0), len(odds)


def _ngrams(word: str) -> Iterator[str]:
    """Yields the n-grams of a word and its ends, and the whole word."""
    word = f" {word} "
    for length in range(1, _LONGEST + 1):
        for start in range(len(word) - length + 1):
            yield word[start : start + length]
    if len(word) > _LONGEST:
        yield word


def _buckets(word: str) -> list[int]:
    return [crc32(ngram.encode()) % _BUCKETS for ngram in _ngrams(word)]


def _log_frequencies(texts: Iterable[str]) -> Tensor:
    """Returns the smoothed log-frequency ``[BUCKETS]`` of the n-grams of ``texts``."""
    words = Counter(word for text in texts for word in _WORD.findall(text.lower()))
    counts = [_SMOOTHING] * _BUCKETS
    for word, count in words.items():
        for bucket in _buckets(word):
            counts[bucket] += count
    frequencies = torch.tensor(counts, dtype=torch.double)
    return (frequencies / frequencies.sum()).log()
