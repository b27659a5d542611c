"""Diverse beam search: outputs that avoid each other's tokens, by hand and by law."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core.decoding.diverse_beam_search import diverse_beam_search
from core.decoding.search import Hypothesis
from tests.core.decoding.search_tables import (
    FAR,
    Histories,
    Table,
    beam,
    probabilities,
    random_table,
    reader,
    texts,
)

law = settings(max_examples=30, deadline=None, derandomize=True)
seeds = st.integers(0, 2**31 - 1)
alphas = st.sampled_from([0.0, 0.6, 1.0])


def diverse(
    *tables: Table, max_lengths: list[int] | None = None, **options: Any
) -> list[list[Hypothesis]]:
    """Runs diverse beam search, one table for each sentence; no length penalty by default."""
    limits = torch.tensor([FAR] * len(tables) if max_lengths is None else max_lengths)
    options = {"length_penalty": 0.0, "max_lengths": limits, **options}
    return diverse_beam_search(reader(tables), Histories(len(tables)), **options)


# By hand

ONE_BEGINNING: Table = {"": {"a": 0.8, "b": 0.2}, "a": {"a": 0.6, "b": 0.4}}


def test_outputs_differ_where_plain_beams_do_not() -> None:
    """Both plain beams begin with "a". The second output finds ln 0.8 - 1.5 below ln 0.2; its score
    is that of the model, without the penalty."""
    (plain,) = beam(ONE_BEGINNING, beam_size=2)
    assert texts(plain) == ["aa", "ab"]
    (found,) = diverse(ONE_BEGINNING, beam_size=2, diversity=1.5)
    assert texts(found) == ["aa", "b"]
    assert probabilities(found) == pytest.approx([0.48, 0.2])
    assert [one.score for one in found] == [one.log_prob for one in found]


@pytest.mark.parametrize(
    ("diversity", "expected", "shares"),
    [(1.38, ["aa", "ab"], [0.48, 0.32]), (1.39, ["aa", "b"], [0.48, 0.2])],
)
def test_the_penalty_is_in_natural_logarithms(
    diversity: float, expected: list[str], shares: list[float]
) -> None:
    """ln (0.8 / 0.2) is 1.386. Below it both outputs take "a" and differ at the second word, where
    ln (0.6 / 0.4) is 0.405. The penalty does not change the score of a token that is chosen."""
    (found,) = diverse(ONE_BEGINNING, beam_size=2, diversity=diversity)
    assert texts(found) == expected
    assert probabilities(found) == pytest.approx(shares)


def test_every_output_before_counts() -> None:
    """ln 0.9 - 1.2 is above ln 0.1 = -2.3, and ln 0.9 - 2 * 1.2 is below: the third takes "b"."""
    table: Table = {"": {"a": 0.9, "b": 0.1}}
    (two,) = diverse(table, beam_size=2, diversity=1.2)
    assert texts(two) == ["a"]
    (three,) = diverse(table, beam_size=3, diversity=1.2)
    assert texts(three) == ["a", "b"]


def test_the_penalty_is_for_the_same_position_only() -> None:
    """The first output is "ac". Its "a" causes no penalty at the next position."""
    table: Table = {"": {"a": 0.8, "b": 0.2}, "a": {"c": 1.0}, "b": {"a": 0.6, "b": 0.4}}
    (found,) = diverse(table, beam_size=2, diversity=1.5)
    assert texts(found) == ["ac", "ba"]


def test_ends_are_not_avoided() -> None:
    """Both outputs may end after one word, though the first has just done so."""
    table: Table = {"": {"a": 0.6, "b": 0.4}, "b": {".": 0.6, "c": 0.4}}
    (found,) = diverse(table, beam_size=2, diversity=5.0)
    assert texts(found) == ["a", "b"]


def test_a_finished_output_is_avoided_no_more() -> None:
    """The first output "a" has ended for sure, and what it would say after that is no output."""
    table: Table = {
        "": {"a": 0.6, "b": 0.4},
        "a": {".": 0.99, "c": 0.01},
        "b": {"a": 0.99, "b": 0.01},
        "ac": {"c": 1.0},
        "ba": {"c": 0.6, "a": 0.4},
    }
    (found,) = diverse(table, beam_size=2, diversity=1.0)
    assert texts(found) == ["a", "bac"]


# Laws


@law
@given(
    table_seeds=st.lists(seeds, min_size=2, max_size=4),
    size=st.integers(1, 4),
    diversity=st.sampled_from([0.0, 0.7]),
    data=st.data(),
)
def test_a_sentence_has_the_same_result_in_any_batch(
    table_seeds: list[int], size: int, diversity: float, data: st.DataObject
) -> None:
    tables = [random_table(seed, length=4) for seed in table_seeds]
    limits = [data.draw(st.integers(0, 6)) for _ in tables]
    options = {"beam_size": size, "diversity": diversity}
    together = diverse(*tables, max_lengths=limits, **options)
    for table, limit, found in zip(tables, limits, together, strict=True):
        assert [found] == diverse(table, max_lengths=[limit], **options)
        # The first output is free of all others; no output comes twice, none is too long.
        (free,) = beam(table, beam_size=1, max_lengths=[limit])
        assert texts(free)[0] in texts(found)
        assert diversity > 0.0 or found == free
        assert len(set(texts(found))) == len(found) <= size
        assert max(map(len, texts(found))) <= limit
        assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)


def test_no_sentences_no_results() -> None:
    assert diverse(beam_size=4, diversity=1.0, max_lengths=[]) == []
