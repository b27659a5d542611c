"""The rules of the couplet (对联), as checks of a finished pair and as a constraint on the search.

    length       the second line has as many characters as the first
    punctuation  the same marks stand at the same places
    characters   no character of the first line comes back in the second
    repetition   where the first line repeats a character, the second repeats one, and nowhere else
    tones        仄起平收: a first line that ends in an oblique tone is answered by a level one

Tones are those of modern Mandarin (the first and second are level 平, the third and fourth oblique
仄); a character of several readings may take any of them. The first four rules and, where the first
line calls for it, the last can be kept by force: see :class:`CoupletConstraint`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor

from transformer_suite.data.vocabulary import EOS_ID, PAD_ID, SPECIALS, Vocabulary

RULES = ("length", "punctuation", "characters", "repetition", "tones")
LEVEL, OBLIQUE = "level", "oblique"


def is_punctuation(character: str) -> bool:
    """Whether ``character`` is a mark or a symbol and no word."""
    return unicodedata.category(character)[0] in "PS"


@cache
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


def broken_rule(first: Sequence[str], beginning: Sequence[str]) -> str | None:
    """The rule that no second line with this ``beginning`` can keep, or None."""
    first_words = [c for c in first if not is_punctuation(c)]
    words = [c for c in beginning if not is_punctuation(c)]
    place = _level_place(first)
    is_kept = {
        "length": len(beginning) <= len(first),
        "punctuation": _marks(beginning) == _marks(first[: len(beginning)]),
        "characters": not set(first_words) & set(words),
        "repetition": first_places(words) == first_places(first_words[: len(words)]),
        "tones": not 0 <= place < len(beginning) or LEVEL in tones(beginning[place]),
    }
    return next((rule for rule in RULES if not is_kept[rule]), None)


def wants_level_end(first: Sequence[str]) -> bool:
    """Whether the first line's last word can be oblique, so that the answer's must be level."""
    words = [c for c in first if not is_punctuation(c)]
    return bool(words) and OBLIQUE in tones(words[-1])


def cut_line(line: Sequence[str], size: int) -> list[list[str]]:
    """Returns ``line`` in segments of at most ``size`` characters, cut behind marks if possible."""
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


def first_places(characters: Sequence[str]) -> list[int]:
    """For each character where it stands first: the pattern of repetitions."""
    seen: dict[str, int] = {}
    return [seen.setdefault(character, place) for place, character in enumerate(characters)]


def _marks(characters: Sequence[str]) -> list[tuple[int, str]]:
    return [(i, c) for i, c in enumerate(characters) if is_punctuation(c)]


class CoupletConstraint:
    """Forbids every next character that would break a rule; see ``core.decoding.search``.

    There is always a character left. Where the vocabulary is too small to keep all rules, the tones
    go first, then ``characters``, then ``repetition``; length and punctuation stay.

    Args:
        lines: the first lines of the batch, as characters.
        table: the facts about the vocabulary's characters.
        beginnings: the ids that each answer begins with, whatever the rules say; without it none.
    """

    def __init__(
        self,
        lines: Sequence[Sequence[str]],
        table: CharacterTable,
        beginnings: Sequence[Sequence[int]] = (),
    ) -> None:
        self._table = table
        device = table.is_word.device
        longest = max(map(len, lines))

        def tensor(rows: Sequence[Sequence[int]]) -> Tensor:
            filled = [[*row, *[-1] * (longest - len(row))] for row in rows]
            return torch.tensor(filled, dtype=torch.long, device=device)

        self._lengths = torch.tensor([len(line) for line in lines], device=device)
        # [B, L] each: the place where a character stands first, the ids of marks and of beginnings.
        self._first_places = tensor([first_places(line) for line in lines])
        self._marks = tensor([[table.mark_id(c) for c in line] for line in lines])
        self._beginnings = tensor(beginnings or [()] * len(lines))
        self._level_places = torch.tensor([_level_place(line) for line in lines], device=device)
        # [B, V]: the words, but for those of the first line itself.
        self._words = table.is_word.repeat(len(lines), 1)
        for row, line in enumerate(lines):
            self._words[row, [i for c in set(line) if (i := table.id_of(c)) is not None]] = False
        self._level_counts = (self._words & table.is_level).sum(dim=1)

    def __call__(self, prefix: Tensor, sentences: Tensor) -> Tensor:
        """``[t, R]`` and ``[R]`` -> ``[R, V]``, True where a character may not come next."""
        allowed = self._choices(prefix, sentences)
        forced = self._forced(prefix, sentences)
        rows = (forced >= 0).nonzero().flatten()
        allowed[rows] = False
        allowed[rows, forced[rows]] = True
        return ~allowed

    def _forced(self, prefix: Tensor, sentences: Tensor) -> Tensor:
        """``[R]``: the one right token where there is only one, else -1."""
        place = len(prefix)
        column = min(place, self._marks.shape[1] - 1)
        forced = self._marks[sentences, column]
        if place > 0:
            first = self._first_places[sentences, column]
            rows = torch.arange(len(sentences), device=sentences.device)
            repeated = prefix[first.clamp(0, place - 1), rows]
            # A beam that fell out of the running may have a special token there, which cannot come.
            is_repeated = (forced < 0) & (first < place) & (repeated >= len(SPECIALS))
            forced = torch.where(is_repeated, repeated, forced)
        given = self._beginnings[sentences, column]
        forced = torch.where(given >= 0, given, forced)
        return forced.masked_fill(place >= self._lengths[sentences], EOS_ID)

    def _choices(self, prefix: Tensor, sentences: Tensor) -> Tensor:
        """``[R, V]``: the words that keep the rules, or most of them, where none is repeated."""
        place, is_level = len(prefix), self._table.is_level
        marks = self._marks[sentences, :place]
        # What holds the place of a mark may be a word, but it is not said.
        said = prefix[: marks.shape[1]].t().masked_fill(marks >= 0, PAD_ID)
        words = self._words[sentences].scatter_(1, said, False)
        allowed, level_place = words.clone(), self._level_places[sentences]
        allowed[level_place == place] &= is_level
        # The last level word there is must not be spent before the place that needs it.
        is_short = (level_place > place) & (self._level_counts[sentences] <= place + 1)
        level = words[is_short] & is_level
        allowed[is_short] &= ~(level & (level.sum(dim=1, keepdim=True) == 1))
        if allowed.any(dim=1).all():
            return allowed
        every = self._table.is_word.expand_as(words)
        for more in (words, every.clone().scatter_(1, said, False), every):
            allowed = torch.where(allowed.any(dim=1, keepdim=True), allowed, more)
        return allowed


class CharacterTable:
    """What the rules need to know of a vocabulary's tokens, as tensors ``[V]`` on ``device``."""

    def __init__(self, vocabulary: Vocabulary, device: torch.device) -> None:
        self._vocabulary = vocabulary
        characters = vocabulary.itos[len(SPECIALS) :]
        marks = [is_punctuation(c) for c in characters]
        # Where all are marks, there is nothing better than a mark to put in a word's place.
        words = [*[False] * len(SPECIALS), *[all(marks) or not mark for mark in marks]]
        level = [*[False] * len(SPECIALS), *[LEVEL in tones(c) for c in characters]]
        self.is_word = torch.tensor(words, device=device)
        self.is_level = torch.tensor(level, device=device)
        # A mark that the vocabulary does not know is held by any token; the predictor, which
        # copies marks from the first line, puts the right one there.
        self._any_mark = len(SPECIALS) + (marks.index(True) if any(marks) else 0)

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
    """The place of the answer where its last word, which must be level, is chosen; or -1.

    That is not the last place if the first line ends in a character it has had before.
    """
    if not wants_level_end(line):
        return -1
    return line.index([c for c in line if not is_punctuation(c)][-1])
