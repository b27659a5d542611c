"""The rules of the couplet (对联): checks of a pair of lines, whoever wrote it.

A rule is a function from a :class:`Pair` to what breaks it, "" if nothing does. ``RULES`` has all
of them by name. :mod:`tasks.couplet.constraint` makes a search keep them.

The sources are the 联律通则 of the Couplet Society of China (中国楹联学会, 2008), cited by article,
and Wang Li, 汉语诗律学 (1958), chapter 1, on parallel lines (对仗).
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

from tasks.couplet.script import CAPITALS
from tasks.couplet.tones import (
    LEVEL,
    OBLIQUE,
    Tones,
    is_punctuation,
    line_tones,
    read_words,
    rhymes,
)
from tasks.couplet.tones import tones as tones_of

# Marks between clauses. Others, such as quotes, are inside a clause.
_CLAUSE_ENDS = frozenset("，。；：！？、…—,.;:!?")
# A word in the middle of a clause whose two sides answer each other: 襟三江而带五湖.
_HINGES = frozenset("而以且兮")
_TONE_PLACES = (2, 4, 6)


@dataclass(frozen=True)
class Pair:
    """A line and its answer without white space, as sequences of characters.

    The answer to a second line is a first line. ``rhyme`` is the system of tones and rhymes
    (:mod:`tasks.couplet.tones`). Phrases decide how the given line is read; its answer may be read
    in every way that its characters can be: a search knows no phrase before it has written it.
    """

    first: Sequence[str]
    second: Sequence[str]
    rhyme: str = "modern"

    @cached_property
    def words(self) -> tuple[list[str], list[str]]:
        """The characters of both lines without punctuation marks."""
        return words_of(self.first), words_of(self.second)

    @cached_property
    def tones(self) -> tuple[list[Tones], list[Tones]]:
        """The tones of every character of both lines."""
        answer = [tones_of(character, self.rhyme) for character in self.second]
        return line_tones(self.first, self.rhyme), answer

    def alike(self, i: int, j: int) -> str:
        """Returns the characters at both places if their tones are sure and the same, else ""."""
        are_alike = _are_alike(self.tones[0][i], self.tones[1][j])
        return f"{self.first[i]}{self.second[j]}" if are_alike else ""


def length(pair: Pair) -> str:
    """Both lines have the same number of characters (字句对等, article 1)."""
    counts = len(pair.first), len(pair.second)
    return "" if counts[0] == counts[1] else f"{counts[0]} and {counts[1]} characters"


def punctuation(pair: Pair) -> str:
    """Both lines have the same marks at the same places (节律对拍, article 4)."""
    lines = (pair.first, pair.second)
    marks = ({(i, c) for i, c in enumerate(line) if is_punctuation(c)} for line in lines)
    different = sorted(set.symmetric_difference(*marks))
    return f"place {different[0][0] + 1}: {different[0][1]}" if different else ""


def characters(pair: Pair) -> str:
    """No character of the first line is in the second (不重字). Latin letters may be."""
    second = set(pair.words[1]) - CAPITALS.keys()
    return "".join(dict.fromkeys(c for c in pair.words[0] if c in second))


def repetition(pair: Pair) -> str:
    """The second line repeats a character exactly where the first does (重字相应).

    Latin letters count for themselves: APP is answered with KTV.
    """
    patterns = [first_positions(words) for words in pair.words]
    if patterns[0] == patterns[1]:
        return ""
    place = next((i for i, (f, s) in enumerate(zip(*patterns, strict=False)) if f != s), None)
    return "the lines differ in length" if place is None else f"word {place + 1}"


def ending(pair: Pair) -> str:
    """The last words have opposed tones, level in the second line (仄起平收, article 5).

    A first line that ends level is answered with an oblique end. Characters of unknown tone, and
    those with readings of both tones, are opposed to all.
    """
    ends = last_word(pair.first), last_word(pair.second)
    return "" if -1 in ends else pair.alike(*ends)


def tones(pair: Pair) -> str:
    """The tones at places 2, 4 and 6 of each clause are opposed (平仄对立, article 5)."""
    places = [i for i in tone_places(pair.first) if i < len(pair.second)]
    return " ".join(filter(None, (pair.alike(i, i) for i in places)))


def rhyme(pair: Pair) -> str:
    """The last words do not rhyme (忌同韵), as they would in verse."""
    ends = "".join(words[-1] for words in pair.words if words)
    are_alike = len(ends) == 2 and _are_alike(*(rhymes(end, pair.rhyme) for end in ends))
    return ends if are_alike else ""


def palindrome(pair: Pair) -> str:
    """A first line that reads the same backwards (回文) has an answer that does so as well.

    One with Latin letters need not.
    """
    first, second = pair.words
    is_one = len(first) >= 3 and first == first[::-1] and len(set(first)) > 1
    has_letters = not CAPITALS.keys().isdisjoint(first)
    is_broken = is_one and not has_letters and second != second[::-1]
    return "the first line is one, the second is not" if is_broken else ""


def parallels(pair: Pair) -> str:
    """Where halves of a clause answer each other (句中自对), they do in both lines."""
    second = pair.second
    return " ".join(
        f"{second[i]}{second[j]}"
        for i, j in parallel_places(pair.first)
        if j < len(second) and second[j] not in partners(second[i])
    )


def avoided(pair: Pair) -> str:
    """The second line has no word that nobody wants to read (``words/avoided.txt``)."""
    return find_avoided(pair.second, avoided_words()) or ""


_RULES = (length, punctuation, characters, repetition, ending, tones, rhyme, palindrome)
RULES: dict[str, Callable[[Pair], str]] = {
    rule.__name__: rule for rule in (*_RULES, parallels, avoided)
}


def broken(first: Sequence[str], second: Sequence[str], rhyme: str = "modern") -> dict[str, str]:
    """Returns the rules that the pair breaks, each with what breaks it."""
    pair = Pair(first, second, rhyme)
    return {name: what for name, rule in RULES.items() if (what := rule(pair))}


def check(first: Sequence[str], second: Sequence[str], rhyme: str = "modern") -> dict[str, bool]:
    """Returns for each rule whether the pair keeps it; both lines are without white space."""
    rules = broken(first, second, rhyme)
    return {name: name not in rules for name in RULES}


def broken_rule(
    first: Sequence[str], given: Sequence[str | None], rhyme: str = "modern", tones: str = "ending"
) -> str | None:
    """Returns a rule that no second line with the characters ``given`` can keep, or None.

    ``given`` has None for a character that is still free. Characters inside the line may break the
    rules of tones: whoever gives them wants them.
    """
    if len(given) > len(first):
        return "length"
    # A free place gets a character without tones, which no line has.
    second = [
        known or (f if is_punctuation(f) else chr(0xF0000 + place))
        for f, known, place in zip(first, spread(first, given), first_positions(first), strict=True)
    ]
    pair = Pair(first, second, rhyme)
    rules = (punctuation, characters, repetition, *((ending,) if tones != "off" else ()))
    return next((rule.__name__ for rule in rules if rule(pair)), None)


def spread(first: Sequence[str], given: Sequence[str | None]) -> list[str | None]:
    """Returns ``given`` for a whole line: also where the first line repeats a character."""
    known = {p: g for p, g in zip(first_positions(first), given, strict=False) if g is not None}
    whole = [*given, *[None] * (len(first) - len(given))]
    return [g or known.get(p) for p, g in zip(first_positions(first), whole, strict=True)]


def ending_tone(given: Tones, *, backward: bool = False) -> str | None:
    """Returns the tone of a last word that answers a word with the tones ``given``.

    If it may have both, second lines end level, and first lines (``backward``) oblique: 仄起平收 is
    the rule, and the reverse an exception.
    """
    usual, other = (OBLIQUE, LEVEL) if backward else (LEVEL, OBLIQUE)
    return (usual if other in given else other) if given else None


def tone_places(line: Sequence[str]) -> list[int]:
    """Returns the positions of the second, fourth and sixth word of each clause."""
    return [clause[n - 1] for clause in clauses(line) for n in _TONE_PLACES if len(clause) >= n]


def parallel_places(line: Sequence[str]) -> list[tuple[int, int]]:
    """Returns the positions of words that answer each other in halves of one clause.

    The halves of a clause of 4, 6, 8... words, or of 7, 9... around a word such as 而, are parallel
    if at least half of their words are pairs of the primers (:func:`partners`).
    """
    places: list[tuple[int, int]] = []
    for clause in clauses(line):
        middle, is_odd = divmod(len(clause), 2)
        if middle < 2 or (is_odd and (middle < 3 or line[clause[middle]] not in _HINGES)):
            continue
        halves = [*zip(clause[:middle], clause[middle + is_odd :], strict=True)]
        answered = [(i, j) for i, j in halves if line[j] in partners(line[i])]
        if 2 * len(answered) >= middle:
            places += answered
    return places


def clauses(line: Sequence[str]) -> list[list[int]]:
    """Returns the positions of the words of each clause."""
    found: list[list[int]] = [[]]
    for i, character in enumerate(line):
        if character in _CLAUSE_ENDS:
            found.append([])
        elif not is_punctuation(character):
            found[-1].append(i)
    return [clause for clause in found if clause]


def last_word(line: Sequence[str]) -> int:
    """Returns the position of the last character that is no mark; -1 if there is none."""
    return next((i for i in reversed(range(len(line))) if not is_punctuation(line[i])), -1)


def first_positions(characters: Sequence[str]) -> list[int]:
    """Returns for each character the position where it first occurs: the repetition pattern.

    That of a Latin letter is its own.
    """
    seen: dict[str, int] = {}
    return [i if c in CAPITALS else seen.setdefault(c, i) for i, c in enumerate(characters)]


def letter_words(line: Sequence[str]) -> dict[int, tuple[int, list[str]]]:
    """Returns for each place in a word of Latin letters its beginning and what may answer it.

    The other words of ``words/letters.txt`` of its length may; a length without any has no places.
    """
    found: dict[int, tuple[int, list[str]]] = {}
    for match in re.finditer("[A-Z]+", "".join(CAPITALS.get(c, "-") for c in line)):
        own, known = match[0], read_words("letters.txt")
        words = [word for word in known if len(word) == len(own) and word != own]
        found |= {place: (match.start(), words) for place in range(*match.span()) if words}
    return found


def words_of(line: Sequence[str]) -> list[str]:
    """Returns the characters of ``line`` that are not punctuation marks."""
    return [character for character in line if not is_punctuation(character)]


def split_line(line: Sequence[str], size: int) -> list[list[str]]:
    """Splits ``line`` into segments of at most ``size`` characters, after a mark if possible."""
    segments: list[list[str]] = []
    start = 0
    while start < len(line):
        end = start + size
        if end < len(line):
            backwards = range(end - 1, start - 1, -1)
            end = next((i + 1 for i in backwards if is_punctuation(line[i])), end)
        segments.append(list(line[start:end]))
        start = end
    return segments


def find_avoided(line: Sequence[str], words: frozenset[str]) -> str | None:
    """Returns the first of ``words`` in ``line``, outside of phrases of ``harmless.txt``."""
    text = "".join(line)
    for phrase in read_words("harmless.txt"):
        text = text.replace(phrase, "\N{IDEOGRAPHIC SPACE}" * len(phrase))
    ends = range(1, max(map(len, words), default=0) + 1)
    slices = (text[i : i + n] for i in range(len(text)) for n in ends)
    return next((word for word in slices if word in words), None)


@cache
def avoided_words() -> frozenset[str]:
    """Returns the words of ``words/avoided.txt``."""
    return frozenset(read_words("avoided.txt"))


def refused_words() -> frozenset[str]:
    """Returns the avoided words that no first line has: one character may be in a harmless word."""
    return frozenset(word for word in avoided_words() if len(word) > 1)


def partners(character: str) -> str:
    """Returns the characters that answer ``character`` in the primers of parallel phrases."""
    return _partners().get(character, "")


@cache
def _partners() -> dict[str, str]:
    return dict(line.split(" ") for line in read_words("pairs.txt"))


def _are_alike(first: frozenset[str], second: frozenset[str]) -> bool:
    """Returns whether both tones, or both rhymes, are sure and the same."""
    return len(first) == 1 and first == second
