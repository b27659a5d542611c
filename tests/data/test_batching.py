"""The laws of batching, and padding counted by hand."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from core.errors import ConfigError
from data.batching import bucket_by_length, pad_sequence

Lengths = list[tuple[int, ...]]

one_side = st.lists(st.tuples(st.integers(0, 60)), max_size=200)
two_sides = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=200)
any_lengths = st.one_of(one_side, two_sides)
budgets = st.integers(1, 300)
seeds = st.one_of(st.none(), st.integers(0, 1000))


def padding_share(lengths: Sequence[Sequence[int]], batches: Sequence[Sequence[int]]) -> float:
    """Returns the share of padding in all positions of all sides and batches, 0 to 1."""
    real = positions = 0
    for batch in batches:
        for side in zip(*(lengths[index] for index in batch), strict=True):
            real += sum(side)
            positions += max(side) * len(side)
    return 1 - real / positions if positions else 0.0


@given(any_lengths, budgets, seeds)
def test_every_example_is_in_exactly_one_batch(
    lengths: Lengths, budget: int, seed: int | None
) -> None:
    batches = bucket_by_length(lengths, batch_tokens=budget, seed=seed)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    assert all(batches)


@given(any_lengths, budgets, seeds)
def test_no_batch_exceeds_the_budget_but_a_single_long_example(
    lengths: Lengths, budget: int, seed: int | None
) -> None:
    for batch in bucket_by_length(lengths, batch_tokens=budget, seed=seed):
        longest = max(max(lengths[index]) for index in batch)
        assert longest * len(batch) <= budget or len(batch) == 1
        assert len(batch) <= budget


@given(any_lengths, budgets, seeds)
def test_the_same_seed_gives_the_same_batches(
    lengths: Lengths, budget: int, seed: int | None
) -> None:
    first, second = (bucket_by_length(lengths, batch_tokens=budget, seed=seed) for _ in range(2))
    assert first == second


@given(any_lengths, budgets)
def test_without_a_seed_lengths_only_rise(lengths: Lengths, budget: int) -> None:
    batches = bucket_by_length(lengths, batch_tokens=budget, seed=None)
    order = [max(lengths[index]) for batch in batches for index in batch]
    assert order == sorted(order)


@given(any_lengths, budgets)
def test_batches_are_filled_while_the_budget_lasts(lengths: Lengths, budget: int) -> None:
    batches = bucket_by_length(lengths, batch_tokens=budget, seed=None)
    for batch, following in pairwise(batches):
        longest = max(1, max(lengths[following[0]]))
        assert longest * (len(batch) + 1) > budget


def test_another_seed_gives_another_order_and_other_companions() -> None:
    lengths = [(5 + index % 3, 7) for index in range(300)]
    one, other = (bucket_by_length(lengths, batch_tokens=70, seed=seed) for seed in (1, 2))
    assert one != other
    assert {frozenset(batch) for batch in one} != {frozenset(batch) for batch in other}


def test_shuffled_batches_do_not_come_sorted_by_length() -> None:
    lengths = [(1 + index % 40,) for index in range(400)]  # little enough for a single pool
    batches = bucket_by_length(lengths, batch_tokens=100, seed=3)
    order = [max(lengths[index][0] for index in batch) for batch in batches]
    assert order != sorted(order)


def test_bucketing_saves_most_of_the_padding() -> None:
    lengths = [(1 + index * 7919 % 50, 1 + index * 7919 % 50) for index in range(5000)]
    in_order = [list(range(start, start + 20)) for start in range(0, 5000, 20)]
    bucketed = bucket_by_length(lengths, batch_tokens=1000, seed=0)
    assert padding_share(lengths, in_order) > 0.4
    assert padding_share(lengths, bucketed) < 0.05


def test_empty_examples_do_not_make_a_batch_without_end() -> None:
    batches = bucket_by_length([(0,)] * 10, batch_tokens=3, seed=None)
    assert [len(batch) for batch in batches] == [3, 3, 3, 1]


def test_a_budget_of_nothing_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match="batch_tokens must be at least 1, not 0"):
        bucket_by_length([(1,)], batch_tokens=0, seed=None)
    with pytest.raises(ConfigError, match="batch_tokens must be a whole number, not '3000'"):
        bucket_by_length([(1,)], batch_tokens="3000", seed=None)  # type: ignore[arg-type]


def test_padded_sequences_are_columns() -> None:
    padded = pad_sequence([[4, 5, 6], [7], []])
    assert padded.tolist() == [[4, 7, 1], [5, 1, 1], [6, 1, 1]]
    assert padded.dtype == torch.long
    assert padded.is_contiguous()


@pytest.mark.parametrize(("sequences", "shape"), [([], (0, 0)), ([[], []], (0, 2))])
def test_empty_batches_keep_their_two_axes(
    sequences: list[list[int]], shape: tuple[int, int]
) -> None:
    assert pad_sequence(sequences).shape == shape


def test_another_padding_id_can_be_given() -> None:
    assert pad_sequence([[4, 5], [6]], pad_id=-100).tolist() == [[4, 6], [5, -100]]
