"""The key/value cache: its contents, and that cached attention equals uncached attention."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from core.inference.incremental_model import IncrementalModel
from core.inference.key_value_cache import KeyValueCache, Lineage
from core.inference.packed_transformer import attend_cached
from core.model.attention import MyMultiheadAttention, merge_heads, split_heads
from tests.core.model.attention_cases import copied
from tests.core.model.parity import INF, assert_near, random_mask
from tests.core.small_models import SRC_WORDS, TGT_WORDS, column, model_of, together

law = settings(max_examples=25, deadline=None, derandomize=True)
seeds = st.integers(0, 2**31 - 1)


def projected(module: MyMultiheadAttention, query: Tensor, memory: Tensor) -> list[Tensor]:
    """Queries, keys and values ``[B, H, length, K]``."""
    weights, biases = module.in_proj_weight.chunk(3), module.in_proj_bias.chunk(3)
    inputs = zip((query, memory, memory), weights, biases, strict=True)
    return [split_heads(F.linear(*one), module.num_heads) for one in inputs]


def as_added(is_blocked: Tensor) -> Tensor:
    return torch.zeros(is_blocked.shape).masked_fill(is_blocked, -INF)


@law
@given(seed=seeds, batch=st.integers(1, 4), beams=st.integers(1, 4), source=st.integers(1, 6))
def test_beams_sharing_a_memory_equal_a_repeated_memory(
    seed: int, batch: int, beams: int, source: int
) -> None:
    torch.manual_seed(seed)
    module, _ = copied(8, 2)
    memory = torch.randn(source, batch, 8)
    is_pad = random_mask("bool", batch, source)
    query = torch.randn(1, batch * beams, 8)
    repeated = memory.repeat_interleave(beams, dim=1)
    expected, _ = module(
        query, repeated, repeated, key_padding_mask=is_pad.repeat_interleave(beams, dim=0)
    )
    with torch.no_grad():
        q, k, v = projected(module, query, memory)
        cache = KeyValueCache(torch.stack([k, v]))
        of_beams = merge_heads(q).view(batch, beams, 2, 4).transpose(1, 2)
        for _ in range(2):  # reading changes nothing
            heads = attend_cached(of_beams, cache, as_added(is_pad)[:, None, None])
            assert_near(module.out_proj(heads), expected[0], 1e-5)
            assert cache.read()[0].shape == (batch, 2, source, 4)


# The contents of the cache


def test_the_cache_stores_what_was_appended_at_any_length() -> None:
    everything = torch.randn(3, 2, 100, 4)
    cache = KeyValueCache(torch.empty(2, 3, 2, 0, 4))
    start = 0
    for length in (1, 1, 5, 30, 63):
        chunk = everything[:, :, start : start + length]
        cache.append(torch.stack([chunk, -chunk]))
        start += length
        keys, values = cache.read()
        assert len(cache) == start
        assert torch.equal(keys, everything[:, :, :start])
        assert torch.equal(values, -everything[:, :, :start])


def test_the_cache_never_overwrites_its_inputs_or_outputs() -> None:
    first = torch.randn(2, 3, 2, 4, 4)
    given = first.clone()
    cache = KeyValueCache(given[:, :, :, :2])
    handed_out, _ = cache.read()
    before = handed_out.clone()
    cache.append(torch.zeros(2, 3, 2, 1, 4))
    cache.append(torch.ones(2, 3, 2, 1, 4))
    assert torch.equal(given, first)
    assert torch.equal(handed_out, before)
    cache.keep(2, torch.tensor([0]), torch.tensor([2]))
    assert torch.equal(given, first)


@pytest.mark.parametrize(
    "sentences", [[2, 0, 1], [2, 0], [2, 1], [1, 1, 0], [1], [0, 1, 2], [0, 1], []], ids=str
)
def test_keep_drops_and_moves_sentences(sentences: list[int]) -> None:
    both = torch.randn(2, 3, 2, 20, 4)
    keys, values = both
    cache = KeyValueCache(both[:, :, :, :6])
    moved = [place for place, sentence in enumerate(sentences) if place != sentence]
    sources = [sentences[place] for place in moved]
    cache.keep(len(sentences), torch.tensor(moved).long(), torch.tensor(sources).long())
    assert (len(cache), cache.sentences) == (6, len(sentences))
    assert torch.equal(cache.read()[0], keys[sentences][:, :, :6])
    assert torch.equal(cache.read()[1], values[sentences][:, :, :6])
    # It continues, beyond its first capacity too.
    cache.append(both[:, sentences][:, :, :, 6:])
    assert torch.equal(cache.read()[0], keys[sentences])
    assert torch.equal(cache.read()[1], values[sentences])


# The positions that a beam descends from


def test_lineage_by_hand() -> None:
    """One sentence: a shared position, two beams of it, then the second beam twice."""
    lineage = Lineage(torch.zeros(()))
    lineage.append()
    assert lineage.mask() is None
    lineage.select(torch.tensor([0, 0]), 1)
    lineage.append()
    mask = lineage.mask()
    assert mask is not None
    assert mask.tolist() == [[[[0, 0, -INF], [0, -INF, 0]]]]
    lineage.select(torch.tensor([1, 1]), 1)
    lineage.append()
    mask = lineage.mask()
    assert mask is not None
    assert mask.tolist() == [[[[0, -INF, 0, 0, -INF], [0, -INF, 0, -INF, 0]]]]


def test_beams_before_the_first_position() -> None:
    """Diverse beam search begins with several beams, which share no position."""
    lineage = Lineage(torch.zeros(()))
    lineage.select(torch.tensor([0, 0, 1, 1]), 2)
    lineage.append()
    mask = lineage.mask()
    assert mask is not None
    assert mask.tolist() == [[[[0, -INF], [-INF, 0]]]] * 2


@law
@given(seed=seeds, data=st.data())
def test_lineage_is_the_list_of_positions_of_each_row(seed: int, data: st.DataObject) -> None:
    """Compared with rows that keep a list of their own positions."""
    sentences, lineage = data.draw(st.integers(1, 4)), Lineage(torch.zeros((), dtype=torch.float64))
    rows: list[list[int]] = [[] for _ in range(sentences)]
    beams = length = 0
    for _ in range(6):
        beams = len(rows) // sentences
        assert lineage.beams == beams
        lineage.append()
        rows = [[*row, length + r % beams] for r, row in enumerate(rows)]
        length += beams
        mask = lineage.mask()
        if mask is None:
            assert all(row == list(range(length)) for row in rows)
        else:
            assert mask.dtype == torch.float64
            assert mask.shape == (sentences, 1, beams, length)
            seen = [row.eq(0).nonzero().flatten().tolist() for row in mask.flatten(0, 2)]
            assert seen == rows
            assert mask.unique().tolist() in ([0.0], [-INF, 0.0])
        stay = data.draw(st.permutations(range(sentences)).flatmap(_beginnings))
        width = data.draw(st.integers(1, 3))
        chosen = [
            b * beams + data.draw(st.integers(0, beams - 1)) for b in stay for _ in range(width)
        ]
        lineage.select(torch.tensor(chosen), len(stay))
        rows, sentences = [rows[row] for row in chosen], len(stay)


def _beginnings(order: list[int]) -> st.SearchStrategy[list[int]]:
    return st.integers(1, len(order)).map(lambda count: order[:count])


@pytest.mark.parametrize(("rows", "sentences"), [(4, 3), (1, 2), (2, 0)])
def test_rows_that_are_no_multiple_of_the_sentences_are_refused(rows: int, sentences: int) -> None:
    with pytest.raises(ValueError, match=rf"{rows} rows .* {sentences} sentences"):
        Lineage(torch.zeros(())).select(torch.zeros(rows, dtype=torch.long), sentences)


@pytest.mark.parametrize("tokens", [1, 4, 6, 9])
@pytest.mark.parametrize("beams", [1, 2])
def test_another_number_of_tokens_than_rows_is_refused(tokens: int, beams: int) -> None:
    """Twice as many tokens would silently be taken for beams that attend to each other."""
    if tokens == 3 * beams:
        return
    model = IncrementalModel(model_of(1))
    src = together([column(4, SRC_WORDS), column(2, SRC_WORDS), column(5, SRC_WORDS)])
    state = model.start(src)
    model.step(torch.full((3,), 4), state)
    state.select(torch.arange(3).repeat_interleave(beams))
    with pytest.raises(ValueError, match=rf"{tokens} tokens for a state of {3 * beams} rows"):
        model.step(torch.randint(4, TGT_WORDS, (tokens,)), state)
    assert state.length == 1
