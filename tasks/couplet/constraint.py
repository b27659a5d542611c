"""The rules of the couplet as a constraint on a search: every answer keeps them by construction."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor

from data.vocabulary import EOS_ID, PAD_ID, SPECIALS, Vocabulary
from tasks.couplet.config import FormConfig
from tasks.couplet.rules import (
    avoided_words,
    ending_tone,
    first_positions,
    last_word,
    parallel_places,
    partners,
    tone_places,
)
from tasks.couplet.tones import LEVEL, OBLIQUE, Tones, is_punctuation, line_tones, rhymes, tones

DEFAULT_FORM = FormConfig()

# Tones as bits: what a character can have, and what a place needs.
_BITS = {LEVEL: 1, OBLIQUE: 2}
_CLASSES = 4
# A wrong ending costs more than all other wrong tones of a line.
_ENDING_COST = 1000


class CoupletConstraint:
    """Forbids every next character that would break a rule (a ``Constraint`` of a search).

    At least one character always stays allowed. Length and punctuation are always kept. As far as
    the vocabulary allows, so are, the most important first:

    1. ``repetition``, ``characters`` and ``avoided``;
    2. ``ending``, and ``tones`` in as many places as possible: a character that a later place needs
       is saved for it;
    3. ``parallels`` and ``rhyme``.

    Args:
        lines: the first lines of the batch, as characters.
        table: properties of the characters in the vocabulary.
        given: for each answer the ids of its characters that are decided already, even against the
            rules, -1 for the others; by default none are.
    """

    def __init__(
        self,
        lines: Sequence[Sequence[str]],
        table: CharacterTable,
        given: Sequence[Sequence[int]] = (),
    ) -> None:
        self._table = table
        device = table.is_word.device
        longest = max(map(len, lines))

        def tensor(rows: Sequence[Sequence[int]], fill: int = -1) -> Tensor:
            filled = [[*row, *[fill] * (longest - len(row))] for row in rows]
            return torch.tensor(filled, dtype=torch.long, device=device)

        self._lengths = torch.tensor([len(line) for line in lines], device=device)
        patterns = [first_positions(line) for line in lines]
        forced = [_spread(*pair) for pair in zip(given or [()] * len(lines), patterns, strict=True)]
        # [B, L] each: where a character first occurs, the ids of marks and of given characters,
        # and the place of this clause that the word answers (parallels).
        self._first_positions = tensor(patterns)
        self._marks = tensor([[table.mark_id(c) for c in line] for line in lines])
        self._given = tensor(forced)
        self._echoes = tensor([_echoes(line) for line in lines])
        self._ends = torch.tensor(
            [line.index(line[last_word(line)]) if last_word(line) >= 0 else -1 for line in lines],
            device=device,
        )
        # [2, B, L]: the tones that places need as bits, first the endings alone, then all.
        needs = [
            [_needs(*pair, table, is_end=is_end) for pair in zip(lines, patterns, strict=True)]
            for is_end in (True, False)
        ]
        free = (self._given < 0) & (self._marks < 0)
        self._needs = torch.stack([tensor(rows, 0) for rows in needs]).where(free, 0)
        # [2, B, L + 1, 4]: how many free places from here on need which tones.
        is_first = free & (self._first_positions == torch.arange(longest, device=device))
        classes = torch.nn.functional.one_hot(self._needs, _CLASSES) * is_first.unsqueeze(2)
        following = classes.flip(2).cumsum(2).flip(2)
        self._following = torch.nn.functional.pad(following, (0, 0, 0, 1))
        # [B, V]: all words except the given ones and those of the first line.
        self._words = table.is_word.repeat(len(lines), 1)
        self._is_rhyming = torch.zeros_like(self._words)
        for row, line in enumerate(lines):
            known = [i for c in set(line) if (i := table.id_of(c)) is not None]
            self._words[row, [*known, *(i for i in forced[row] if i >= 0)]] = False
            if (end := last_word(line)) >= 0 and table.form.tones != "off":
                self._is_rhyming[row, table.rhyming(line[end])] = True

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
        given = self._given[sentences, column]
        forced = torch.where(given >= 0, given, forced)
        return forced.masked_fill(position >= self._lengths[sentences], EOS_ID)

    def _choices(self, outputs: Tensor, sentences: Tensor) -> Tensor:
        """Returns ``[R, V]``: the words that keep the rules at a position that repeats nothing.

        Where no word keeps all rules, the words that keep most of them.
        """
        position = len(outputs)
        marks = self._marks[sentences, :position]
        # A word may stand for a mark that the vocabulary lacks. It does not count as used.
        used = outputs[: marks.shape[1]].t().masked_fill(marks >= 0, PAD_ID)
        words = self._words[sentences].scatter_(1, used, False)
        allowed = _narrowed(words, ~self._table.completes_avoided(outputs))
        if position < self._marks.shape[1]:
            allowed &= self._best_tones(allowed, sentences, position)
            allowed = _narrowed(allowed, self._answers_echo(outputs, sentences))
            is_end = (self._ends[sentences] == position).unsqueeze(1)
            allowed = _narrowed(allowed, ~(is_end & self._is_rhyming[sentences]))
        if not len(_stuck_rows(allowed)):
            return allowed
        every = self._table.is_word.expand_as(words)
        for more in (words, every.clone().scatter_(1, used, False), every):
            allowed = _or_else(allowed, more)
        return allowed

    def _best_tones(self, words: Tensor, sentences: Tensor, position: int) -> Tensor:
        """Returns ``[R, V]``: the characters whose tones break the fewest rules, here and later.

        The rest of a line can be filled by a matching of places and characters. By Hall's theorem
        the number of places without a fitting character follows from counts of both.
        """
        # A product of floats counts eight times as fast as a sum of booleans.
        counts = (words.float() @ self._table.one_hot).long()
        classes = torch.arange(_CLASSES, device=words.device)
        # [R, 4, 4]: the counts if a character of class c is taken now.
        after = counts.unsqueeze(1) - torch.eye(_CLASSES, dtype=torch.long, device=words.device)
        cost = torch.zeros_like(counts)
        for weight, needs, following in zip(
            (_ENDING_COST, 1), self._needs, self._following, strict=True
        ):
            is_broken = (needs[sentences, position].unsqueeze(1) & ~classes) != 0
            later = following[sentences, position + 1].unsqueeze(1)
            cost += weight * (is_broken + _unmet(later, after))
        cost = cost.masked_fill(counts == 0, _ENDING_COST**2)
        is_best = cost == cost.amin(dim=1, keepdim=True)
        return self._table.of_classes[(is_best << classes).sum(dim=1)]

    def _answers_echo(self, outputs: Tensor, sentences: Tensor) -> Tensor:
        """Returns ``[R, V]``: what answers the word that the next one stands parallel to."""
        place = self._echoes[sentences, len(outputs)]
        answers = torch.ones(
            len(sentences), len(self._table.is_word), dtype=torch.bool, device=outputs.device
        )
        for row in (place >= 0).nonzero().flatten().tolist():
            answers[row] = False
            answers[row, self._table.partners(int(outputs[place[row], row]))] = True
        return answers


class CharacterTable:
    """Properties of the tokens of a vocabulary, as tensors ``[V]`` on ``device``.

    ``form`` says which tones are needed, and in which system they are looked up. ``avoided`` are
    words that no answer may have, beside ``words/avoided.txt``. ``swapped`` says that answers are
    first lines.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        device: torch.device,
        form: FormConfig = DEFAULT_FORM,
        avoided: frozenset[str] = frozenset(),
        *,
        swapped: bool = False,
    ) -> None:
        self.form = form
        self.swapped = swapped
        self.avoided = avoided | avoided_words()
        self._vocabulary = vocabulary
        self._characters = vocabulary.itos[len(SPECIALS) :]
        marks = [is_punctuation(c) for c in self._characters]
        # If the vocabulary has nothing but marks, they have to serve as words.
        words = [*[False] * len(SPECIALS), *[all(marks) or not mark for mark in marks]]
        bits = [0] * len(SPECIALS) + [_bits(tones(c, form.rhyme)) for c in self._characters]
        classes = torch.tensor(bits, device=device)
        self.one_hot = torch.nn.functional.one_hot(classes, _CLASSES).float()  # [V, 4]
        # [16, V]: for each set of classes, as bits, the characters that are of one of them.
        sets = torch.arange(1 << _CLASSES, device=device).unsqueeze(1)
        self.of_classes = ((sets >> classes) & 1).bool()
        self.is_word = torch.tensor(words, device=device)
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

    def partners(self, token: int) -> list[int]:
        """Returns the ids of the characters that answer ``token`` (:func:`rules.partners`)."""
        return self._ids(partners(self._vocabulary.itos[token]))

    def rhyming(self, character: str) -> list[int]:
        """Returns the ids of the characters that rhyme with ``character`` in all readings."""
        names = rhymes(character, self.form.rhyme)
        return self._by_rhyme.get(names, []) if len(names) == 1 else []

    def completes_avoided(self, outputs: Tensor) -> Tensor:
        """Returns ``[R, V]``: the tokens that would end an avoided word after ``outputs``."""
        beginnings = self._beginnings
        found = self.is_word.new_zeros(outputs.shape[1], len(self.is_word))
        found[:, beginnings.get((), [])] = True
        longest = max(map(len, beginnings), default=0)
        for row, tokens in enumerate(outputs[-longest:].t().tolist() if longest else ()):
            for start in range(len(tokens)):
                if ends := beginnings.get(tuple(tokens[start:])):
                    found[row, ends] = True
        return found

    @cached_property
    def _beginnings(self) -> dict[tuple[int, ...], list[int]]:
        """The ids of each avoided word but the last one, with the last ones."""
        table: dict[tuple[int, ...], list[int]] = {}
        for word in self.avoided:
            ids = self._ids(word)
            if len(ids) == len(word):
                table.setdefault(tuple(ids[:-1]), []).append(ids[-1])
        return table

    @cached_property
    def _by_rhyme(self) -> dict[frozenset[str], list[int]]:
        table: dict[frozenset[str], list[int]] = {}
        for number, character in enumerate(self._characters, start=len(SPECIALS)):
            table.setdefault(rhymes(character, self.form.rhyme), []).append(number)
        return table

    def _ids(self, text: str) -> list[int]:
        return [i for c in text if (i := self.id_of(c)) is not None]


def _bits(tones: Tones) -> int:
    return sum(_BITS[tone] for tone in tones)


def _spread(given: Sequence[int], pattern: Sequence[int]) -> list[int]:
    """Returns the given ids also at the places where the line repeats them."""
    known = {first: i for first, i in zip(pattern, given, strict=False) if i >= 0}
    spread = [known.get(first, -1) for first in pattern]
    return [
        i if i >= 0 else other
        for i, other in zip([*given, *[-1] * len(pattern)], spread, strict=False)
    ]


def _echoes(line: Sequence[str]) -> list[int]:
    found = [-1] * len(line)
    for i, j in parallel_places(line):
        found[j] = i
    return found


def _needs(
    line: Sequence[str], pattern: Sequence[int], table: CharacterTable, *, is_end: bool
) -> list[int]:
    """Returns the tones, as bits, that the answer needs at the first place of each character.

    ``is_end`` asks for the last word alone.
    """
    needs, form = [0] * len(line), table.form
    end = last_word(line)
    if form.tones == "off" or end < 0:
        return needs
    found = line_tones(line, form.rhyme)
    if wanted := ending_tone(found[end], swapped=table.swapped):
        needs[pattern[end]] |= _BITS[wanted]
    if form.tones == "strict" and not is_end:
        for i in tone_places(line):
            if len(found[i]) == 1 and i != end:
                needs[pattern[i]] |= 3 - _bits(found[i])
    return needs


def _unmet(places: Tensor, counts: Tensor) -> Tensor:
    """Returns how many places find no fitting character, each character serving one place.

    Args:
        places, counts: ``[..., 4]``, the places that need, and the characters that have, no tone,
            level, oblique, and both.
    """
    lacking = (places[..., 1:3] - counts[..., 1:3]).clamp(min=0).sum(-1)
    return (lacking + places[..., 3] - counts[..., 3]).clamp(min=0)


def _narrowed(allowed: Tensor, more: Tensor) -> Tensor:
    """Returns the choices that ``more`` allows as well, in the rows where there are any."""
    return _or_else(allowed & more, allowed)


def _or_else(allowed: Tensor, other: Tensor) -> Tensor:
    """Returns ``allowed``, overwritten by ``other`` in the rows that allow nothing."""
    rows = _stuck_rows(allowed)
    if len(rows):
        allowed[rows] = other[rows]
    return allowed


def _stuck_rows(allowed: Tensor) -> Tensor:
    """Returns the numbers of the rows of ``allowed`` ``[R, V]`` that allow nothing."""
    # The largest byte of a row is found forty times as fast as ``any`` of its booleans.
    return (allowed.view(torch.uint8).amax(dim=1) == 0).nonzero().flatten()
