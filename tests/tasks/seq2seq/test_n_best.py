"""The outputs of a text out of those of its pieces."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformer_suite.core.decoding.search import Hypothesis
from transformer_suite.tasks.seq2seq.n_best import Output, best_combinations, combinations_by_rank


def ranked(*scores: float) -> list[Hypothesis]:
    """One piece's hypotheses of these scores; the place in the list is the only token."""
    return [Hypothesis([place], 0.0, score) for place, score in enumerate(scores)]


def choices(outputs: list[Output]) -> list[list[int]]:
    return [output.tokens for output in outputs]


pieces = st.lists(
    st.lists(st.integers(-50, 0), min_size=1, max_size=4).map(lambda s: sorted(s, reverse=True)),
    max_size=4,
)


@given(scores=pieces, count=st.integers(1, 9))
def test_the_best_combinations_are_those_of_an_exhaustive_search(
    scores: list[list[int]], count: int
) -> None:
    found = best_combinations([ranked(*map(float, own)) for own in scores], count)
    sums = sorted((float(sum(chosen)) for chosen in product(*scores)), reverse=True)
    assert [output.score for output in found] == sums[:count]
    assert len({tuple(tokens) for tokens in choices(found)}) == len(found)
    for output in found:
        assert [h.score for h in output.hypotheses] == [
            own[place] for own, place in zip(scores, output.tokens, strict=True)
        ]
    assert choices(found)[0] == [0] * len(scores)


def test_a_worse_piece_comes_before_two_worse_pieces() -> None:
    found = best_combinations([ranked(-1.0, -2.0), ranked(-1.0, -1.5, -9.0)], 4)
    assert choices(found) == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert [output.score for output in found] == [-2.0, -2.5, -3.0, -3.5]


def test_by_rank_every_piece_differs() -> None:
    found = combinations_by_rank([ranked(-1.0, -2.0, -4.0), ranked(-1.0, -1.5)], 9)
    assert choices(found) == [[0, 0], [1, 1], [2, 1]]
    assert [output.score for output in found] == [-2.0, -3.5, -5.5]
    assert choices(combinations_by_rank([ranked(-1.0, -2.0)] * 3, 1)) == [[0, 0, 0]]


@pytest.mark.parametrize("combine", [best_combinations, combinations_by_rank])
def test_a_text_without_pieces_has_one_output(combine) -> None:  # type: ignore[no-untyped-def]
    (found,) = combine([], 5)
    assert (found.tokens, found.score, found.hypotheses) == ([], 0.0, [])
    assert isinstance(found.score, float)


def test_a_book_on_one_line_takes_no_time() -> None:
    """Ten thousand pieces: whatever copies what it has so far takes minutes."""
    (best, *_) = best_combinations([ranked(-1.0, -2.0, -3.0, -4.0, -5.0)] * 10_000, 5)
    assert best.score == -10_000.0
    assert len(best.tokens) == 10_000
