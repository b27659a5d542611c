"""Tones and rhymes of characters, by modern readings or by the classical table of Pingshui.

Modern Mandarin: the first and second tone are level (平), the third and fourth oblique (仄). A
character with several readings may have any of them, but a rare one (春 as chǔn) counts only if the
classical table has its tone. In a line that is given, a character has the reading of its phrase, if
the dictionary of pypinyin knows one. A level character that had the entering tone (入声)
counts as either: classical lines use it as oblique.

Pingshui (平水韵, Liu Yuan 1252): the 106 rhymes of classical verse. Entering tones (入声) are
oblique. Characters that the table lacks have their modern tones.
"""

import unicodedata
from collections.abc import Sequence
from functools import cache, lru_cache
from importlib import resources
from itertools import groupby
from typing import Literal, get_args

from core.config import check_choice

LEVEL, OBLIQUE = "level", "oblique"
System = Literal["modern", "pingshui"]
"""The values of ``rhyme``, the system that tones and rhymes are looked up in."""
SYSTEMS = get_args(System)
BOOKS = {
    "modern": "中华新韵, modern readings; 入声 (entering tones) level today count as either",
    "pingshui": "平水韵; 入声 (entering tones) are oblique",
}
"""The rhyme book of each system, and how it reads entering tones."""

Tones = frozenset[str]

_TONES = {"1": LEVEL, "2": LEVEL, "3": OBLIQUE, "4": OBLIQUE}
# The rhymes of 中华新韵 (1941), with their finals as pypinyin spells them; "-i" is that of 支.
_FINALS = (
    *("a ia ua", "o uo", "e", "ie ve", "er", "i", "-i", "ei uei", "ai uai", "u", "v", "ou iou"),
    *("ao iao", "an ian uan van", "en in uen vn", "ang iang uang", "eng ing ueng", "ong iong"),
)
# Characters whose readings are all common and do not rhyme. Of others, the first reading counts.
_SEVERAL_RHYMES = frozenset("行乐觉还着得了都角宿塞参没给")
# The rhymes of entering tones: 一屋, 二沃, 三觉...
_ENTERING = "屋沃觉质物月曷黠屑药陌锡职缉合叶洽"
# A longer line is no couplet, and looking for phrases takes a fifth of a millisecond a character.
_LONGEST = 1000
_RHYME_OF_FINAL = {final: name for name in _FINALS for final in name.split()}


def is_punctuation(character: str) -> bool:
    """Returns whether ``character`` is a punctuation mark or a symbol."""
    return unicodedata.category(character)[0] in "PS"


def is_chinese(character: str) -> bool:
    """Returns whether ``character`` is a Chinese character; ``々`` and ``〇`` are."""
    name = unicodedata.name(character, "")
    return character in "々〇" or name.startswith(("CJK UNIFIED", "CJK COMPATIBILITY IDEOGRAPH"))


@cache
def read_words(name: str) -> tuple[str, ...]:
    """Returns the lines of a word list of this package; ``words/NOTICE`` says where it is from."""
    return tuple((resources.files(__package__) / "words" / name).read_text("utf-8").splitlines())


@cache
def tones(character: str, rhyme: str = "modern") -> Tones:
    """Returns the tones that ``character`` can have: level, oblique, both, or none if unknown."""
    check_choice("form.rhyme", rhyme, SYSTEMS)
    if rhyme == "pingshui" and character in _pingshui():
        return frozenset(tone for tone, _ in _pingshui()[character])
    readings = _readings(character)[0] if is_chinese(character) else []
    classical = {tone for tone, _ in _pingshui().get(character, ((LEVEL, ""), (OBLIQUE, "")))}
    found = _tones_of(readings[:1]) | (_tones_of(readings) & classical)
    return found | {OBLIQUE} if LEVEL in found and has_entering_tone(character) else found


def has_entering_tone(character: str) -> bool:
    """Returns whether ``character`` has a reading in the entering tone by the classical table."""
    return any(name[-1] in _ENTERING for _, name in _pingshui().get(character, ()))


def line_tones(line: Sequence[str], rhyme: str = "modern") -> list[Tones]:
    """Returns the tones of each character of ``line``; in modern readings, phrases decide."""
    return list(_line_tones("".join(line), rhyme))


@lru_cache(maxsize=4096)
def _line_tones(line: str, rhyme: str) -> tuple[Tones, ...]:
    alone = [tones(character, rhyme) for character in line]
    is_clear = len(line) > _LONGEST or all(len(found) < 2 for found in alone)
    if rhyme != "modern" or is_clear:
        return tuple(alone)
    in_phrases: list[Tones] = []
    for is_text, group in groupby(line, is_chinese):
        run = "".join(group)
        readings = _readings(run) if is_text else [[] for _ in run]
        in_phrases += map(_tones_of, readings)
    # No phrase decides about several tones, or about the neutral one.
    return tuple(
        tones if len(tones) == 1 and not has_entering_tone(character) else other
        for character, tones, other in zip(line, in_phrases, alone, strict=True)
    )


@cache
def rhymes(character: str, rhyme: str = "modern") -> frozenset[str]:
    """Returns the names of the rhymes that ``character`` can belong to; none if it is unknown.

    Modern rhymes are those of 中华新韵, whatever the tone. A rhyme of Pingshui has one tone.
    """
    if rhyme == "pingshui" and character in _pingshui():
        return frozenset(name for _, name in _pingshui()[character])
    if not is_chinese(character):
        return frozenset()
    from pypinyin.contrib.tone_convert import to_finals

    found = set()
    for reading in _readings(character)[0][: None if character in _SEVERAL_RHYMES else 1]:
        final = to_finals(reading)
        found.add("-i" if final == "i" and reading[0] in "zcsr" else final)
    return frozenset(_RHYME_OF_FINAL[final] for final in found & _RHYME_OF_FINAL.keys())


def _readings(run: str) -> list[list[str]]:
    """Returns the possible readings of each of the Chinese characters ``run``, with tone digits."""
    from pypinyin import Style, pinyin

    readings: list[list[str]] = pinyin(run, style=Style.TONE3, heteronym=True)
    # Several unknown characters are returned as one.
    return readings if len(readings) == len(run) else [[] for _ in run]


def _tones_of(readings: Sequence[str]) -> Tones:
    return frozenset(_TONES[reading[-1]] for reading in readings if reading[-1:] in _TONES)


@cache
def _pingshui() -> dict[str, list[tuple[str, str]]]:
    """Returns for each character of the table its tones, each with the name of a rhyme."""
    table: dict[str, list[tuple[str, str]]] = {}
    for row in read_words("pingshui.txt"):
        tone, name, characters = row.split()
        for character in characters:
            table.setdefault(character, []).append((LEVEL if tone == "平" else OBLIQUE, name))
    return table
