"""Constraints: by hand, by brute force, and combined."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core.decoding.constraints import ForcedPrefix, MinimumLength, NoRepeatNgram, all_of
from core.decoding.search import Constraint
from tests.core.decoding.search_tables import (
    ENDS,
    IDS,
    VOCABULARY_SIZE,
    Table,
    beam,
    forbidding,
    greedy,
    probabilities,
    random_table,
    texts,
)

law = settings(max_examples=30, deadline=None, derandomize=True)

A, B, C = IDS["a"], IDS["b"], IDS["c"]
V = {"vocab_size": VOCABULARY_SIZE}
# After any prefix: a 0.5, b 0.25, c 0.125 and the end 0.125.
USUAL = {"a": 0.5, "b": 0.25, "c": 0.125, ".": 0.125}


class Usual(dict):
    """Returns a table in which every prefix has the row ``USUAL``."""

    def get(self, prefix: str, default: Any = None) -> Any:
        return USUAL


def allowed(constraint: Constraint, *outputs: str, sentences: list[int] | None = None) -> list[str]:
    """Returns the letters that may follow each of ``outputs``, which have the same length."""
    ids = torch.tensor([[IDS[letter] for letter in text] for text in outputs], dtype=torch.long)
    numbers = torch.tensor(list(range(len(outputs))) if sentences is None else sentences)
    forbidden = constraint(ids.view(len(outputs), -1).t(), numbers)
    assert forbidden.shape == (len(outputs), VOCABULARY_SIZE)
    assert forbidden.dtype == torch.bool
    return ["".join(c for c in "abc." if not row[IDS[c]]) for row in forbidden]


# Minimum length


def test_no_end_before_the_minimum_by_hand() -> None:
    rule = MinimumLength(torch.tensor([0, 2, 1]), **V)
    assert allowed(rule, "", "", "") == ["abc.", "abc", "abc"]
    assert allowed(rule, "a", "a", "a") == ["abc.", "abc", "abc."]
    assert allowed(rule, "ab", "ab", sentences=[1, 1]) == ["abc.", "abc."]


def test_every_sentence_has_its_own_minimum() -> None:
    table: Table = {"a" * n: {".": 0.9, "a": 0.1} for n in range(9)}
    rule = MinimumLength(torch.tensor([2, 0, 5]), **V)
    assert texts(greedy(table, table, table, constraint=rule)) == ["aa", "", "aaaaa"]
    for found, least in zip(
        beam(table, table, table, beam_size=3, constraint=rule), [2, 0, 5], strict=True
    ):
        assert texts(found)[0] == "a" * least
        assert min(len(text) for text in texts(found)) == least


# No n-gram twice


@pytest.mark.parametrize(
    ("size", "output", "expected"),
    [
        (1, "", "abc."),
        (1, "ab", "c."),
        (2, "a", "abc."),
        (2, "aa", "bc."),
        (2, "abaca", "a."),
        (3, "abcab", "ab."),
        (3, "abab", "bc."),
        (3, "ab", "abc."),
        (4, "abca", "abc."),
        (4, "abcabca", "ac."),
    ],
)
def test_no_ngram_twice_by_hand(size: int, output: str, expected: str) -> None:
    """ "abaca" contains ab and ac, so of the words only a may follow."""
    assert allowed(NoRepeatNgram(size, **V), output) == [expected]


def test_rows_do_not_see_each_others_ngrams() -> None:
    assert allowed(NoRepeatNgram(2, **V), "aba", "cca", "bbb") == ["ac.", "abc.", "ac."]


@law
@given(seed=st.integers(0, 2**31 - 1), size=st.integers(1, 3))
def test_a_beam_repeats_no_ngram_and_loses_nothing_else(seed: int, size: int) -> None:
    """A wide beam with the rule equals exhaustive search over the outputs that obey it."""
    table = random_table(seed, length=3)
    (found,) = beam(table, beam_size=200, max_lengths=[3], constraint=NoRepeatNgram(size, **V))

    def all_that_keep_it(prefix: str) -> set[str]:
        if len(prefix) == 3:
            return {prefix}
        outputs = {prefix} if "." in table.get(prefix, ENDS) else set()
        for letter in table.get(prefix, ENDS):
            longer = prefix + letter
            ngrams = [longer[i : i + size] for i in range(len(longer) - size + 1)]
            if letter != "." and len(ngrams) == len(set(ngrams)):
                outputs |= all_that_keep_it(longer)
        return outputs

    expected = all_that_keep_it("")
    # Where no output can obey the rule to its end, the result is one that got stuck.
    assert set(texts(found)) == expected or not expected


# Forced prefix


def test_the_prefix_by_hand() -> None:
    rule = ForcedPrefix([[A, B], [], [C]], **V)
    assert allowed(rule, "", "", "") == ["a", "abc.", "c"]
    assert allowed(rule, "a", "a", "c") == ["b", "abc.", "abc."]
    assert allowed(rule, "ab", sentences=[0]) == ["abc."]


def test_every_output_begins_with_its_prefix() -> None:
    """The model continues it: the forced "ba" has probability 1, then "." has 0.75."""
    table: Table = {
        "": {"a": 0.99, "b": 0.01},
        "b": {"c": 0.99, "a": 0.01},
        "ba": {".": 0.75, "c": 0.25},
    }
    rule = ForcedPrefix([[B, A], [], [C, C, C]], **V)
    limits = [9, 9, 4]
    first, second, third = beam(
        table, table, Usual(), beam_size=2, max_lengths=limits, constraint=rule
    )
    assert texts(first) == ["ba", "bac"]
    assert probabilities(first) == pytest.approx([0.75, 0.25])
    assert [second] == beam(table, beam_size=2)
    assert texts(third) == ["ccca", "cccb"]
    found = greedy(table, table, Usual(), max_lengths=limits, constraint=rule)
    assert texts(found) == ["ba", "a", "ccca"]


# Forbidden tokens, and rules together


def test_combined_rules_forbid_what_each_forbids() -> None:
    rules: list[Constraint] = [
        MinimumLength(torch.tensor([3, 0]), **V),
        NoRepeatNgram(1, **V),
        forbidding(C),
    ]
    assert allowed(all_of(*rules), "a", "b") == ["b", "a."]
    assert allowed(all_of(rules[2]), "a", "b") == ["ab.", "ab."]


def test_combined_rules_do_not_change_each_other() -> None:
    """The tensor that one of them returns must not be overwritten."""
    rule = forbidding(C)
    both = all_of(rule, forbidding(A))
    assert allowed(both, "", "") == ["b.", "b."]
    assert allowed(rule, "", "") == ["ab.", "ab."]


def test_rules_that_leave_nothing_end_the_output() -> None:
    """Each word once and no end before five words: the output has three words."""
    rule = all_of(NoRepeatNgram(1, **V), MinimumLength(torch.tensor([5]), **V))
    assert texts(greedy(Usual(), constraint=rule)) == ["abc"]
    (found,) = beam(Usual(), beam_size=2, constraint=rule)
    assert sorted(texts(found)[0]) == ["a", "b", "c"]
