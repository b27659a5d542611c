"""The banner (横批) over a couplet: a customary phrase of four characters that fits both lines."""

from __future__ import annotations

from functools import cache

from tasks.couplet.script import is_traditional, simplified, traditional
from tasks.couplet.tones import read_words

_FEWEST_SHARED = 2


def banner(first: str, second: str) -> str | None:
    """Returns the banner whose subject has most characters in common with the couplet.

    The subjects are lists of characters (``words/banners.txt``). A banner that repeats a character
    of the couplet counts one less for each.

    Returns:
        None where no subject shares two characters, or its banner repeats as many: then none is
        better than a wrong one.
    """
    characters = set(simplified(first + second))
    scores = [
        (len(shared) - len(characters & set(phrase)), phrase)
        for phrase, subject in _banners()
        if len(shared := characters & subject) >= _FEWEST_SHARED
    ]
    best, phrase = max(scores, key=lambda scored: scored[0], default=(0, ""))
    if best <= 0:
        return None
    return traditional(phrase) if is_traditional(first + second) else phrase


@cache
def _banners() -> list[tuple[str, frozenset[str]]]:
    rows = (line.split(" ") for line in read_words("banners.txt"))
    return [(phrase, frozenset(subject)) for phrase, subject in rows]
