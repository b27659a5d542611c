"""What a translation keeps: addresses, dates, long numbers, emoji, words in unknown letters.

Such a part of a sentence is a literal here. The model reads a placeholder instead and copies it;
then the literal takes its place again (Crego et al. 2016, "SYSTRAN's Pure Neural Machine
Translation Systems", section 3). A placeholder is an address that has no rare subwords, because a
model learns to copy addresses (:mod:`.augmentation`). Emoji at the ends of a sentence, and
sentences without letters that the model knows, never reach the model.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from core.config import check
from core.errors import CorpusError
from data.codec import TextCodec
from data.readers import iter_lines
from data.tokenizers import SentencePieceBPE
from tasks.translation.segments import sentences

PLACEHOLDERS = ("http://ab.de", "http://xy.com", "https://cd.org", "http://gh.org")
"""Copied in 29 of 30 sentences each by the shipped model. Further literals stay in the sentence."""
FALLBACK = "4711"
"""Stands for a literal whose placeholder was not copied: of 90 terms, 7 are lost with the first
placeholder and two with both."""

MAX_TERMS, MAX_TERM_LENGTH = 10_000, 200

# Symbols, dingbats, emoji, and what joins and varies them.
_EMOJI = "\u2190-\u2bff\U0001f000-\U0001faff\U000e0020-\U000e007f\u200d\u20e3\ufe0f"
_IS_EMOJI = re.compile(f"[{_EMOJI}]").match
_EMOJI_BEFORE = re.compile(f"[ \t\u00a0]*+[{_EMOJI}][{_EMOJI} \t\u00a0]*")

# What can stand before and after a literal and is no part of it.
_OPENING, _CLOSING = "([{<\"'„“‚‘»«", ".,;:!?…)]}>\"'“”‘’«»"
# Every pattern must match a whole word. Possessive quantifiers keep the search linear.
_LITERAL = re.compile(
    r"(?:[A-Za-z]{2,10}+://|www\.)\S+"  # https://example.org/a?b=1
    r"|[\w.+-]++@(?:[\w-]++\.)++[a-z]{2,}"  # anna@example.com
    r"|(?:[\w-]++\.)++(?:[a-z]{2,}/\S*|com|org|net|de|at|ch|eu|fr|io|uk)"  # t.me/abc, example.com
    r"|[@#][^\W\d]\w++"  # @anna
    r"|\+?\d[\d/-]{4,}\d"  # 0170-4455667
    r"|(?!\d{1,3}(?:\.\d{3})++\Z)\d++(?:\.\d++){2,}+"  # 24.12.2025, 5.3.1; not 1.500.000
    r"|(?=[A-Z-]*+\d)(?=[\d-]*+[A-Z])[A-Z\d-]{4,}"  # DE89370400440532013000
    # Acronyms that English has, too, and that a small model does not copy.
    "|ADAC|ARD|BBC|BMW|CDU|CIA|CSU|DFB|DHL|DIN|DNA|DVD|EU|FDP|FIFA|GPS|HTML|HTTP|IBAN|IBM|ISBN|ISO|"
    "NASA|NATO|OECD|PDF|RTL|SPD|UEFA|UNESCO|UNICEF|USB|VW|WDR|WWW|ZDF"
)
_WORD = re.compile(r"\S+")
_LONGEST = 1000  # characters of a literal


def known_letters(codec: TextCodec) -> frozenset[str] | None:
    """Returns the characters of all tokens; None where tokens are not subwords."""
    if not isinstance(codec.tokenizer, SentencePieceBPE):
        return None
    known = codec.vocabulary.itos
    return frozenset("".join(piece for piece in known if not piece.startswith("<0x")))


class Literal(NamedTuple):
    """What a placeholder stands for: in the source, and in the translation."""

    source: str
    target: str


class LinePart(NamedTuple):
    """What is kept of a line, and the sentences after it, which have letters."""

    kept: str
    sentences: list[str]


class Glossary:
    """A user's own terms with fixed ``translations``, such as names of products.

    A term is found as a whole word, with capitals or without; of two, the longer one. The model
    copies a placeholder for it, which its translation replaces, not inflected. Raises a ConfigError
    for terms that are too many, too long or empty.
    """

    def __init__(self, translations: Mapping[str, str]) -> None:
        count = len(translations)
        check(count <= MAX_TERMS, "glossary", f"{count:,}", f"at most {MAX_TERMS:,} terms")
        for text in (*translations, *translations.values()):
            is_right = isinstance(text, str) and 0 < len(text.strip()) <= MAX_TERM_LENGTH
            check(is_right, "glossary", text, f"texts of 1 to {MAX_TERM_LENGTH} characters")
        self._translations = {
            " ".join(term.lower().split()): " ".join(text.split())
            for term, text in translations.items()
        }
        longest_first = sorted(self._translations, key=len, reverse=True)
        terms = "|".join(re.escape(term).replace(r"\ ", r"\s+") for term in longest_first)
        # Not a part of a word, an address or a path.
        self._terms = re.compile(rf"(?<![\w/@.-])({terms})(?![\w/@]|[.-]\w)", re.IGNORECASE)

    def split(self, sentence: str) -> list[str]:
        """Returns a sentence as parts, of which every second one is a term."""
        return self._terms.split(sentence) if self._translations else [sentence]

    def translation(self, term: str) -> str:
        """Returns what stands for a term that was found."""
        return self._translations.get(" ".join(term.lower().split()), term)


def line_parts(line: str, letters: frozenset[str] | None) -> list[LinePart]:
    """Splits a line into parts, given the ``letters`` that the model knows (None: all)."""
    found = [LinePart("", [])]
    kept = space = ""  # what is not in ``found`` yet, and the white space before it
    for sentence in [*sentences(line), ""]:
        start = end = len(sentence)
        if any(c.isalpha() and (letters is None or c in letters) for c in sentence):
            start = _emoji_before(sentence)
            end -= _emoji_before(sentence[start:][::-1])
        kept += sentence[:start]
        if kept.strip() and (start < end or not sentence):
            found.append(LinePart(space + kept, []))
        if start < end:
            text = sentence[start:end].rstrip()
            found[-1].sentences.append(text)
            kept, space = sentence[end:], sentence[start + len(text) : end]
    return found


def with_placeholders(
    sentence: str, letters: frozenset[str] | None, glossary: Glossary | None = None
) -> tuple[str, dict[str, Literal]]:
    """Returns a sentence with placeholders for literals and the terms of ``glossary``."""
    literals: dict[str, Literal] = {}
    if letters is None:
        return sentence, literals

    def placeholder_of(source: str, target: str) -> str:
        literals[PLACEHOLDERS[len(literals)]] = Literal(source, target)
        return PLACEHOLDERS[len(literals) - 1]

    def replaced(match: re.Match[str]) -> str:
        before, literal, after = literal_of(match[0], letters)
        is_possible = literal and len(literals) < len(PLACEHOLDERS)
        return before + placeholder_of(literal, literal) + after if is_possible else match[0]

    text = ""
    for number, part in enumerate([sentence] if glossary is None else glossary.split(sentence)):
        if number % 2 == 0:
            text += _WORD.sub(replaced, part)
        elif glossary is not None and len(literals) < len(PLACEHOLDERS):
            text += placeholder_of(part, glossary.translation(part))
        else:
            text += part
    return text, literals


def restored(text: str, literals: Mapping[str, str]) -> str:
    """Returns ``text`` with ``literals`` in the place of their placeholders."""
    if not literals:
        return text
    pattern = "|".join(map(re.escape, literals))
    return re.sub(pattern, lambda match: literals[match[0]], text)


@lru_cache(maxsize=10_000)  # half of the words of a text are frequent ones
def literal_of(word: str, letters: frozenset[str]) -> tuple[str, str, str]:
    """Returns what is before the literal in ``word``, the literal, and the rest; or empty texts."""
    start = len(word) - len(word.lstrip(_OPENING))
    end = max(start, len(word.rstrip(_CLOSING)))
    literal = word[start:end]
    if not 0 < len(literal) <= _LONGEST:
        return "", "", ""
    is_literal = _LITERAL.fullmatch(literal) is not None
    if is_literal and word[:start].endswith("<") and word[end:].startswith(">"):
        start, end = start - 1, end + 1  # <anna@example.com>
        literal = word[start:end]
    if not is_literal and not any(c.isalnum() and c in letters for c in literal):
        is_literal = any(c.isalpha() or _IS_EMOJI(c) for c in literal)
    return (word[:start], literal, word[end:]) if is_literal else ("", "", "")


def _emoji_before(sentence: str) -> int:
    """Returns the length of the emoji and spaces that a sentence begins with; 0 without emoji."""
    match = _EMOJI_BEFORE.match(sentence)
    return match.end() if match else 0


def read_glossary(path: Path) -> dict[str, str]:
    """Returns the terms and translations of a file: a term, a tab and its translation a line.

    Empty lines are skipped. Raises a CorpusError for any other line.
    """
    found: dict[str, str] = {}
    for number, line in enumerate(iter_lines(path), start=1):
        term, _, translation = map(str.strip, line.partition("\t"))
        if not line.strip():
            continue
        is_one = found.get(term, translation) == translation
        if not (term and translation and is_one) or "\t" in translation:
            raise CorpusError(path, "expected a term, a tab and its one translation", number)
        found[term] = translation
    return found
