"""The rules of the couplet (对联), as checks of a finished pair and as a constraint on the search.

    length       the second line has as many characters as the first
    punctuation  the same marks stand at the same places
    characters   no character of the first line comes back in the second
    repetition   where the first line repeats a character, the second repeats one, and nowhere else
    tones        仄起平收: a first line that ends in an oblique tone is answered by a level one

Tones are those of modern Mandarin (the first and second are level 平, the third and fourth oblique 仄);
a character of several readings may take any of them. The first four rules and, where the first line
calls for it, the last can be kept by force: see :class:`CoupletConstraint`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor

from data.vocabulary import EOS_ID, Vocabulary

RULES = ("length", "punctuation", "characters", "repetition", "tones")
LEVEL, OBLIQUE = "level", "oblique"


def is_punctuation(character: str) -> bool:
    """Whether ``character`` is a mark or a symbol and no word."""
    return unicodedata.category(character)[0] in "PS"


@lru_cache(maxsize=None)
def tones(character: str) -> frozenset[str]:
    """The tones that ``character`` can have: level, oblique, both, or none that is known."""
    from pypinyin import Style, pinyin

    readings = pinyin(character, style=Style.TONE3, heteronym=True, errors="ignore")
    kinds = {"1": LEVEL, "2": LEVEL, "3": OBLIQUE, "4": OBLIQUE}
    return frozenset(kinds[r[-1]] for rs in readings for r in rs if r[-1] in kinds)


def check(first: Sequence[str], second: Sequence[str]) -> dict[str, bool]:
    """Which rules the second line, a sequence of characters like the first, keeps."""
    first_words = [c for c in first if not is_punctuation(c)]
    second_words = [c for c in second if not is_punctuation(c)]
    return {
        "length": len(first) == len(second),
        "punctuation": _marks(first) == _marks(second),
        "characters": not set(first_words) & set(second_words),
        "repetition": first_places(first_words) == first_places(second_words),
        "tones": not wants_level_end(first)
        or bool(second_words and LEVEL in tones(second_words[-1])),
    }


def wants_level_end(first: Sequence[str]) -> bool:
    """Whether the first line's last word can be oblique, so that the answer's must be level."""
    words = [c for c in first if not is_punctuation(c)]
    return bool(words) and OBLIQUE in tones(words[-1])


def first_places(characters: Sequence[str]) -> list[int]:
    """For each character where it stands first: the pattern of repetitions."""
    seen: dict[str, int] = {}
    return [seen.setdefault(character, place) for place, character in enumerate(characters)]


def _marks(characters: Sequence[str]) -> list[tuple[int, str]]:
    return [(i, c) for i, c in enumerate(characters) if is_punctuation(c)]


class CoupletConstraint:
    """Forbids every next character that would break a rule; see ``core.decoding.Constraint``.

    Args:
        lines: the first lines of the batch, as characters.
        table: the facts about the vocabulary's characters.
    """

    def __init__(self, lines: Sequence[Sequence[str]], table: CharacterTable) -> None:
        self._table = table
        device = table.is_mark.device
        longest = max(map(len, lines))

        def tensor(rows: Sequence[Sequence[int]], filler: int) -> Tensor:
            filled = [[*row, *[filler] * (longest - len(row))] for row in rows]
            return torch.tensor(filled, dtype=torch.long, device=device)

        self._lengths = torch.tensor([len(line) for line in lines], device=device)
        # [B, L] each: the place where a character stands first, and the marks by their ids.
        self._first_places = tensor([first_places(line) for line in lines], 0)
        self._marks = tensor([[table.mark_id(c) for c in line] for line in lines], -1)
        self._level_places = torch.tensor([_level_place(line) for line in lines], device=device)
        # [B, V]: the characters of the first line itself.
        self._taken = torch.zeros(len(lines), len(table.is_mark), dtype=torch.bool, device=device)
        for row, line in enumerate(lines):
            self._taken[row, [i for c in set(line) if (i := table.id_of(c)) is not None]] = True

    def __call__(self, prefix: Tensor, sentences: Tensor) -> Tensor:
        """``[t, R]`` and ``[R]`` -> ``[R, V]``, True where a character may not come next."""
        place, rows = len(prefix), torch.arange(len(sentences), device=sentences.device)
        is_over = place >= self._lengths[sentences]
        column = min(place, self._marks.shape[1] - 1)
        marks = self._marks[sentences, column]
        first = self._first_places[sentences, column]

        forbidden = self._taken[sentences] | self._table.is_mark
        forbidden.scatter_(1, prefix.t(), True)
        wants_level = self._level_places[sentences] == place
        forbidden |= wants_level.unsqueeze(1) & ~self._table.is_level
        forbidden[:, EOS_ID] = True

        # Where there is only one right token, everything else is forbidden.
        only = torch.where(marks >= 0, marks, torch.full_like(marks, -1))
        if place > 0:
            is_repeated = (marks < 0) & (first < place)
            repeated = prefix[first.clamp(max=place - 1), rows]
            only = torch.where(is_repeated, repeated, only)
        only = torch.where(is_over, torch.full_like(only, EOS_ID), only)
        is_forced = only >= 0
        forced = torch.ones_like(forbidden).scatter_(1, only.clamp(min=0).unsqueeze(1), False)
        return torch.where(is_forced.unsqueeze(1), forced, forbidden)


class CharacterTable:
    """What the rules need to know of a vocabulary's characters, as tensors ``[V]`` on ``device``."""

    def __init__(self, vocabulary: Vocabulary, device: torch.device) -> None:
        self._vocabulary = vocabulary
        marks = [len(t) == 1 and is_punctuation(t) for t in vocabulary.itos]
        level = [len(t) == 1 and LEVEL in tones(t) for t in vocabulary.itos]
        self.is_mark = torch.tensor(marks, device=device)
        self.is_level = torch.tensor(level, device=device)
        # A mark that the vocabulary does not know is held by any token; the predictor, which
        # copies marks from the first line, puts the right one there.
        self._any_mark = next((i for i, is_mark in enumerate(marks) if is_mark), len(marks) - 1)

    def id_of(self, character: str) -> int | None:
        """The id of a character, if the vocabulary knows it."""
        return self._vocabulary.stoi.get(character)

    def mark_id(self, character: str) -> int:
        """The token that stands for a mark of the first line, -1 for a character that is none."""
        if not is_punctuation(character):
            return -1
        known = self.id_of(character)
        return self._any_mark if known is None else known


def _level_place(line: Sequence[str]) -> int:
    """The place of the answer that must have a level tone, or -1."""
    if not wants_level_end(line):
        return -1
    return max(i for i, c in enumerate(line) if not is_punctuation(c))
