"""Cutting texts into pieces that a model can translate whole.

A model that was trained on sentences and is given a paragraph translates a sentence or two of it
and forgets the rest. So each sentence is a piece of its own, and one that is too long even so is
cut behind clauses, or else words, or else anywhere. The pieces together are the whole text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise

# What ends a sentence, if no small letter follows; Chinese and Japanese have no spaces there. The
# possessive quantifiers keep the search linear, and a second space from passing for a letter.
_SENTENCE_END = re.compile(
    r"""(?<![.!?…])([.!?…]++)["'”’»“)\]]*+\s++(?![a-zß-öø-ÿ])|[。！？][”’」』）]*+\s*+"""
)
# Behind these a dot ends no sentence: a letter ("z. B."), a small number ("3. Mai"), abbreviations.
_NO_END = re.compile(
    r"\b(?:[^\W\d]|\d{1,2}|abb|bd|bzw|ca|co|corp|dept|dipl|dr|etc|evtl|fr|geb|hr|inc|jr|ltd|mio|mr"
    r"|mrd|mrs|ms|nr|prof|sog|sr|st|str|tel|vgl|vol|vs)\Z",
    re.IGNORECASE,
)
_LONGEST_ABBREVIATION = 5
# Behind what a sentence that is too long is cut, the best place first: a clause, a word.
_BREAKS = (re.compile(r"[.!?…,;:\u2013\u2014]\s+|[，；：、]\s*"), re.compile(r"\s+"))

Encode = Callable[[str], list[int]]


def sentences(text: str) -> list[str]:
    """``text`` cut behind every end of a sentence that is not likely an abbreviation's dot."""
    return _cut_at(text, [end.end() for end in _SENTENCE_END.finditer(text) if _is_end(end)])


def encoded_pieces(text: str, encode: Encode, size: int) -> list[list[int]]:
    """The ids of ``text``, sentence by sentence, at most ``size`` a piece; none for an empty text.

    Args:
        encode: from a text to its ids.
    """
    return [ids for sentence in sentences(text) for ids in _pieces(sentence, encode, size, _BREAKS)]


def _pieces(
    text: str, encode: Encode, size: int, breaks: Sequence[re.Pattern[str]]
) -> list[list[int]]:
    ids = encode(text)
    if len(ids) <= size:
        return [ids] if ids else []
    if not breaks:
        return [ids[start : start + size] for start in range(0, len(ids), size)]
    parts = _cut_at(text, [match.end() for match in breaks[0].finditer(text)])
    joined = _join(parts, [len(encode(part)) for part in parts], size)
    return [ids for part in joined for ids in _pieces(part, encode, size, breaks[1:])]


def _join(parts: Sequence[str], lengths: Sequence[int], size: int) -> list[str]:
    """Neighbouring ``parts`` joined again as far as their ``lengths`` allow."""
    joined: list[str] = []
    room = 0
    for part, length in zip(parts, lengths, strict=True):
        if joined and length <= room:
            joined[-1] += part
            room -= length
        else:
            joined.append(part)
            room = size - length
    return joined


def _cut_at(text: str, places: Sequence[int]) -> list[str]:
    """``text`` in parts that end at ``places`` and at its end."""
    return [text[start:end] for start, end in pairwise([0, *places, len(text)]) if start < end]


def _is_end(match: re.Match[str]) -> bool:
    if match[1] != ".":  # a mark that has no other use
        return True
    before = match.string[max(0, match.start() - _LONGEST_ABBREVIATION - 1) : match.start()]
    return _NO_END.search(before) is None
