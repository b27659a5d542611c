"""Words, their kinds, and where they end in a line.

``words/words.txt`` has a word of two to four characters on each line, the most frequent first, and
its kinds (n for a noun, v for a verb...). The probability of a word is about the inverse of its
rank (Zipf's law). A line is cut where the product of the probabilities is largest.
"""

import math
from functools import cache, lru_cache
from typing import NamedTuple

from tasks.couplet.tones import read_words

_LONGEST = 4
# Ranks begin here: what counts is more whether a piece is a word than how frequent it is.
_FIRST_RANK = 3000
# A character by itself is as frequent as a word in the middle of the table, by this power.
_SINGLE = 0.75


class Word(NamedTuple):
    """The negative logarithm of a word's probability, up to a constant, and its kinds."""

    cost: float
    kinds: str


class Cut(NamedTuple):
    """A line in words: the sum of their costs; where the longer ones begin and end, their kinds."""

    cost: float
    words: tuple[tuple[int, int, str], ...]


@cache
def lexicon() -> dict[str, Word]:
    """Returns the words of ``words/words.txt``."""
    pairs = (line.partition(" ") for line in read_words("words.txt"))
    return {
        word: Word(math.log(rank), kinds)
        for rank, (word, _, kinds) in enumerate(pairs, start=_FIRST_RANK)
    }


@cache
def answers(size: int, kinds: str) -> list[str]:
    """Returns the words of ``size`` characters that are of one of ``kinds``; of any without it."""
    return [
        word
        for word, known in lexicon().items()
        if len(word) == size and (not kinds or set(kinds) & set(known.kinds))
    ]


@lru_cache(maxsize=4096)
def cut(line: str) -> Cut:
    """Returns the most probable words of ``line``."""
    words = lexicon()
    single = _SINGLE * math.log(len(words))
    best = [Cut(0.0, ())]
    for end in range(1, len(line) + 1):
        cost, found = best[-1]
        choices = [Cut(cost + single, found)]
        for start in range(max(0, end - _LONGEST), end - 1):
            piece = line[start:end]
            is_latin = piece.isascii() and piece.isalpha()  # which names a thing (GPS)
            if word := Word(1.0, "n") if is_latin else words.get(piece):
                cost, found = best[start]
                choices.append(Cut(cost + word.cost, (*found, (start, end, word.kinds))))
        best.append(min(choices))
    return best[-1]
