"""The outputs of a text, combined from those of its segments."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.decoding.search import Hypothesis
from tasks.seq2seq.n_best import Output, best_combinations, combinations_by_rank


def ranked(*scores: float) -> list[Hypothesis]:
    """Returns hypotheses of one segment with these scores; the index is the only token."""
    return [Hypothesis([index], 0.0, score) for index, score in enumerate(scores)]


def choices(outputs: list[Output]) -> list[list[int]]:
    return [output.tokens for output in outputs]


segments = st.lists(
    st.lists(st.integers(-50, 0), min_size=1, max_size=4).map(lambda s: sorted(s, reverse=True)),
    max_size=4,
)


@given(scores=segments, count=st.integers(1, 9))
def test_the_best_combinations_are_those_of_an_exhaustive_search(
    scores: list[list[int]], count: int
) -> None:
    found = best_combinations([ranked(*map(float, own)) for own in scores], count)
    sums = sorted((float(sum(chosen)) for chosen in product(*scores)), reverse=True)
    assert [output.score for output in found] == sums[:count]
    assert len({tuple(tokens) for tokens in choices(found)}) == len(found)
    for output in found:
        assert [h.score for h in output.hypotheses] == [
            own[index] for own, index in zip(scores, output.tokens, strict=True)
        ]
    assert choices(found)[0] == [0] * len(scores)


def test_a_worse_segment_comes_before_two_worse_segments() -> None:
    found = best_combinations([ranked(-1.0, -2.0), ranked(-1.0, -1.5, -9.0)], 4)
    assert choices(found) == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert [output.score for output in found] == [-2.0, -2.5, -3.0, -3.5]


def test_by_rank_every_segment_differs() -> None:
    found = combinations_by_rank([ranked(-1.0, -2.0, -4.0), ranked(-1.0, -1.5)], 9)
    assert choices(found) == [[0, 0], [1, 1], [2, 1]]
    assert [output.score for output in found] == [-2.0, -3.5, -5.5]
    assert choices(combinations_by_rank([ranked(-1.0, -2.0)] * 3, 1)) == [[0, 0, 0]]


@pytest.mark.parametrize("combine", [best_combinations, combinations_by_rank])
def test_a_text_without_segments_has_one_output(combine) -> None:  # type: ignore[no-untyped-def]
    (found,) = combine([], 5)
    assert (found.tokens, found.score, found.hypotheses) == ([], 0.0, [])
    assert isinstance(found.score, float)


def test_a_book_on_one_line_takes_no_time() -> None:
    """Ten thousand segments: copying the output so far at each of them would take minutes."""
    (best, *_) = best_combinations([ranked(-1.0, -2.0, -3.0, -4.0, -5.0)] * 10_000, 5)
    assert best.score == -10_000.0
    assert len(best.tokens) == 10_000
