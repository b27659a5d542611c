"""Splits texts into segments that a model can translate whole.

A model that was trained on sentences and gets a paragraph translates one or two sentences of it
and drops the others. So each sentence becomes a segment. A sentence that is too long for the model
is split further: after clauses, or else between words, or else anywhere. The segments together are
the whole text, apart from line breaks, indentation and the marks of lists and quotes, which stay as
they are in the translation.
"""

import re
from collections.abc import Callable, Sequence
from itertools import pairwise

# The end of a sentence: a mark, and no lowercase letter after it. Chinese and Japanese have no
# space there. Possessive quantifiers keep the search linear, and they keep the second of two
# spaces from matching where a letter must not follow.
_SENTENCE_END = re.compile(
    r"""(?<![.!?…])([.!?…]++)["'”’»“)\]]*+\s++(?![a-zß-öø-ÿ])|[。！？][”’」』）]*+\s*+"""
)
# After these a dot does not end a sentence: a single letter ("z. B."), a number of one or two
# digits ("3. Mai"), an abbreviation; of some words, only before a number ("Art. 5").
_NO_END = re.compile(
    r"\b(?:[^\W\d]|\d{1,2}|abb|bd|bzgl|bzw|ca|co|corp|dept|dipl|dr|etc|evtl|exkl|fa|fr|geb|ggf|hr"
    r"|hrsg|inc|inkl|jr|lt|ltd|mio|mr|mrd|mrs|ms|nr|okt|prof|sog|sr|st|\w*str|tel|vgl|vol|vs|zzgl)\Z",
    re.IGNORECASE,
)
_NO_END_BEFORE_NUMBER = re.compile(rf"{_NO_END.pattern}|\b(?:abs|art|kap|max|min|mo|mwst)\Z", re.I)
_LONGEST_ABBREVIATION = 5
# Where a sentence that is too long is split, the best places first: after a clause, between words.
_BREAKS = (re.compile(r"[.!?…,;:\u2013\u2014]\s+|[，；：、]\s*"), re.compile(r"\s+"))

# What begins a line and is no part of its text: marks of lists, headings, quotes and dialogue. A
# number with a dot is one only where there are several lines: "3. Mai" is a date.
_MARKS = r"(?:(?:[-*+•·‣>–—]++|\#{1,6}+|\[[ xX]\])[^\S\r\n]++)*+"
_NUMBER = r"(?:\(?(?:\d{1,3}+[.)]|[a-z]\))[^\S\r\n]++)?"
_LINE_START = re.compile(rf"(?:\A|[\r\n]++)\s*+{_MARKS}{_NUMBER}")
_LINE_BREAK = re.compile(r"[\r\n]")
_LINES_BEFORE = re.compile(r"\A\s*[\r\n]")
_ONLY_LINE_START = re.compile(rf"[^\S\r\n]*+{_MARKS}(?:\(?(?:\d{{1,3}}+|[a-z])\)[^\S\r\n]++)?")

Encode = Callable[[str], list[int]]
"""From a text to its ids."""


def lines(text: str) -> list[tuple[str, str]]:
    """Splits ``text`` into lines, each as what comes before its first word, and the rest.

    The former begins with the breaks and empty lines before it. A single line has none of these.
    """
    single = _LINES_BEFORE.sub("", text.rstrip())
    if not _LINE_BREAK.search(single):
        end = line_start(single, is_alone=True)
        return [(single[:end], single[end:])]
    starts = [*_LINE_START.finditer(text)]
    ends = [*(start.start() for start in starts[1:]), len(text)]
    return [(start[0], text[start.end() : end]) for start, end in zip(starts, ends, strict=True)]


def line_start(line: str, *, is_alone: bool) -> int:
    """Returns the length of what a line begins with and is no part of its text."""
    start = (_ONLY_LINE_START if is_alone else _LINE_START).match(line)
    return start.end() if start else 0


def sentences(text: str) -> list[str]:
    """Splits ``text`` after the end of every sentence; the dot of an abbreviation is not one."""
    ends = [match.end() for match in _SENTENCE_END.finditer(text) if _is_end(match)]
    return _split_at(text, ends)


def encoded_segments(text: str, encode: Encode, size: int) -> list[list[int]]:
    """Returns the ids of each segment of ``text``, at most ``size``; none if it is empty."""
    parts = (sentence for _, line in lines(text) for sentence in sentences(line))
    return [ids for sentence in parts for ids in segments_of(sentence, encode, size)]


def segments_of(
    text: str, encode: Encode, size: int, breaks: Sequence[re.Pattern[str]] = _BREAKS
) -> list[list[int]]:
    """Returns the ids of each segment of a sentence, which is split at ``breaks``."""
    ids = encode(text)
    if len(ids) <= size:
        return [ids] if ids else []
    if not breaks:
        return [ids[start : start + size] for start in range(0, len(ids), size)]
    parts = _split_at(text, [match.end() for match in breaks[0].finditer(text)])
    joined = _join(parts, [len(encode(part)) for part in parts], size)
    return [ids for part in joined for ids in segments_of(part, encode, size, breaks[1:])]


def _join(parts: Sequence[str], lengths: Sequence[int], size: int) -> list[str]:
    """Joins neighboring ``parts`` as long as the sum of their ``lengths`` is at most ``size``."""
    joined: list[str] = []
    capacity = 0
    for part, length in zip(parts, lengths, strict=True):
        if joined and length <= capacity:
            joined[-1] += part
            capacity -= length
        else:
            joined.append(part)
            capacity = size - length
    return joined


def _split_at(text: str, ends: Sequence[int]) -> list[str]:
    """Splits ``text`` into non-empty parts that end at ``ends`` and at the end of the text."""
    return [text[start:end] for start, end in pairwise([0, *ends, len(text)]) if start < end]


def _is_end(match: re.Match[str]) -> bool:
    if match[1] != ".":  # the other marks have no other use
        return True
    before = match.string[max(0, match.start() - _LONGEST_ABBREVIATION - 1) : match.start()]
    is_before_number = match.string[match.end() : match.end() + 1].isdigit()
    return (_NO_END_BEFORE_NUMBER if is_before_number else _NO_END).search(before) is None
