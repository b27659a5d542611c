"""Lines in capitals, as a translator reads them: WO IST ER? has few subwords that a model knows."""

from __future__ import annotations

import re

from data.codec import TextCodec
from data.tokenizers import SentencePieceBPE

_WORD = re.compile(r"[^\W\d_]+")
# What stands before a word, and its first letter. Each character is read once, so the search is
# linear.
_WORD_START = re.compile(r"(?:\A\W*+|(?<=\w)\W++)[^\W\d_]")
_SENTENCE_END = re.compile(r"[.!?…] ")
_LEAST_WORDS = 2  # one word in capitals can be an abbreviation


def usual_case(line: str, codec: TextCodec) -> str:
    """Returns a line in capitals as it is usually written, and any other line as it is.

    Each word has the case that needs the fewest subwords, and among equal ones that of the more
    frequent subword: a simple truecaser (Lita et al. 2003, "tRuEcasIng") that needs no table.
    Sentences begin with a capital.
    """
    words = [word for word in _WORD.findall(line) if len(word) > 1]
    is_subwords = isinstance(codec.tokenizer, SentencePieceBPE)
    if not (is_subwords and line.isupper() and len(words) >= _LEAST_WORDS):
        return line

    def likeliest(match: re.Match[str]) -> str:
        word = match[0]
        ids = {each: codec.encode(each) for each in (word.lower(), word.capitalize(), word)}
        return min(ids, key=lambda each: (len(ids[each]), ids[each]))

    return with_capitals(_WORD.sub(likeliest, line))


def with_capitals(text: str) -> str:
    """Returns ``text`` with a capital at its beginning and at that of each sentence."""

    def start(match: re.Match[str]) -> str:
        is_first = match.start() == 0 or _SENTENCE_END.search(match[0]) is not None
        return match[0].upper() if is_first else match[0]

    return _WORD_START.sub(start, text)
