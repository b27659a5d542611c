"""Couplet writers that have learnt nothing, and the form that they keep all the same."""

from string import ascii_letters

from tasks.couplet.predict import CoupletWriter
from tasks.couplet.rules import ending_tone, last_word
from tasks.couplet.tones import is_punctuation, line_tones, tones
from tests.tasks.tiny_models import untrained_writer

LEVELS, OBLIQUES, MARKS = "风天山花云江人门香秋心林诗情龙烟", "雨地水树月夜日", "，。"
UNKNOWN = "猫狗鹤a1々！《》🙂"


WRITERS = [untrained_writer(LEVELS + OBLIQUES + MARKS, seed=seed) for seed in range(3)]


def marks(line: str) -> list[tuple[int, str]]:
    return [(i, c) for i, c in enumerate(line) if is_punctuation(c)]


def has_same_repetitions(first: str, second: str) -> bool:
    return all(
        first[i] in ascii_letters or (first[i] == first[j]) == (second[i] == second[j])
        for i in range(len(first))
        for j in range(i)
    )


def check_form(writer: CoupletWriter, first: str, second: str) -> None:
    """Every rule, told in other words than the writer's own, as far as the vocabulary can go."""
    vocabulary = {c for c in writer.codec.vocabulary.itos[4:] if not is_punctuation(c)}
    words = [c for c in first if not is_punctuation(c)]
    answer = [c for c in second if not is_punctuation(c)]
    assert len(second) == len(first)
    if not vocabulary:
        return
    assert marks(second) == marks(first)
    assert set(answer) <= vocabulary
    fresh = vocabulary - set(words)
    needed = len({i if c in ascii_letters else c for i, c in enumerate(words)})
    if needed <= len(vocabulary):
        assert has_same_repetitions(first, second)
    if needed <= len(fresh):
        assert not set(answer) & set(words)
        wanted = ending_tone(line_tones(first)[last_word(first)])
        if sum(wanted in tones(c) for c in fresh) >= needed:
            assert wanted in tones(answer[-1])
