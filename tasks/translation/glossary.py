"""A user's own terms with fixed translations: names of products, and what stays as it is.

The model reads a placeholder in the place of a term (:mod:`.placeholders`) and copies it; then the
translation of the term takes its place. It is not inflected.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from core.config import check
from core.errors import CorpusError
from data.readers import iter_lines

MAX_TERMS, MAX_TERM_LENGTH = 10_000, 200


class Glossary:
    """Finds the terms of ``translations``, which maps them to what stands for them.

    A term is found as a whole word, with capitals or without; of two, the longer one.

    Raises:
        ConfigError: no term or translation, one that is too long, or too many of them.
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


def read_glossary(path: Path) -> dict[str, str]:
    """Returns the terms of a file and their translations: a term, a tab and its translation a line.

    Raises:
        CorpusError: the file cannot be read, or a line is something else; empty ones are skipped.
    """
    found = {}
    for number, line in enumerate(iter_lines(path), start=1):
        term, _, translation = map(str.strip, line.partition("\t"))
        if not line.strip():
            continue
        if not (term and translation) or "\t" in translation:
            raise CorpusError(path, "expected a term, a tab and its translation", number)
        found[term] = translation
    return found
