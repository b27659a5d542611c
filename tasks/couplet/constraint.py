"""The rules of the couplet as a constraint on a search: every answer keeps them by construction.

Searches and checks (:mod:`tasks.couplet.rules`) read the tones of characters in the same way.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import chain

import torch
from torch import Tensor

from core.config import check
from core.errors import ConfigError
from data.vocabulary import EOS_ID, PAD_ID, SPECIALS, Vocabulary
from tasks.couplet import rules
from tasks.couplet.config import FormConfig
from tasks.couplet.request import WILDCARDS, CoupletRequest
from tasks.couplet.script import CAPITALS
from tasks.couplet.tones import LEVEL, OBLIQUE, Tones, is_punctuation, line_tones, rhymes, tones
from tasks.texts import check_unicode

DEFAULT_FORM = FormConfig()

# Tones as bits: what a character can have, and what a place needs.
_BITS = {LEVEL: 1, OBLIQUE: 2}


class CoupletConstraint:
    """Forbids every next character that would break a rule (a ``Constraint`` of a search).

    At least one character always stays allowed. Length and punctuation are always kept, and letters
    answer letters if the vocabulary has any. The other rules are kept as long as the vocabulary has
    a character left, the most important first: ``repetition``, ``characters``, ``avoided``,
    ``ending``, ``tones``, ``parallels``, and ``rhyme``. The first two do not hold for letters.

    Args:
        lines: the first lines of the batch, as characters.
        table: properties of the characters in the vocabulary.
        given: for each answer its characters that are decided already, even against the rules, None
            for the others; by default none are.
    """

    def __init__(
        self,
        lines: Sequence[Sequence[str]],
        table: "CharacterTable",
        given: Sequence[Sequence[str | None]] = (),
    ) -> None:
        self._table = table
        device = table.is_word.device
        longest = max(map(len, lines))

        def tensor(rows: Sequence[Sequence[int]], fill: int = -1) -> Tensor:
            filled = [[*row, *[fill] * (longest - len(row))] for row in rows]
            return torch.tensor(filled, dtype=torch.long, device=device)

        self._lengths = torch.tensor([len(line) for line in lines], device=device)
        # [B, L] each: where a character first occurs, the ids of marks and of given characters.
        self._first_positions = tensor([rules.first_positions(line) for line in lines])
        self._marks = tensor([[table.mark_id(c) for c in line] for line in lines])
        self._has_letter = tensor([[c in CAPITALS for c in line] for line in lines], 0).bool()
        # From the places of letters to where their word begins, and the words that may answer it.
        self._letter_words = [rules.letter_words(line) for line in lines]
        forced = [
            [table.given_id(c) if c else -1 for c in rules.spread(*pair)]
            for pair in zip(lines, given or [()] * len(lines), strict=True)
        ]
        self._given = tensor(forced)
        # From the place of a word to that of the one in its clause that it answers (parallels).
        self._echoes = [{j: i for i, j in rules.parallel_places(line)} for line in lines]
        # [2, B, L]: the tones that places need as bits, first the endings alone, then all.
        self._needs = [
            tensor([_needs(line, table, is_end=is_end) for line in lines], 0)
            for is_end in (True, False)
        ]
        # [B, V]: the given words and those of the first line; the words that rhyme with its end.
        self._taken = torch.zeros(len(lines), len(table.is_word), dtype=torch.bool, device=device)
        self._is_rhyming = torch.zeros_like(self._taken)
        for row, line in enumerate(lines):
            self._taken[row, [*table.ids(line), *(i for i in forced[row] if i >= 0)]] = True
            if (end := rules.last_word(line)) >= 0:
                self._is_rhyming[row, table.rhyming(line[end])] = True

    def __call__(self, outputs: Tensor, sentences: Tensor) -> Tensor:
        """Returns ``[R, V]``, True where a character may not come next.

        ``outputs`` ``[t, R]`` are the tokens so far, ``sentences`` ``[R]`` the rows of the batch.
        """
        allowed = self._words(outputs, sentences)
        for _, kept in self._asked(outputs, sentences):
            allowed = _narrowed(allowed, kept)
        forced = self._forced(outputs, sentences).unsqueeze(1)
        is_forced, token = forced >= 0, forced.clamp(min=0)
        allowed &= ~is_forced
        allowed.scatter_(1, token, allowed.gather(1, token) | is_forced)
        return allowed.logical_not_()

    def _words(self, outputs: Tensor, sentences: Tensor) -> Tensor:
        """Returns ``[R, V]``: letters where the first line has them, elsewhere none.

        Letters spell a word of ``words/letters.txt``, if one is as long as that of the first line.
        """
        position, table = len(outputs), self._table
        column = min(position, self._has_letter.shape[1] - 1)
        is_kind = self._has_letter[sentences, column].unsqueeze(1) == table.is_letter
        allowed = _narrowed(table.is_word.expand_as(is_kind), is_kind)
        if any(position in words for words in self._letter_words):
            allowed = _narrowed(allowed, self._chosen(self._next_letters, outputs, sentences))
        return allowed

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

    def _asked(self, outputs: Tensor, sentences: Tensor) -> Iterator[tuple[str, Tensor]]:
        """Yields the rules, the most important first, with the words that keep them, ``[R, V]``."""
        table, position = self._table, len(outputs)
        marks = self._marks[sentences, :position]
        # A word may stand for a mark that the vocabulary lacks. It does not count as used.
        used = outputs[: marks.shape[1]].t().masked_fill(marks >= 0, PAD_ID)
        fresh = torch.ones_like(self._taken[sentences]).scatter_(1, used, False)
        yield "repetition", fresh | table.is_letter
        yield "characters", ~self._taken[sentences] | table.is_letter
        yield "avoided", ~table.completes_avoided(outputs)
        if position >= self._marks.shape[1]:
            return
        for rule, needs in zip(("ending", "tones"), self._needs, strict=True):
            yield rule, table.fitting[needs[sentences, position]]
        if any(position in echoes for echoes in self._echoes):
            yield "parallels", self._chosen(self._echo_answers, outputs, sentences)
        is_end = (self._needs[0][sentences, position] > 0).unsqueeze(1)
        yield "rhyme", ~(is_end & self._is_rhyming[sentences])

    def reasons(self, output: Tensor) -> list[str]:
        """Returns which rule forbids each token after ``output`` ``[t]``, "" where none does."""
        outputs, first = output.unsqueeze(1), output.new_zeros(1)
        allowed = self._words(outputs, first)
        if (forced := int(self._forced(outputs, first))) >= 0:
            is_given, is_mark = (x[0, len(output)] >= 0 for x in (self._given, self._marks))
            rule = "given" if is_given else "punctuation" if is_mark else "repetition"
            return ["" if token == forced else rule for token in range(allowed.shape[1])]
        reasons = ["" if is_word else "punctuation" for is_word in self._table.is_word.tolist()]
        for token in (self._table.is_word & ~allowed[0]).nonzero().flatten().tolist():
            reasons[token] = "letters"
        reasons[EOS_ID] = "length"
        for rule, kept in self._asked(outputs, first):
            narrowed = _narrowed(allowed, kept)
            for token in (allowed & ~narrowed)[0].nonzero().flatten().tolist():
                reasons[token] = rule
            allowed = narrowed
        return reasons

    def _chosen(
        self,
        choices: Callable[[int, Sequence[int]], Sequence[int] | None],
        outputs: Tensor,
        sentences: Tensor,
    ) -> Tensor:
        """Returns ``[R, V]``: the ``choices`` for a sentence and its output; all where it has None.

        They are ids of tokens.
        """
        chosen = self._taken.new_ones(len(sentences), self._taken.shape[1])
        rows = torch.cat([sentences[None], outputs]).t().tolist()  # one copy from the device
        for row, (sentence, *output) in enumerate(rows):
            if (ids := choices(sentence, output)) is not None:
                chosen[row] = False
                chosen[row, ids] = True
        return chosen

    def _echo_answers(self, sentence: int, output: Sequence[int]) -> list[int] | None:
        """Returns what answers the word that the next one stands parallel to."""
        place = self._echoes[sentence].get(len(output))
        return None if place is None else self._table.partners(output[place])

    def _next_letters(self, sentence: int, output: Sequence[int]) -> list[int] | None:
        """Returns the letters that go on with a word that may answer that of the first line."""
        start, words = self._letter_words[sentence].get(len(output), (0, ()))
        begun = self._table.text(output[start:])
        letters = {word[len(begun)] for word in words if word.startswith(begun)}
        return self._table.ids(sorted(letters)) if letters else None


class CharacterTable:
    """Properties of the tokens of a vocabulary, as tensors ``[V]`` on ``device``.

    ``form`` says which tones are needed, and in which system they are looked up. No answer may have
    a word in ``avoided``, or in ``words/avoided.txt``. If ``backward``, answers are first lines.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        device: torch.device,
        form: FormConfig = DEFAULT_FORM,
        avoided: frozenset[str] = frozenset(),
        *,
        backward: bool = False,
    ) -> None:
        self.form = form
        self.backward = backward
        self.avoided = avoided | rules.avoided_words()
        self._vocabulary = vocabulary
        self._characters = vocabulary.itos[len(SPECIALS) :]
        marks = [is_punctuation(c) for c in self._characters]
        # If the vocabulary has nothing but marks, they have to serve as words.
        words = [*[False] * len(SPECIALS), *[all(marks) or not mark for mark in marks]]
        bits = [0] * len(SPECIALS) + [_bits(tones(c, form.rhyme)) for c in self._characters]
        has, needs = torch.tensor(bits, device=device), torch.arange(4, device=device)
        # [4, V]: whether a character can have the tones that a place needs, as bits.
        self.fitting = (needs.unsqueeze(1) & ~has) == 0
        self.is_word = torch.tensor(words, device=device)
        letters = [*[False] * len(SPECIALS), *[c in CAPITALS for c in self._characters]]
        self.is_letter = torch.tensor(letters, device=device)
        # Any token can stand for a mark that is not in the vocabulary: the predictor copies the
        # marks from the first line.
        self._any_mark = len(SPECIALS) + (marks.index(True) if any(marks) else 0)

    def ids(self, characters: Sequence[str]) -> list[int]:
        """Returns the ids of those of ``characters`` that are in the vocabulary."""
        stoi = self._vocabulary.stoi
        return [stoi[character] for character in characters if character in stoi]

    def mark_id(self, character: str) -> int:
        """Returns the id that stands for a mark of the first line, -1 for any other character."""
        if not is_punctuation(character):
            return -1
        return self._vocabulary.stoi.get(character, self._any_mark)

    def text(self, ids: Sequence[int]) -> str:
        """Returns the characters of tokens as one string."""
        return "".join(self._vocabulary.itos[index] for index in ids)

    def given_id(self, character: str) -> int:
        """Returns the id of a character that the user gives; -1 if the model does not know it."""
        return self._vocabulary.stoi.get(character, self.mark_id(character))

    def partners(self, token: int) -> list[int]:
        """Returns the ids of the characters that answer ``token`` (:func:`rules.partners`)."""
        return self.ids(rules.partners(self._vocabulary.itos[token]))

    def rhyming(self, character: str) -> list[int]:
        """Returns the ids of the characters that rhyme with ``character`` in all readings."""
        names = rhymes(character, self.form.rhyme)
        return self._by_rhyme.get(names, []) if len(names) == 1 else []

    def completes_avoided(self, outputs: Tensor) -> Tensor:
        """Returns ``[R, V]``: the tokens that would end an avoided word after ``outputs``."""
        beginnings, ends = self._avoided_ids[:-1].unsqueeze(1), self._avoided_ids[-1]
        rows = outputs.shape[1]
        # The last L - 1 tokens of every output; a short one has <unk> before it.
        last = torch.cat([outputs.new_zeros(len(beginnings), rows), outputs])[len(outputs) :]
        is_begun = ((beginnings == last.unsqueeze(2)) | (beginnings < 0)).all(dim=0)  # [R, A]
        found = self.is_word.new_zeros(rows, len(self.is_word), dtype=torch.uint8)
        # Several words may end in the same token.
        found.scatter_reduce_(1, ends.expand(rows, -1), is_begun.byte(), "amax")
        return found.bool()

    @cached_property
    def _avoided_ids(self) -> Tensor:
        """The ids ``[L, A]`` of the avoided words, with -1 before those shorter than L."""
        known = [ids for word in self.avoided if len(ids := self.ids(word)) == len(word)]
        longest = max(map(len, known), default=1)
        filled = [[-1] * (longest - len(ids)) + ids for ids in known]
        return torch.tensor(filled, device=self.is_word.device).long().view(-1, longest).t()

    @cached_property
    def _by_rhyme(self) -> dict[frozenset[str], list[int]]:
        table: dict[frozenset[str], list[int]] = {}
        for number, character in enumerate(self._characters, start=len(SPECIALS)):
            table.setdefault(rhymes(character, self.form.rhyme), []).append(number)
        return table


def _bits(tones: Tones) -> int:
    return sum(_BITS[tone] for tone in tones)


def _needs(line: Sequence[str], table: CharacterTable, *, is_end: bool) -> list[int]:
    """Returns the tones that the answer needs at each character's first place, as bits."""
    needs, form = [0] * len(line), table.form
    pattern, end = rules.first_positions(line), rules.last_word(line)
    if form.tones == "off" or end < 0:
        return needs
    found = line_tones(line, form.rhyme)
    if wanted := rules.ending_tone(found[end], backward=table.backward):
        needs[pattern[end]] |= _BITS[wanted]
    if form.tones == "strict" and not is_end:
        for i in rules.tone_places(line):
            if len(found[i]) == 1 and i != end:
                needs[pattern[i]] |= 3 - _bits(found[i])
    return needs


def _narrowed(allowed: Tensor, more: Tensor) -> Tensor:
    """Returns the choices that ``more`` allows as well, in the rows where there are any."""
    both = allowed & more
    # The largest byte of a row is found forty times as fast as ``any`` of its booleans.
    is_stuck = both.view(torch.uint8).amax(dim=1) == 0
    if both.device.type != "cpu":  # which would have to wait
        return both | (allowed & is_stuck.unsqueeze(1))
    stuck = is_stuck.nonzero().flatten()
    both[stuck] = allowed[stuck]
    return both


def given_characters(
    request: CoupletRequest,
    lines: Sequence[Sequence[list[str]]],
    table: CharacterTable,
    as_read: Callable[[str], str],
) -> list[list[str | None]]:
    """Returns for each segment of ``lines`` the characters of its answer that the user gives.

    They are the beginning of the answer, or some anywhere in it; None stands for a free one.
    ``as_read`` returns a text in the spelling of the model. Raises a ConfigError for a character
    that the model does not know or that breaks a rule, and for a ``keep`` not as long as its line.
    """
    name, text = ("prefix", request.prefix) if request.keep is None else ("keep", request.keep)
    if text is None:
        return [[] for line in lines for _ in line]
    check_unicode(text, name)
    is_pattern = name == "keep"
    given = [None if is_pattern and c in WILDCARDS else c for c in "".join(as_read(text).split())]
    check(bool(given), name, text, "a text of at least one character")
    for character in given:
        if character and table.given_id(character) < 0:
            raise ConfigError(f"{text!r}: the model does not know {character!r}", option=name)
    found = []
    for line in lines:
        count, start = sum(map(len, line)), 0
        if count and is_pattern and count != len(given):
            whole = "".join(chain.from_iterable(line))
            reason = f"must have {count} characters, as {whole!r} has, not {len(given)}"
            raise ConfigError(f"{reason}; ？ stands for a free one", option="keep")
        for segment in line:
            end = start + len(segment) if is_pattern or start else max(len(given), len(segment))
            found.append(given[start:end])
            if rule := rules.broken_rule(segment, found[-1], table.form.rhyme, table.form.tones):
                what = (rules.RULES[rule].__doc__ or "").partition("\n")[0].rstrip(".")
                answered = f"{text!r} is in no answer to {''.join(segment)!r}"
                reason = f"{answered}: it breaks the rule of {rule}: {what}"
                raise ConfigError(reason, option=name)
            start = end
    return found
