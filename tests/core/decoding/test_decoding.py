"""Greedy and beam search, on tables small enough to check by hand (see ``search_tables``)."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from core.decoding.beam_search import FinishedHypotheses, beam_search, length_normalizer
from core.decoding.search import Constraint
from tests.core.decoding.search_tables import (
    IDS,
    VOCABULARY_SIZE,
    Histories,
    Table,
    beam,
    best_of_all,
    greedy,
    probabilities,
    random_table,
    reader,
    texts,
)

law = settings(max_examples=40, deadline=None, derandomize=True)
seeds = st.integers(0, 2**31 - 1)
alphas = st.sampled_from([0.0, 0.6, 1.0])
limits = st.integers(0, 4)

# Greedy search takes "a" (0.5), whose best output is 0.5 * 0.4, and misses "b." with 0.4 * 0.9.
TRAP: Table = {
    "": {"a": 0.5, "b": 0.4, ".": 0.1},
    "a": {"a": 0.3, "b": 0.3, ".": 0.4},
    "b": {".": 0.9, "c": 0.1},
}
ENDLESS: Table = {"a" * n: {"a": 0.9, ".": 0.1} for n in range(20)}
# "a" is probable, but every next token is forbidden; "b" is improbable and ends.
DEAD_END: Table = {"": {"a": 0.9, "b": 0.1}, "a": {}}


# By hand


def test_greedy_walks_into_the_trap() -> None:
    (found,) = greedy(TRAP)
    assert texts([found]) == ["a"]
    assert probabilities([found]) == pytest.approx([0.2])
    assert found.score == found.log_prob


def test_two_beams_by_hand() -> None:
    """First step: a 0.5 and b 0.4 fill the beam; "." with 0.1 ranks third and is dropped. Second:
    b. 0.36 and a. 0.2 rank first, end, and fill the list; aa and ab, 0.15 each, cannot overtake."""
    (found,) = beam(TRAP, beam_size=2)
    assert texts(found) == ["b", "a"]
    assert probabilities(found) == pytest.approx([0.36, 0.2])


def test_three_beams_by_hand() -> None:
    """First step: a 0.5, b 0.4, and "." 0.1 ends. Second: b. 0.36 and a. 0.2 end; aa 0.15, ab 0.15
    and bc 0.04 go on, for 0.15 beats 0.1. Third: all three end for sure; aa or ab takes the place
    of the empty output."""
    (found,) = beam(TRAP, beam_size=3)
    assert texts(found)[:2] == ["b", "a"]
    assert texts(found)[2] in ("aa", "ab")
    assert probabilities(found) == pytest.approx([0.36, 0.2, 0.15])


def test_the_length_penalty_by_hand() -> None:
    """Without it "a." with 0.5 beats "abc." with 0.5 * 0.9 = 0.45. With alpha 1, ln 0.5 divided by
    (5 + 2) / 6 is -0.594, ln 0.45 divided by (5 + 4) / 6 is -0.532: the longer one wins."""
    table: Table = {"": {"a": 1.0}, "a": {".": 0.5, "b": 0.5}, "ab": {"c": 0.9, ".": 0.1}}
    (plain,) = beam(table, beam_size=2)
    assert texts(plain) == ["a", "abc"]
    assert [one.score for one in plain] == [one.log_prob for one in plain]
    (penalized,) = beam(table, beam_size=2, length_penalty=1.0)
    assert texts(penalized) == ["abc", "a"]
    assert probabilities(penalized) == pytest.approx([0.45, 0.5])
    assert [one.score for one in penalized] == pytest.approx([-0.5323, -0.5941], abs=1e-4)


def test_the_normalizer_is_that_of_the_paper() -> None:
    assert length_normalizer(1, 0.7) == 1.0
    assert length_normalizer(7, 0.5) == pytest.approx(math.sqrt(2.0))
    assert length_normalizer(7, 0.0) == 1.0


# Laws


@law
@given(seed=seeds, limit=limits, alpha=alphas)
def test_a_wide_beam_is_exhaustive_search(seed: int, limit: int, alpha: float) -> None:
    """It finds every output of a table of three words and <eos>, in the right order."""
    table = random_table(seed, length=3)
    expected = best_of_all(table, limit, alpha)
    (found,) = beam(table, beam_size=200, length_penalty=alpha, max_lengths=[limit])
    assert texts(found) == [text for text, _ in expected]
    assert [one.score for one in found] == pytest.approx([score for _, score in expected], abs=1e-5)


@law
@given(table_seeds=st.lists(seeds, min_size=1, max_size=4), data=st.data())
def test_one_beam_is_greedy(table_seeds: list[int], data: st.DataObject) -> None:
    tables = [random_table(seed, length=4) for seed in table_seeds]
    max_lengths = [data.draw(st.integers(0, 6)) for _ in tables]
    one_beam = beam(*tables, beam_size=1, max_lengths=max_lengths)
    expected = greedy(*tables, max_lengths=max_lengths)
    assert [texts(found) for found in one_beam] == [texts([one]) for one in expected]
    assert [found[0].log_prob for found in one_beam] == pytest.approx(
        [one.log_prob for one in expected], abs=1e-5
    )


@law
@given(
    table_seeds=st.lists(seeds, min_size=1, max_size=4), beam_size=st.integers(1, 5), alpha=alphas
)
def test_early_stopping_never_changes_the_result(
    table_seeds: list[int], beam_size: int, alpha: float
) -> None:
    """Compared with a search that continues while there is any unfinished output."""
    tables = [random_table(seed, length=5) for seed in table_seeds]
    options = {"beam_size": beam_size, "length_penalty": alpha, "max_lengths": [5] * len(tables)}
    stopped = beam(*tables, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FinishedHypotheses, "can_be_overtaken_by", lambda self, p: p > -math.inf)
        assert beam(*tables, **options) == stopped


@law
@given(
    table_seeds=st.lists(seeds, min_size=1, max_size=4),
    beam_size=st.integers(1, 5),
    alpha=st.sampled_from([-0.5, 0.0, 0.6, 1.0, 3.0]),
    data=st.data(),
)
def test_fewer_hypotheses_are_the_first_of_all(
    table_seeds: list[int], beam_size: int, alpha: float, data: st.DataObject
) -> None:
    """A smaller ``n_best`` gives the same first hypotheses."""
    n_best = data.draw(st.integers(1, beam_size), label="n_best")
    tables = [random_table(seed, length=5) for seed in table_seeds]
    max_lengths = [data.draw(st.integers(0, 6)) for _ in tables]
    options = {"beam_size": beam_size, "length_penalty": alpha, "max_lengths": max_lengths}
    expected = beam(*tables, **options)
    assert beam(*tables, n_best=n_best, **options) == [found[:n_best] for found in expected]
    assert beam(*tables, n_best=beam_size, **options) == expected


def test_fewer_hypotheses_are_certain_sooner() -> None:
    """The empty output has 0.9. That it is the best is certain after one step. The second, with
    0.09, is certain after two."""
    table: Table = {"": {".": 0.9, "a": 0.1}, "a": {".": 0.9, "a": 0.1}}
    steps = []
    for n_best in (1, 2):
        state = Histories(1)
        (found,) = beam_search(
            reader([table]),
            state,
            beam_size=2,
            n_best=n_best,
            max_lengths=torch.tensor([20]),
            length_penalty=0.0,
        )
        assert texts(found) == ["", "a"][:n_best]
        steps.append(state.steps)
    assert steps == [1, 2]


@law
@given(
    table_seeds=st.lists(seeds, min_size=2, max_size=5),
    beam_size=st.integers(1, 4),
    alpha=alphas,
    data=st.data(),
)
def test_a_sentence_has_the_same_result_in_any_batch(
    table_seeds: list[int], beam_size: int, alpha: float, data: st.DataObject
) -> None:
    """With sentences that end earlier or later, have other limits, and in any order."""
    order = data.draw(st.permutations(range(len(table_seeds))))
    tables = [random_table(table_seeds[i], length=4) for i in order]
    max_lengths = [data.draw(st.integers(0, 6)) for _ in order]
    together = beam(*tables, beam_size=beam_size, length_penalty=alpha, max_lengths=max_lengths)
    greedily = greedy(*tables, max_lengths=max_lengths)
    for table, limit, found, one in zip(tables, max_lengths, together, greedily, strict=True):
        alone = beam(table, beam_size=beam_size, length_penalty=alpha, max_lengths=[limit])
        assert [found] == alone
        assert [one] == greedy(table, max_lengths=[limit])


# Limits


@pytest.mark.parametrize("limit", [0, 1, 4])
def test_the_length_limit_is_kept(limit: int) -> None:
    """An output at its limit ends there. Its probability is that of its tokens: 0.9 each."""
    (found,) = greedy(ENDLESS, max_lengths=[limit])
    assert texts([found]) == ["a" * limit]
    assert probabilities([found]) == pytest.approx([0.9**limit])
    (beams,) = beam(ENDLESS, beam_size=10, length_penalty=1.0, max_lengths=[limit])
    assert sorted(texts(beams)) == ["a" * n for n in range(limit + 1)]
    (longest,) = (one for one in beams if len(one.tokens) == limit)
    assert longest.log_prob == pytest.approx(limit * math.log(0.9), abs=1e-6)
    assert longest.score == pytest.approx(longest.log_prob / length_normalizer(limit, 1.0))


def test_no_sentences_no_results() -> None:
    assert greedy(max_lengths=[]) == []
    assert beam(beam_size=3, max_lengths=[]) == []


def test_fewer_outputs_than_beams() -> None:
    """Rows without an output are not returned."""
    table: Table = {"": {"a": 0.75, ".": 0.25}, "a": {"b": 1.0}}
    (found,) = beam(table, beam_size=6)
    assert texts(found) == ["ab", ""]
    assert probabilities(found) == pytest.approx([0.75, 0.25])


# Constraints


def only(allowed: dict[tuple[int, int], str]) -> Constraint:
    """Allows the given letters by sentence and position, and everything elsewhere."""

    def constraint(prefix: Tensor, sentences: Tensor) -> Tensor:
        forbidden = torch.zeros(len(sentences), VOCABULARY_SIZE, dtype=torch.bool)
        for row, sentence in enumerate(sentences.tolist()):
            letters = allowed.get((sentence, len(prefix)))
            if letters is not None:
                forbidden[row] = True
                forbidden[row, [IDS[letter] for letter in letters]] = False
        return forbidden

    return constraint


def test_a_constraint_holds_for_its_sentence_and_place() -> None:
    """The sentences end at different steps, so their rows move, but their numbers stay."""
    constraint = only({(0, 0): ".", (1, 0): "b", (2, 0): "a", (2, 1): "b", (2, 2): "c"})
    tables = [TRAP, TRAP, {**TRAP, "ab": {"c": 0.5, ".": 0.5}}]
    assert texts(greedy(*tables, constraint=constraint)) == ["", "b", "abc"]
    best = [found[0] for found in beam(*tables, beam_size=3, constraint=constraint)]
    assert texts(best) == ["", "b", "abc"]


def test_probabilities_are_over_the_allowed_tokens() -> None:
    """At the beginning b has 0.4 and "." 0.1, so b gets 0.8; "b." is then 0.8 * 0.9."""
    constraint = only({(0, 0): "b."})
    (found,) = greedy(TRAP, constraint=constraint)
    assert (texts([found]), probabilities([found])) == (["b"], pytest.approx([0.72]))
    ((found, *_),) = beam(TRAP, beam_size=2, constraint=constraint)
    assert (texts([found]), probabilities([found])) == (["b"], pytest.approx([0.72]))


# Dead ends: every token is forbidden


@pytest.mark.parametrize("place", [0, 1, 2])
def test_when_everything_is_forbidden_the_output_ends_as_it_is(place: int) -> None:
    """Its probability was NaN, and beam search returned no hypothesis."""
    constraint = only({(1, place): ""})
    ordinary, stuck = greedy(TRAP, ENDLESS, constraint=constraint)
    assert [ordinary] == greedy(TRAP)
    assert texts([stuck]) == ["a" * place]
    assert probabilities([stuck]) == pytest.approx([0.9**place])

    ordinary_beams, stuck_beams = beam(TRAP, ENDLESS, beam_size=1, constraint=constraint)
    assert [ordinary_beams] == beam(TRAP, beam_size=1)
    assert texts(stuck_beams) == ["a" * place]
    assert probabilities(stuck_beams) == pytest.approx([0.9**place])


def test_a_dead_end_is_dropped_if_there_are_other_outputs() -> None:
    """Its NaN was ranked above every candidate of all beams of the sentence."""
    (found,) = beam(DEAD_END, beam_size=2)
    assert texts(found) == ["b"]
    assert probabilities(found) == pytest.approx([0.1])
    assert texts(greedy(DEAD_END)) == ["a"]
