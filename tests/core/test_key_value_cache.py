"""The key/value cache: what it holds, and that attention with it equals attention without."""

import pytest
import torch
from attention_cases import copied
from hypothesis import given, settings
from hypothesis import strategies as st
from parity import assert_near

from core.attention import KeyValueCache, MyMultiheadAttention

both_paths = pytest.mark.parametrize("need_weights", [True, False], ids=["weights", "fused"])
law = settings(max_examples=25, deadline=None, derandomize=True)
seeds = st.integers(0, 2**31 - 1)


@both_paths
@law
@given(seed=seeds, steps=st.lists(st.integers(1, 5), min_size=1, max_size=6))
def test_cached_self_attention_equals_uncached(
    need_weights: bool, seed: int, steps: list[int]
) -> None:
    """Positions fed in chunks of any length, each seeing all those before it."""
    torch.manual_seed(seed)
    module, _ = copied(8, 2)
    x = torch.randn(sum(steps), 3, 8)
    is_future = torch.ones(len(x), len(x), dtype=torch.bool).triu(1)
    expected, _ = module(x, x, x, attn_mask=is_future)
    cache, outputs, start = KeyValueCache(), [], 0
    with torch.no_grad():
        for length in steps:
            end = start + length
            chunk = x[start:end]
            out, _ = module(
                chunk,
                chunk,
                chunk,
                attn_mask=is_future[start:end, :end],
                need_weights=need_weights,
                cache=cache,
            )
            outputs.append(out)
            start = end
            assert len(cache) == end
    assert_near(torch.cat(outputs), expected, 1e-5)


@pytest.mark.parametrize("average", [True, False], ids=["average", "per_head"])
@law
@given(seed=seeds, batch=st.integers(1, 4), beams=st.integers(1, 4), source=st.integers(1, 6))
def test_beams_sharing_a_memory_equal_a_repeated_memory(
    average: bool, seed: int, batch: int, beams: int, source: int
) -> None:
    torch.manual_seed(seed)
    module, _ = copied(8, 2)
    memory, is_pad = torch.randn(source, batch, 8), torch.rand(batch, source) < 0.3
    query = torch.randn(1, batch * beams, 8)
    repeated = memory.repeat_interleave(beams, dim=1)
    is_pad_repeated = is_pad.repeat_interleave(beams, dim=0)
    cache = KeyValueCache(is_static=True)
    expected, expected_weights = module(
        query,
        repeated,
        repeated,
        key_padding_mask=is_pad_repeated,
        average_attn_weights=average,
    )
    for need_weights in (True, False, True):  # the first call fills the cache, the others read it
        out, weights = module(
            query,
            memory,
            memory,
            key_padding_mask=is_pad,
            need_weights=need_weights,
            average_attn_weights=average,
            cache=cache,
        )
        assert len(cache) == source
        assert cache.read()[0].shape == (batch, 2, source, 4)
        assert_near(out, expected, 1e-5)
        if weights is not None:
            assert_near(weights, expected_weights, 1e-5)


def test_a_static_cache_is_read_and_not_computed_again() -> None:
    torch.manual_seed(15)
    module, _ = copied(8, 2)
    cache = KeyValueCache(is_static=True)
    query, memory = torch.randn(1, 3, 8), torch.randn(5, 3, 8)
    first, _ = module(query, memory, memory, cache=cache)
    nothing = torch.full_like(memory, torch.nan)
    again, _ = module(query, nothing, nothing, cache=cache)
    assert_near(again, first, 1e-6)


@pytest.mark.parametrize(("rows", "length"), [(4, 1), (6, 2)], ids=["no_multiple", "two_positions"])
def test_queries_that_cannot_share_a_cache_name_both_sizes(rows: int, length: int) -> None:
    module = MyMultiheadAttention(8, 2)
    memory = torch.randn(5, 3, 8)
    with pytest.raises(ValueError, match=rf"{rows} rows and {length} positions.* cache of 3 rows"):
        module(torch.randn(length, rows, 8), memory, memory, cache=KeyValueCache(is_static=True))


def test_wrong_mask_size_with_a_cache_counts_the_positions_in_it() -> None:
    module, x = MyMultiheadAttention(8, 2), torch.randn(1, 3, 8)
    cache = KeyValueCache()
    for _ in range(4):
        module(x, x, x, cache=cache)
    with pytest.raises(ValueError, match=r"\[3, 5\], not \[3, 1\]"):
        module(x, x, x, key_padding_mask=torch.zeros(3, 1), cache=cache)


def test_cache_holds_what_was_appended_however_much() -> None:
    cache, everything = KeyValueCache(), torch.randn(3, 2, 100, 4)
    start = 0
    for length in (1, 1, 5, 30, 63):
        chunk = everything[:, :, start : start + length]
        cache.append(chunk, -chunk)
        start += length
        keys, values = cache.read()
        assert len(cache) == start
        assert torch.equal(keys, everything[:, :, :start])
        assert torch.equal(values, -everything[:, :, :start])


def test_cache_never_writes_into_what_it_was_given_or_has_handed_out() -> None:
    cache, first = KeyValueCache(), torch.randn(3, 2, 4, 4)
    given = first.clone()
    cache.append(given[:, :, :2], given[:, :, :2])
    handed_out, _ = cache.read()
    before = handed_out.clone()
    cache.append(torch.zeros(3, 2, 1, 4), torch.zeros(3, 2, 1, 4))
    cache.append(torch.ones(3, 2, 1, 4), torch.ones(3, 2, 1, 4))
    assert torch.equal(given, first)
    assert torch.equal(handed_out, before)


@pytest.mark.parametrize("rows", [[2, 0, 0, 1], [1], [0, 1, 2], []], ids=str)
def test_select_keeps_reorders_and_repeats_rows(rows: list[int]) -> None:
    cache = KeyValueCache()
    keys, values = torch.randn(3, 2, 6, 4), torch.randn(3, 2, 6, 4)
    for t in range(6):
        cache.append(keys[:, :, t : t + 1], values[:, :, t : t + 1])
    cache.select(torch.tensor(rows, dtype=torch.long))
    assert len(cache) == 6
    assert torch.equal(cache.read()[0], keys[rows])
    assert torch.equal(cache.read()[1], values[rows])
    more = torch.randn(len(rows), 2, 1, 4)
    cache.append(more, -more)
    assert torch.equal(cache.read()[0], torch.cat([keys[rows], more], dim=2))
    assert torch.equal(cache.read()[1], torch.cat([values[rows], -more], dim=2))


def test_an_empty_cache_can_be_reordered_but_not_read() -> None:
    cache = KeyValueCache()
    cache.select(torch.tensor([1, 0]))
    assert len(cache) == 0
    with pytest.raises(ValueError, match="empty"):
        cache.read()


@pytest.mark.parametrize("shape", [(1, 2, 1, 4), (6, 2, 1, 4), (3, 1, 1, 4), (3, 2, 1, 1)], ids=str)
def test_cache_refuses_rows_of_another_size(shape: tuple[int, ...]) -> None:
    """A single row used to be broadcast to all the rows in the cache, in silence."""
    cache = KeyValueCache()
    cache.append(torch.randn(3, 2, 5, 4), torch.randn(3, 2, 5, 4))
    with pytest.raises(ValueError) as error:
        cache.append(torch.randn(shape), torch.randn(shape))
    assert "[3, 2, 4]" in str(error.value)
    assert str([shape[0], shape[1], shape[3]]) in str(error.value)
    assert len(cache) == 5
