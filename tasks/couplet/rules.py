"""The rules of the couplet (对联), as checks of a finished pair and as a constraint on the search.

    length       both lines have the same number of characters
    punctuation  both lines have the same marks in the same positions
    characters   no character of the first line is in the second
    repetition   the second line repeats a character exactly where the first line does
    tones        仄起平收: if the first line ends in an oblique tone, the second ends in a level one

Tones are those of modern Mandarin: the first and second are level (平), the third and fourth are
oblique (仄). A character with several readings may have any of their tones.
:class:`CoupletConstraint` makes a search keep the rules.
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
    """Returns whether ``character`` is a punctuation mark or a symbol."""
    return unicodedata.category(character)[0] in "PS"


def is_chinese(character: str) -> bool:
    """Returns whether ``character`` is a Chinese character; ``々`` and ``〇`` are."""
    name = unicodedata.name(character, "")
    return character in "々〇" or name.startswith(("CJK UNIFIED", "CJK COMPATIBILITY IDEOGRAPH"))


@cache
def tones(character: str) -> frozenset[str]:
    """Returns the tones that ``character`` can have: level, oblique, both, or none if unknown."""
    from pypinyin import Style, pinyin

    readings = pinyin(character, style=Style.TONE3, heteronym=True, errors="ignore")
    kinds = {"1": LEVEL, "2": LEVEL, "3": OBLIQUE, "4": OBLIQUE}
    return frozenset(kinds[r[-1]] for rs in readings for r in rs if r[-1] in kinds)


def check(first: Sequence[str], second: Sequence[str]) -> dict[str, bool]:
    """Returns for each rule whether ``second`` keeps it; both lines are sequences of characters."""
    first_words, second_words = _words(first), _words(second)
    return {
        "length": len(first) == len(second),
        "punctuation": _marks(first) == _marks(second),
        "characters": not set(first_words) & set(second_words),
        "repetition": first_positions(first_words) == first_positions(second_words),
        "tones": not wants_level_end(first)
        or bool(second_words and LEVEL in tones(second_words[-1])),
    }


def broken_rule(first: Sequence[str], prefix: Sequence[str]) -> str | None:
    """Returns the first rule that no second line with this ``prefix`` can keep, or None."""
    first_words, words = _words(first), _words(prefix)
    position = _level_position(first)
    is_kept = {
        "length": len(prefix) <= len(first),
        "punctuation": _marks(prefix) == _marks(first[: len(prefix)]),
        "characters": not set(first_words) & set(words),
        "repetition": first_positions(words) == first_positions(first_words[: len(words)]),
        "tones": not 0 <= position < len(prefix) or LEVEL in tones(prefix[position]),
    }
    return next((rule for rule in RULES if not is_kept[rule]), None)


def wants_level_end(first: Sequence[str]) -> bool:
    """Returns whether the last word of ``first`` can be oblique: then the answer ends level."""
    words = _words(first)
    return bool(words) and OBLIQUE in tones(words[-1])


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


def first_positions(characters: Sequence[str]) -> list[int]:
    """Returns for each character the position where it first occurs: the repetition pattern."""
    seen: dict[str, int] = {}
    return [seen.setdefault(character, i) for i, character in enumerate(characters)]


def _words(line: Sequence[str]) -> list[str]:
    return [character for character in line if not is_punctuation(character)]


def _marks(characters: Sequence[str]) -> list[tuple[int, str]]:
    return [(i, c) for i, c in enumerate(characters) if is_punctuation(c)]


class CoupletConstraint:
    """Forbids every next character that would break a rule (a ``Constraint`` of a search).

    At least one character always stays allowed. If the vocabulary is too small to keep all rules,
    the rule of tones is dropped first, then ``characters``, then ``repetition``. Length and
    punctuation are always kept.

    Args:
        lines: the first lines of the batch, as characters.
        table: properties of the characters in the vocabulary.
        prefixes: the ids that each answer begins with, even against the rules; none by default.
    """

    def __init__(
        self,
        lines: Sequence[Sequence[str]],
        table: CharacterTable,
        prefixes: Sequence[Sequence[int]] = (),
    ) -> None:
        self._table = table
        device = table.is_word.device
        longest = max(map(len, lines))

        def tensor(rows: Sequence[Sequence[int]]) -> Tensor:
            filled = [[*row, *[-1] * (longest - len(row))] for row in rows]
            return torch.tensor(filled, dtype=torch.long, device=device)

        self._lengths = torch.tensor([len(line) for line in lines], device=device)
        # [B, L] each: where a character first occurs, the ids of marks and of prefixes.
        self._first_positions = tensor([first_positions(line) for line in lines])
        self._marks = tensor([[table.mark_id(c) for c in line] for line in lines])
        self._prefixes = tensor(prefixes or [()] * len(lines))
        self._level_positions = torch.tensor(
            [_level_position(line) for line in lines], device=device
        )
        # [B, V]: all words except those of the first line.
        self._words = table.is_word.repeat(len(lines), 1)
        for row, line in enumerate(lines):
            self._words[row, [i for c in set(line) if (i := table.id_of(c)) is not None]] = False
        self._level_counts = (self._words & table.is_level).sum(dim=1)

    def __call__(self, outputs: Tensor, sentences: Tensor) -> Tensor:
        """Returns ``[R, V]``, True where a character may not come next.

        ``outputs`` ``[t, R]`` are the tokens so far, ``sentences`` ``[R]`` the rows of the batch.
        """
        allowed = self._choices(outputs, sentences)
        forced = self._forced(outputs, sentences)
        rows = (forced >= 0).nonzero().flatten()
        allowed[rows] = False
        allowed[rows, forced[rows]] = True
        return ~allowed

    def _forced(self, outputs: Tensor, sentences: Tensor) -> Tensor:
        """Returns ``[R]``: the only possible token where the rules leave no choice, else -1."""
        position = len(outputs)
        column = min(position, self._marks.shape[1] - 1)
        forced = self._marks[sentences, column]
        if position > 0:
            first = self._first_positions[sentences, column]
            rows = torch.arange(len(sentences), device=sentences.device)
            repeated = outputs[first.clamp(0, position - 1), rows]
            # A row of a beam that holds no output may have a special token there. It is not forced.
            is_repeated = (forced < 0) & (first < position) & (repeated >= len(SPECIALS))
            forced = torch.where(is_repeated, repeated, forced)
        given = self._prefixes[sentences, column]
        forced = torch.where(given >= 0, given, forced)
        return forced.masked_fill(position >= self._lengths[sentences], EOS_ID)

    def _choices(self, outputs: Tensor, sentences: Tensor) -> Tensor:
        """Returns ``[R, V]``: the words that keep the rules at a position that repeats nothing.

        Where no word keeps all rules, the words that keep most of them.
        """
        position, is_level = len(outputs), self._table.is_level
        marks = self._marks[sentences, :position]
        # A word may stand for a mark that the vocabulary lacks. It does not count as used.
        used = outputs[: marks.shape[1]].t().masked_fill(marks >= 0, PAD_ID)
        words = self._words[sentences].scatter_(1, used, False)
        allowed, level_position = words.clone(), self._level_positions[sentences]
        allowed[level_position == position] &= is_level
        # The last level word must not be used before the position that needs it.
        is_short = (level_position > position) & (self._level_counts[sentences] <= position + 1)
        level = words[is_short] & is_level
        allowed[is_short] &= ~(level & (level.sum(dim=1, keepdim=True) == 1))
        if allowed.any(dim=1).all():
            return allowed
        every = self._table.is_word.expand_as(words)
        for more in (words, every.clone().scatter_(1, used, False), every):
            allowed = torch.where(allowed.any(dim=1, keepdim=True), allowed, more)
        return allowed


class CharacterTable:
    """Properties of the tokens of a vocabulary, as tensors ``[V]`` on ``device``."""

    def __init__(self, vocabulary: Vocabulary, device: torch.device) -> None:
        self._vocabulary = vocabulary
        characters = vocabulary.itos[len(SPECIALS) :]
        marks = [is_punctuation(c) for c in characters]
        # If the vocabulary has nothing but marks, they have to serve as words.
        words = [*[False] * len(SPECIALS), *[all(marks) or not mark for mark in marks]]
        level = [*[False] * len(SPECIALS), *[LEVEL in tones(c) for c in characters]]
        self.is_word = torch.tensor(words, device=device)
        self.is_level = torch.tensor(level, device=device)
        # Any token can stand for a mark that is not in the vocabulary: the predictor copies the
        # marks from the first line.
        self._any_mark = len(SPECIALS) + (marks.index(True) if any(marks) else 0)

    def id_of(self, character: str) -> int | None:
        """Returns the id of a character, None if it is not in the vocabulary."""
        return self._vocabulary.stoi.get(character)

    def mark_id(self, character: str) -> int:
        """Returns the id that stands for a mark of the first line, -1 for any other character."""
        if not is_punctuation(character):
            return -1
        known = self.id_of(character)
        return self._any_mark if known is None else known


def _level_position(first: Sequence[str]) -> int:
    """Returns the position of the answer where its last word, which must be level, is chosen.

    If the last word of the first line occurs earlier in it, this is the earlier position. It is -1
    if the answer need not end in a level tone.
    """
    return first.index(_words(first)[-1]) if wants_level_end(first) else -1
