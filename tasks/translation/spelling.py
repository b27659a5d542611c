"""How a translator reads a line: without invisible characters, and with the usual capitals."""

import re

from data.codec import TextCodec
from data.tokenizers import SentencePieceBPE
from tasks.translation.placeholders import literal_of

# Soft hyphens, zero-width spaces and byte-order marks. The joiners are part of emoji and of words.
_INVISIBLE = re.compile("[\u00ad\u200b\u2060\ufeff]")
_GUILLEMET = re.compile(r"[«»‹›]")
_DOUBLE, _SINGLE = ("„", "“", '"'), ("‚", "‘", "'")  # opening, closing, for any language
_MARKS = {"«": _DOUBLE, "»": _DOUBLE, "‹": _SINGLE, "›": _SINGLE}

_WORD = re.compile(r"[^\W\d_]+")
_LETTER = re.compile(r"[^\W\d_]")
_SPACE = re.compile(r"(\s+)")
_SENTENCE_ENDS = (".", "!", "?", "…")
_LEAST_WORDS = 2  # one word in capitals can be an abbreviation
_ACRONYMS = (
    "ABS ADAC AfD AG AKW AOK ARD BASF BAföG BBC BIP BMW BND BRD BVB CD CDU CIA CSU DAX DB DDR "
    "DFB DGB DHL DIN DNA DVD EDV EKG EU EZB FBI FDP FIFA GEZ GmbH GPS HIV HSV HTML HTTP IBAN "
    "IBM ICE ISBN ISO IT IWF KFZ KG KI LED LKW LKWs MDR MwSt NASA NATO NDR NRW OECD ORF PC PDF "
    "PIN PKW PKWs PLZ RTL SAP SED SMS SPD SUV SWR TAN THW TÜV TV UEFA UFO UKW UN UNESCO UNICEF "
    "UNO US USA USB UV VHS VW WC WDR WG WHO WLAN WM WWF WWW ZDF"
)
_ACRONYM_OF = {name.upper(): name for name in _ACRONYMS.split()}


def readable(line: str, letters: frozenset[str] | None) -> str:
    """Returns a line without invisible characters, and with quotation marks that the model knows.

    German and Swiss books have »these« and «these»: a mark before a word opens a quotation. The
    model knows the characters ``letters``; None: all.
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


def usual_case(line: str, codec: TextCodec, letters: frozenset[str] | None) -> str:
    """Returns a line in capitals as it is usually written, and any other line as it is.

    Each word has the case that needs the fewest subwords, and among equal ones that of the more
    frequent subword: a simple truecaser (Lita et al. 2003, "tRuEcasIng") that needs no table.
    Sentences begin with a capital. Literals (:mod:`.placeholders`) and acronyms stay as they are.
    """

    def is_literal(part: str) -> bool:
        return letters is not None and bool(literal_of(part, letters)[1])

    parts = _SPACE.split(line)  # words, and the white space between them
    if any(part != part.upper() and not is_literal(part) for part in parts):
        return line
    bare = " ".join(part for part in parts if not is_literal(part))
    count = sum(len(word) > 1 for word in _WORD.findall(bare))
    is_subwords = isinstance(codec.tokenizer, SentencePieceBPE)
    if not (is_subwords and bare.isupper() and count >= _LEAST_WORDS):
        return line

    def likeliest(match: re.Match[str]) -> str:
        word = match[0]
        if word in _ACRONYM_OF:
            return _ACRONYM_OF[word]
        ids = {each: codec.encode(each) for each in (word.lower(), word.capitalize(), word)}
        return min(ids, key=lambda each: (len(ids[each]), ids[each]))

    is_start = True
    for number, part in enumerate(parts):
        if not is_literal(part):
            part = _WORD.sub(likeliest, part)
            if is_start:
                part = _LETTER.sub(lambda match: match[0].upper(), part, count=1)
            parts[number] = part
        if part.strip():
            is_start = part.endswith(_SENTENCE_ENDS) or (is_start and not _LETTER.search(part))
    return "".join(parts)
