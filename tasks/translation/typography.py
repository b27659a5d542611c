"""Characters that a translator reads as others: invisible ones, and unknown quotation marks."""

from __future__ import annotations

import re
from collections.abc import Collection

# Soft hyphens, zero-width spaces and byte-order marks. The joiners are part of emoji and of words.
_INVISIBLE = re.compile("[\u00ad\u200b\u2060\ufeff]")
_GUILLEMET = re.compile(r"[«»‹›]")
_DOUBLE, _SINGLE = ("„", "“", '"'), ("‚", "‘", "'")  # opening, closing, for any language
_MARKS = {"«": _DOUBLE, "»": _DOUBLE, "‹": _SINGLE, "›": _SINGLE}


def readable(line: str, letters: Collection[str] | None) -> str:
    """Returns a line without invisible characters, and with quotation marks that the model knows.

    German and Swiss books have »these« and «these»: a mark before a word opens a quotation.

    Args:
        letters: the characters that the model knows; None: all.
    """
    line = _INVISIBLE.sub("", line)
    if letters is None:
        return line

    def known(match: re.Match[str]) -> str:
        mark = match[0]
        if mark in letters:
            return mark
        opening, closing, plain = _MARKS[mark]
        is_opening = line[match.end() : match.end() + 1].isalnum()
        return next((c for c in (opening if is_opening else closing, plain) if c in letters), mark)

    return _GUILLEMET.sub(known, line)
