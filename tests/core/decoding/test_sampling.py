"""Sampling: the right distribution, the right tokens cut off, and the same draws in any batch."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from core.decoding.sampling import draw, gumbel_noise, noise_keys, sample_search
from core.decoding.search import Hypothesis
from tests.core.decoding.search_tables import Histories, Table, greedy, random_table, reader, texts

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


def kept(logits: Tensor, **options: Any) -> set[int]:
    """The tokens that 2,000 draws return; one of probability 0.05 is missed once in 10^44 times."""
    count = 2000
    keys = noise_keys(1, torch.arange(count), 0)
    return set(draw(logits.expand(count, -1), keys, **options).tolist())


# The distribution


def chi_square(counts: Tensor, expected: Tensor) -> float:
    return float(((counts - expected) ** 2 / expected).sum())


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_frequencies_are_the_distribution(temperature: float) -> None:
    """Chi-square of 20,000 draws over five tokens: above 23.5 once in 10,000 times."""
    count = 20_000
    weights = torch.tensor([0.4, 0.3, 0.2, 0.07, 0.03])
    expected = weights ** (1 / temperature)
    expected = expected / expected.sum()
    keys = noise_keys(1, torch.arange(count), 0)
    tokens = draw(weights.log().expand(count, -1), keys, temperature=temperature)
    assert chi_square(tokens.bincount(minlength=5), count * expected) < 23.5


@pytest.mark.parametrize("options", [{}, {"top_p": 0.9}, {"top_k": 150}, {"temperature": 1.5}])
def test_frequencies_of_a_large_vocabulary_are_the_distribution(options: dict[str, Any]) -> None:
    """Also where most of the weight is outside the head, whose tokens alone have noise at first.

    Chi-square over ten groups of 500 tokens: nine degrees of freedom, above 33.7 once in 10,000.
    """
    count = 20_000
    torch.manual_seed(3)
    logits = torch.randn(500)
    weights = (logits / options.get("temperature", 1.0)).softmax(dim=0).double()
    ranked, order = weights.sort(descending=True)
    if "top_k" in options:
        weights[order[options["top_k"] :]] = 0.0
    if "top_p" in options:
        weights[order[ranked.cumsum(dim=0) - ranked >= options["top_p"]]] = 0.0
    weights /= weights.sum()
    keys = noise_keys(1, torch.arange(count), 0)
    tokens = torch.cat([draw(logits.expand(len(k), -1), k, **options) for k in keys.split(2000)])
    assert (weights[tokens] > 0).all()
    groups = torch.arange(500) % 10
    counts = groups[tokens].bincount(minlength=10)
    expected = count * torch.zeros(10, dtype=torch.float64).index_add(0, groups, weights)
    assert chi_square(counts, expected) < 33.7
    # The same by rank: the head and the rest get their shares.
    in_head = torch.isin(tokens, order[:64]).sum()
    share = weights[order[:64]].sum()
    assert abs(in_head - count * share) <= 4 * (count * share * (1 - share)).sqrt() + 1e-6


def test_the_noise_is_gumbels() -> None:
    """The distribution function is exp(-exp(-x)): ten equally probable bins, neighbors apart."""
    keys = noise_keys(7, torch.tensor([3]), 0)
    of_tokens = gumbel_noise(keys, torch.arange(20_000))
    of_texts = gumbel_noise(noise_keys(7, torch.arange(20_000), 0), torch.tensor(5))
    by_step = torch.stack([noise_keys(7, torch.tensor(3), t) for t in range(5000)])
    of_steps = gumbel_noise(by_step, torch.tensor(5))
    by_seed = torch.stack([noise_keys(s, torch.tensor(3), 0) for s in range(5000)])
    of_seeds = gumbel_noise(by_seed, torch.tensor(5))
    for noise in (of_tokens, of_texts, of_steps, of_seeds):
        bins = (10 * (-(-noise).exp()).exp()).long()
        assert chi_square(bins.bincount(minlength=10), torch.full((10,), len(bins) / 10)) < 33.7
        pairs = 10 * bins[:-1] + bins[1:]
        assert (
            chi_square(pairs.bincount(minlength=100), torch.full((100,), len(pairs) / 100)) < 161.4
        )


def test_whole_outputs_come_as_often_as_their_probability() -> None:
    """ "a." 0.6 * 0.25, "ab." 0.6 * 0.75, "." 0.4: the places of one sentence are independent."""
    table: Table = {"": {"a": 0.6, ".": 0.4}, "a": {"b": 0.75, ".": 0.25}}
    count = 4000
    found = texts(sample(*[table] * count, seed=3))
    counts = torch.tensor([found.count(text) for text in ("a", "ab", "")])
    assert int(counts.sum()) == count
    # Two degrees of freedom: above 18.4 once in 10,000 times.
    assert chi_square(counts, count * torch.tensor([0.15, 0.45, 0.4])) < 18.4


def test_the_hash_is_splitmix64() -> None:
    """Its first outputs from the state 0, published with the reference implementation."""
    from core.decoding.sampling import _mix

    outputs = [int(_mix(torch.zeros(1, dtype=torch.int64), n)) % (1 << 64) for n in range(3)]
    assert outputs == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]


# What is cut off


def test_top_k_keeps_the_k_best() -> None:
    logits = log(0.1, 0.4, 0.2, 0.3)
    assert kept(logits, top_k=1) == {1}
    assert kept(logits, top_k=2) == {1, 3}
    assert kept(logits, top_k=3) == {1, 2, 3}
    assert kept(logits, top_k=9) == {0, 1, 2, 3}


def test_of_equally_probable_tokens_the_first_stay() -> None:
    logits = log(0.1, 0.3, 0.3, 0.3)
    assert kept(logits, top_k=2) == {1, 2}
    assert kept(logits, top_p=0.5) == {1, 2}
    assert kept(log(0.2, 0.2, 0.4, 0.2), top_k=2) == {0, 2}


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
    assert kept(log(0.1, 0.4, 0.2, 0.3), top_p=top_p) == expected


def test_top_p_counts_what_top_k_left() -> None:
    """Of 0.4 and 0.3 the first is 4/7: it reaches 0.55 of them, and not of the whole."""
    logits = log(0.1, 0.4, 0.2, 0.3)
    assert kept(logits, top_k=2, top_p=0.55) == {1}
    assert kept(logits, top_p=0.55) == {1, 3}


def test_tokens_that_only_rounding_ranks_are_equally_probable() -> None:
    """Of two equal probabilities that another batch has rounded differently, one was kept here and
    the other there."""
    logits = log(0.1, 0.3, 0.3, 0.3)
    for noise in (1e-6, -1e-6):
        rounded = logits + noise * torch.tensor([0.0, 0.0, 1.0, 2.0])
        assert kept(rounded, top_k=2) == {1, 2}
        assert kept(rounded, top_p=0.6) == {1, 2}
        assert kept(rounded, top_p=0.5) == {1, 2}


@law
@given(seed=seeds, options=st.sampled_from([{}, {"top_p": 0.99}, {"top_k": 300}]))
def test_nothing_impossible_is_drawn(seed: int, options: dict[str, Any]) -> None:
    """With impossible tokens first, between and last."""
    torch.manual_seed(seed)
    logits = torch.randn(50, 400)
    logits[:, ::2] = -math.inf
    logits[:, -9:] = -math.inf
    tokens = draw(logits, noise_keys(seed, torch.arange(50), 0), **options)
    assert (logits.gather(1, tokens.unsqueeze(1)) > -math.inf).all()


@pytest.mark.parametrize("options", [{}, {"top_k": 1}, {"top_p": 0.5}, {"temperature": 1e-40}])
def test_an_impossible_row_does_not_disturb_the_others(options: dict[str, Any]) -> None:
    logits = torch.tensor([[-math.inf] * 100, [-math.inf] * 100])
    logits[1, 70] = 2.0
    first, second = draw(logits, noise_keys(1, torch.arange(2), 0), **options).tolist()
    assert 0 <= first < 100
    assert second == 70


@law
@given(seed=seeds, options=st.sampled_from([{}, {"top_p": 0.8}, {"top_p": 0.1}, {"top_k": 50}]))
def test_rounding_of_the_logits_does_not_change_what_is_drawn(
    seed: int, options: dict[str, Any]
) -> None:
    """Four texts in 1,000 changed with the size of the batch: drawing by inversion let the rounding
    of a sum over the whole vocabulary decide."""
    torch.manual_seed(seed)
    logits = 3.0 * torch.randn(100, 2000)
    keys = noise_keys(seed, torch.arange(100), 0)
    expected = draw(logits, keys, **options)
    rounded = logits + 1e-6 * torch.randn(100, 2000)
    assert torch.equal(draw(rounded, keys, **options), expected)


# The search


@law
@given(seed=seeds, table_seeds=st.lists(seeds, min_size=1, max_size=4))
def test_cold_sampling_is_greedy(seed: int, table_seeds: list[int]) -> None:
    tables = [random_table(one, length=3) for one in table_seeds]
    # Division by 1e-46 in float32 was a division by zero: one letter was printed for ever.
    expected = greedy(*tables, max_lengths=[MAX_LENGTH] * len(tables))
    temperatures = [{"temperature": t} for t in (1e-6, 1e-40, 1e-46, 5e-324)]
    for options in (*temperatures, {"top_k": 1}, {"top_p": 1e-9}):
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


def test_the_score_is_the_models_not_that_of_the_draw() -> None:
    """At any temperature "ab." is 0.6 * 0.75."""
    table: Table = {"": {"a": 0.6, ".": 0.4}, "a": {"b": 0.75, ".": 0.25}}
    (found,) = sample(table, temperature=0.01)
    assert texts([found]) == ["ab"]
    assert math.exp(found.log_prob) == pytest.approx(0.45)
    assert found.score == found.log_prob


def test_no_special_token_is_drawn_and_dead_ends_end() -> None:
    """Special tokens score best in these tables; after "b" everything is forbidden."""
    table: Table = {"": {"b": 1.0}, "b": {}}
    (found,) = sample(table, top_p=0.9)
    assert texts([found]) == ["b"]
    assert found.log_prob == pytest.approx(0.0)
