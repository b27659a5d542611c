"""All searches with one signature, and a comparison of their results."""

import pytest
from torch import Tensor

from core.decoding.beam_search import beam_search
from core.decoding.diverse_beam_search import diverse_beam_search
from core.decoding.greedy_search import greedy_search
from core.decoding.sampling import sample_search
from core.decoding.search import Hypothesis, SearchState, Step


def greedily(step: Step, state: SearchState, limits: Tensor) -> list[list[Hypothesis]]:
    return [[one] for one in greedy_search(step, state, max_lengths=limits)]


def by_sampling(step: Step, state: SearchState, limits: Tensor) -> list[list[Hypothesis]]:
    found = sample_search(step, state, max_lengths=limits, seed=5, top_p=0.9)
    return [[one] for one in found]


def by_beam(step: Step, state: SearchState, limits: Tensor) -> list[list[Hypothesis]]:
    return beam_search(step, state, beam_size=3, max_lengths=limits)


def for_the_best(step: Step, state: SearchState, limits: Tensor) -> list[list[Hypothesis]]:
    return beam_search(step, state, beam_size=3, n_best=1, max_lengths=limits)


def diversely(step: Step, state: SearchState, limits: Tensor) -> list[list[Hypothesis]]:
    return diverse_beam_search(step, state, beam_size=3, diversity=1.0, max_lengths=limits)


every_search = pytest.mark.parametrize(
    "search", [greedily, by_sampling, by_beam, for_the_best, diversely]
)


def assert_same(found: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> None:
    """Asserts equal tokens, and log-probabilities that differ by rounding only."""
    assert [[one.tokens for one in ranked] for ranked in found] == [
        [one.tokens for one in ranked] for ranked in expected
    ]
    for ranked, right in zip(found, expected, strict=True):
        assert [one.log_prob for one in ranked] == pytest.approx(
            [one.log_prob for one in right], abs=1e-4
        )
