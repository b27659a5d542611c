"""What a translation keeps as it is: addresses, long numbers, emoji, words in unknown letters.

Such a part of a sentence is a literal here. The model reads a placeholder instead and copies it;
then the literal takes its place again (Crego et al. 2016, "SYSTRAN's Pure Neural Machine
Translation Systems", section 3). A placeholder is an address that has no rare subwords, because a
model learns to copy addresses (:mod:`.augmentation`). Emoji at the ends of a sentence, and
sentences without letters that the model knows, never reach the model.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

from data.codec import TextCodec
from data.tokenizers import SentencePieceBPE
from tasks.translation.segments import sentences

PLACEHOLDERS = ("http://ab.de", "http://xy.com", "https://cd.org", "http://gh.org")
"""Copied in 30 of 30 sentences each by the shipped model. Further literals stay in the sentence."""

# Symbols, dingbats, emoji, and what joins and varies them.
_EMOJI = "".join(
    chr(code)
    for first, last in ((0x2190, 0x2BFF), (0x1F000, 0x1FAFF), (0xE0020, 0xE007F))
    for code in range(first, last + 1)
)
_EMOJI += "\u200d\u20e3\ufe0f"
_EMOJI_OR_SPACE = _EMOJI + " \t\u00a0"
_IS_EMOJI = frozenset(_EMOJI).__contains__

# What can stand before and after a literal and is no part of it.
_OPENING, _CLOSING = "([{<\"'„“‚‘»«", ".,;:!?…)]}>\"'“”‘’«»"
# Every pattern must match a whole word. Possessive quantifiers keep the search linear.
_LITERAL = re.compile(
    r"(?:[A-Za-z]{2,10}+://|www\.)\S+"  # https://example.org/a?b=1
    r"|[\w.+-]++@(?:[\w-]++\.)++[a-z]{2,}"  # anna@example.com
    r"|(?:[\w-]++\.)++(?:[a-z]{2,}/\S*|com|org|net|de|at|ch|eu|fr|io|uk)"  # t.me/abc, example.com
    r"|[@#][^\W\d]\w++"  # @anna
    r"|\+?\d[\d/-]{4,}\d"  # 0170-4455667
    r"|(?=[A-Z-]*+\d)(?=[\d-]*+[A-Z])[A-Z\d-]{4,}",  # DE89370400440532013000
)
_WORD = re.compile(r"\S+")
_LONGEST = 1000  # characters of a literal


def known_letters(codec: TextCodec) -> frozenset[str] | None:
    """Returns the characters of all tokens; None where tokens are not subwords."""
    if not isinstance(codec.tokenizer, SentencePieceBPE):
        return None
    known = codec.vocabulary.itos
    return frozenset(
        character for piece in known if not piece.startswith("<0x") for character in piece
    )


class LinePart(NamedTuple):
    """What is kept of a line, and the sentences after it, which have letters."""

    kept: str
    sentences: list[str]


def line_parts(line: str, letters: Collection[str] | None) -> list[LinePart]:
    """Splits a line; its parts are the line, but for white space at the end of the sentences.

    Args:
        letters: the characters that the model knows; None: all.
    """
    found = [LinePart("", [])]
    kept = space = ""  # what is not in ``found`` yet, and the white space before it
    for sentence in [*sentences(line), ""]:
        start = end = len(sentence)
        if any(c.isalpha() and (letters is None or c in letters) for c in sentence):
            start = _emoji_before(sentence)
            end -= len(_emoji_after(sentence[start:]))
        kept += sentence[:start]
        if kept.strip() and (start < end or not sentence):
            found.append(LinePart(space + kept, []))
        if start < end:
            text = sentence[start:end].rstrip()
            found[-1].sentences.append(text)
            kept, space = sentence[end:], sentence[start + len(text) : end]
    return found


def with_placeholders(
    sentence: str, letters: Collection[str] | None
) -> tuple[str, tuple[str, ...]]:
    """Returns a sentence with placeholders, and the literals that they stand for in their order."""
    if letters is None:
        return sentence, ()
    literals: list[str] = []

    def replaced(match: re.Match[str]) -> str:
        word = match[0]
        before = len(word) - len(word.lstrip(_OPENING))
        after = max(before, len(word.rstrip(_CLOSING)))
        literal = word[before:after]
        if len(literals) == len(PLACEHOLDERS) or not _is_kept(literal, letters):
            return word
        literals.append(literal)
        return word[:before] + PLACEHOLDERS[len(literals) - 1] + word[after:]

    return _WORD.sub(replaced, sentence), tuple(literals)


def has_placeholders(text: str, count: int) -> bool:
    """Returns whether ``text`` has each of the first ``count`` placeholders once."""
    return all(text.count(placeholder) == 1 for placeholder in PLACEHOLDERS[:count])


def restored(text: str, literals: tuple[str, ...]) -> str:
    """Returns ``text`` with the literals in the place of their placeholders."""
    places = dict(zip(PLACEHOLDERS, literals, strict=False))
    if not places:
        return text
    pattern = "|".join(map(re.escape, places))
    return re.sub(pattern, lambda match: places[match[0]], text)


def _is_kept(literal: str, letters: Collection[str]) -> bool:
    if not 0 < len(literal) <= _LONGEST:
        return False
    if _LITERAL.fullmatch(literal):
        return True
    return not any(c.isalnum() and c in letters for c in literal) and any(
        c.isalpha() or _IS_EMOJI(c) for c in literal
    )


def _emoji_before(sentence: str) -> int:
    """Returns the length of the emoji and spaces that a sentence begins with; 0 without emoji."""
    length = len(sentence) - len(sentence.lstrip(_EMOJI_OR_SPACE))
    return length if any(map(_IS_EMOJI, sentence[:length])) else 0


def _emoji_after(sentence: str) -> str:
    """Returns the emoji and spaces that a sentence ends with; nothing without emoji."""
    after = sentence[len(sentence.rstrip(_EMOJI_OR_SPACE)) :]
    return after if any(map(_IS_EMOJI, after)) else ""
