"""Sampling: the right distribution, the right tokens cut off, and chance that no batch can move."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.core.decoding.search_tables import (
    IDS,
    Histories,
    Table,
    greedy,
    random_table,
    reader,
    texts,
)
from transformer_suite.core.decoding.sampling import (
    draw,
    sample_search,
    sampling_probabilities,
    uniform_numbers,
)
from transformer_suite.core.decoding.search import Hypothesis
from transformer_suite.core.errors import ConfigError

law = settings(max_examples=25, deadline=None, derandomize=True)
seeds = st.integers(0, 2**31 - 1)

MAX_LENGTH = 4


def sample(*tables: Table, numbers: list[int] | None = None, **options: Any) -> list[Hypothesis]:
    """Sampling, one table a sentence."""
    return sample_search(
        reader(tables),
        Histories(len(tables)),
        max_lengths=torch.full((len(tables),), MAX_LENGTH),
        sentence_numbers=None if numbers is None else torch.tensor(numbers),
        **options,
    )


def log(*probabilities: float) -> Tensor:
    """One row of logits, ``[1, V]``."""
    return torch.tensor([probabilities]).log()


def kept(probabilities: Tensor) -> set[int]:
    (row,) = probabilities
    return set(row.nonzero().flatten().tolist())


# The distribution


def chi_square(counts: Tensor, expected: Tensor) -> float:
    return float(((counts - expected) ** 2 / expected).sum())


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_frequencies_are_the_distribution(temperature: float) -> None:
    """Chi-square of 20,000 draws over five tokens: beyond 23.5 by chance once in 10,000 times."""
    count = 20_000
    weights = torch.tensor([0.4, 0.3, 0.2, 0.07, 0.03])
    right = weights ** (1 / temperature)
    right = right / right.sum()
    probabilities = sampling_probabilities(weights.log().unsqueeze(0), temperature=temperature)
    tokens = draw(probabilities.expand(count, -1), uniform_numbers(1, torch.arange(count), 0))
    assert chi_square(tokens.bincount(minlength=5), count * right) < 23.5


def test_whole_outputs_come_as_often_as_their_probability() -> None:
    """ "a." 0.6 * 0.25, "ab." 0.6 * 0.75, "." 0.4: the places of one sentence are independent."""
    table: Table = {"": {"a": 0.6, ".": 0.4}, "a": {"b": 0.75, ".": 0.25}}
    count = 4000
    found = texts(sample(*[table] * count, seed=3))
    counts = torch.tensor([found.count(text) for text in ("a", "ab", "")])
    assert int(counts.sum()) == count
    # Two degrees of freedom: beyond 18.4 by chance once in 10,000 times.
    assert chi_square(counts, count * torch.tensor([0.15, 0.45, 0.4])) < 18.4


@pytest.mark.parametrize(
    "numbers",
    [
        pytest.param(uniform_numbers(7, torch.arange(20_000), 0), id="sentences"),
        pytest.param(
            torch.cat([uniform_numbers(7, torch.tensor([3]), t) for t in range(5000)]), id="places"
        ),
        pytest.param(
            torch.cat([uniform_numbers(s, torch.tensor([3]), 0) for s in range(5000)]), id="seeds"
        ),
    ],
)
def test_the_numbers_are_uniform_and_neighbours_independent(numbers: Tensor) -> None:
    """In 10 bins, and in 10 x 10 bins of neighbours (99 degrees of freedom: below 161)."""
    assert float(numbers.min()) >= 0.0
    assert float(numbers.max()) < 1.0
    bins = (numbers * 10).long()
    assert chi_square(bins.bincount(minlength=10), torch.full((10,), len(bins) / 10)) < 33.7
    pairs = 10 * bins[:-1] + bins[1:]
    assert chi_square(pairs.bincount(minlength=100), torch.full((100,), len(pairs) / 100)) < 161.4


def test_the_hash_is_splitmix64() -> None:
    """Its first outputs from the state 0, published with the reference implementation."""
    from transformer_suite.core.decoding.sampling import _mix

    outputs = [int(_mix(torch.zeros(1, dtype=torch.int64), n)) % (1 << 64) for n in range(3)]
    assert outputs == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]


# What is cut off


def test_top_k_keeps_the_k_best() -> None:
    logits = log(0.1, 0.4, 0.2, 0.3)
    assert kept(sampling_probabilities(logits, top_k=1)) == {1}
    assert kept(sampling_probabilities(logits, top_k=3)) == {1, 2, 3}
    assert kept(sampling_probabilities(logits, top_k=9)) == {0, 1, 2, 3}
    assert sampling_probabilities(logits, top_k=2).tolist() == [
        pytest.approx([0.0, 4 / 7, 0.0, 3 / 7])
    ]


def test_of_equally_probable_tokens_the_first_stay() -> None:
    logits = log(0.1, 0.3, 0.3, 0.3)
    assert kept(sampling_probabilities(logits, top_k=2)) == {1, 2}
    assert kept(sampling_probabilities(logits, top_p=0.5)) == {1, 2}
    assert kept(sampling_probabilities(log(0.2, 0.2, 0.4, 0.2), top_k=2)) == {0, 2}


@pytest.mark.parametrize(
    ("top_p", "expected"),
    [
        (0.01, {1}),
        (0.39, {1}),
        (0.41, {1, 3}),
        (0.69, {1, 3}),
        (0.71, {1, 2, 3}),
        (1.0, {*range(4)}),
    ],
)
def test_top_p_keeps_the_fewest_that_reach_p(top_p: float, expected: set[int]) -> None:
    assert kept(sampling_probabilities(log(0.1, 0.4, 0.2, 0.3), top_p=top_p)) == expected


def test_top_p_counts_what_top_k_left() -> None:
    """Of 0.4 and 0.3 the first is 4/7: it reaches 0.55 of them, and not of the whole."""
    logits = log(0.1, 0.4, 0.2, 0.3)
    assert kept(sampling_probabilities(logits, top_k=2, top_p=0.55)) == {1}
    assert kept(sampling_probabilities(logits, top_p=0.55)) == {1, 3}


def test_top_p_counts_at_its_temperature() -> None:
    """Squared, 0.4 is 16 / 30 of the whole."""
    logits = log(0.1, 0.4, 0.2, 0.3)
    assert kept(sampling_probabilities(logits, temperature=0.5, top_p=0.5)) == {1}
    assert kept(sampling_probabilities(logits, temperature=1.0, top_p=0.5)) == {1, 3}


@law
@given(seed=seeds)
def test_no_chance_draws_what_has_no_probability(seed: int) -> None:
    """From either end of [0, 1), with impossible tokens first, between and last."""
    torch.manual_seed(seed)
    weights = torch.rand(50, 400)
    weights[:, ::2] = 0.0
    weights[:, -9:] = 0.0
    probabilities = weights / weights.sum(dim=1, keepdim=True)
    first, last = (draw(probabilities, torch.full((50,), u)) for u in (0.0, 1.0 - 2.0**-24))
    assert (first == 1).all()
    assert (last == 389).all()


def test_an_impossible_row_is_no_nan() -> None:
    logits = torch.tensor([[-math.inf] * 3, [-math.inf, 2.0, -math.inf]])
    for options in ({}, {"top_k": 1}, {"top_p": 0.5}):
        probabilities = sampling_probabilities(logits, **options)
        assert probabilities.tolist() == [[0.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    assert 0 <= int(draw(probabilities, torch.tensor([0.9, 0.9]))[0]) < 3


# The search


@law
@given(seed=seeds, table_seeds=st.lists(seeds, min_size=1, max_size=4))
def test_cold_sampling_is_greedy(seed: int, table_seeds: list[int]) -> None:
    tables = [random_table(one, length=3) for one in table_seeds]
    expected = greedy(*tables, max_lengths=[MAX_LENGTH] * len(tables))
    for options in ({"temperature": 1e-6}, {"temperature": 1e-40}, {"top_k": 1}, {"top_p": 1e-9}):
        assert sample(*tables, seed=seed, **options) == expected


@law
@given(seed=seeds, data=st.data())
def test_a_sentence_draws_the_same_in_any_batch_and_order(seed: int, data: st.DataObject) -> None:
    """In batches of 1, 3 and 7, and shuffled; the numbers are those of the whole input."""
    tables = [random_table(n, length=3) for n in range(7)]
    options = {"seed": seed, "top_p": 0.9, "temperature": 1.3}
    together = sample(*tables, **options)
    order = data.draw(st.permutations(range(7)))
    for size in (1, 3, 7):
        found: dict[int, Hypothesis] = {}
        for start in range(0, 7, size):
            batch = list(order[start : start + size])
            results = sample(*[tables[i] for i in batch], numbers=batch, **options)
            found.update(zip(batch, results, strict=True))
        assert [found[i] for i in range(7)] == together


def test_another_seed_or_number_draws_another_output() -> None:
    tables = [random_table(n, length=3, share_of_zeros=0.0) for n in range(20)]
    first = texts(sample(*tables, seed=1))
    assert texts(sample(*tables, seed=1)) == first
    assert texts(sample(*tables, seed=2)) != first
    assert texts(sample(*tables, seed=1, numbers=list(range(20, 40)))) != first


def test_the_score_is_the_models_not_that_of_chance() -> None:
    """At any temperature "ab." is 0.6 * 0.75."""
    table: Table = {"": {"a": 0.6, ".": 0.4}, "a": {"b": 0.75, ".": 0.25}}
    (found,) = sample(table, temperature=0.01)
    assert texts([found]) == ["ab"]
    assert math.exp(found.log_prob) == pytest.approx(0.45)
    assert found.score == found.log_prob


def test_a_constraint_is_kept() -> None:
    def not_a(prefix: Tensor, sentences: Tensor) -> Tensor:
        forbidden = torch.zeros(len(sentences), 7, dtype=torch.bool)
        forbidden[:, IDS["a"]] = True
        return forbidden

    tables = [random_table(n, length=3) for n in range(30)]
    assert any("a" in text for text in texts(sample(*tables)))
    assert not any("a" in text for text in texts(sample(*tables, constraint=not_a)))


def test_no_special_token_is_drawn_and_dead_ends_end() -> None:
    """Special tokens score best in these tables; after "b" everything is forbidden."""
    table: Table = {"": {"b": 1.0}, "b": {}}
    (found,) = sample(table, top_p=0.9)
    assert texts([found]) == ["b"]
    assert found.log_prob == pytest.approx(0.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": 0.0}, "temperature must be above 0 and finite, not 0.0"),
        ({"temperature": math.nan}, "temperature must be above 0"),
        ({"temperature": math.inf}, "temperature must be above 0 and finite"),
        ({"top_k": -1}, r"top_k must be 0 \(all tokens\) or more, not -1"),
        ({"top_p": 2.0}, r"top_p must be above 0 and at most 1 \(all tokens\), not 2.0"),
        ({"top_p": 0.0}, "top_p must be above 0"),
        ({"seed": -1}, r"seed must be from 0 to 2\^32 - 1, not -1"),
    ],
)
def test_bad_options_are_refused_with_what_is_allowed(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        sample(random_table(1, length=1), **options)


def test_numbers_for_another_batch_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\[B\] = \[1\], not \[2\]"):
        sample(random_table(1, length=1), numbers=[0, 1])
