"""The whole model over ids: its laws, its masks, its weights, and the searches over it."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from core.decoding.beam_search import beam_search
from core.decoding.greedy_search import greedy_search
from core.decoding.search import Hypothesis
from core.inference.incremental_model import IncrementalModel, greedy_decode
from core.model.config import TransformerConfig
from core.model.sequence_to_sequence import SequenceToSequence
from tests.core.decoding.every_search import assert_same
from tests.core.model.parity import assert_near
from tests.core.small_models import (
    BOS,
    EOS,
    MAX_LEN,
    PAD,
    SRC_WORDS,
    TGT_WORDS,
    UNK,
    chatty,
    column,
    model_of,
    sizes,
    together,
)

law = settings(max_examples=12, deadline=None, derandomize=True)
seeds = st.integers(0, 2**31 - 1)
orders = st.booleans()  # norm_first
source_lengths = st.lists(st.integers(1, 6), min_size=2, max_size=4)

# Forward


@law
@given(
    seed=seeds,
    lengths=st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6)), min_size=1, max_size=4),
    extra=st.integers(0, 3),
    norm_first=orders,
)
def test_a_pair_has_the_same_logits_alone_and_padded_in_any_batch(
    seed: int, lengths: list[tuple[int, int]], extra: int, norm_first: bool
) -> None:
    model = model_of(seed, norm_first)
    sources = [column(s, SRC_WORDS) for s, _ in lengths]
    targets = [column(t, TGT_WORDS) for _, t in lengths]
    logits = model(together(sources, extra=extra), together(targets, extra=extra))
    for b, (src, tgt) in enumerate(zip(sources, targets, strict=True)):
        assert_near(logits[: len(tgt), [b]], model(src, tgt), 1e-4)


@law
@given(seed=seeds, norm_first=orders, t=st.integers(1, 5))
def test_the_target_at_t_changes_nothing_before_it(seed: int, norm_first: bool, t: int) -> None:
    model = model_of(seed, norm_first)
    src, tgt = torch.randint(4, SRC_WORDS, (5, 3)), torch.randint(4, TGT_WORDS, (6, 3))
    changed = tgt.clone()
    changed[t] = 4 + (tgt[t] - 4 + 1) % (TGT_WORDS - 4)
    before, after = model(src, tgt), model(src, changed)
    assert_near(after[:t], before[:t], 1e-5)
    assert (after[t] - before[t]).abs().amax(dim=-1).gt(1e-3).all()


def test_every_source_word_reaches_every_target_position() -> None:
    model = model_of(1)
    src, tgt = torch.randint(4, SRC_WORDS, (5, 3)), torch.randint(4, TGT_WORDS, (6, 3))
    before = model(src, tgt)
    for s in range(5):
        changed = src.clone()
        changed[s] = 4 + (src[s] - 4 + 1) % (SRC_WORDS - 4)
        assert (model(changed, tgt) - before).abs().amax(dim=-1).gt(1e-5).all()


def test_the_memory_knows_its_padding() -> None:
    src = together([column(3, SRC_WORDS), column(5, SRC_WORDS)])
    memory = model_of(1).encode(src)
    assert memory.states.shape == (5, 2, 8)
    assert memory.is_pad.tolist() == [[False, False, False, True, True], [False] * 5]


@pytest.mark.parametrize("length", [MAX_LEN, MAX_LEN + 1])
def test_what_is_too_long_is_refused_by_its_length(length: int) -> None:
    model, short = model_of(1), column(3, SRC_WORDS)
    long = column(length, SRC_WORDS)
    if length <= MAX_LEN:
        assert model(long, long).shape == (length, 1, TGT_WORDS)
        return
    for src, tgt in [(long, short), (short, long)]:
        with pytest.raises(ValueError, match=rf"{length} .* {MAX_LEN}"):
            model(src, tgt)


# Weights


@pytest.mark.parametrize(
    ("share_embeddings", "tie_output", "tables"),
    [(True, True, 1), (True, False, 2), (False, True, 2), (False, False, 3)],
)
def test_shared_tables_are_one_parameter(
    share_embeddings: bool, tie_output: bool, tables: int
) -> None:
    words = 10
    model = SequenceToSequence(
        words, words, sizes(), share_embeddings=share_embeddings, tie_output=tie_output
    )
    of_words = [p for p in model.parameters() if p.shape == (words, 8)]
    assert len(of_words) == tables
    assert (model.src_embedding.weight is model.tgt_embedding.weight) == share_embeddings
    assert (model.generator.weight is model.tgt_embedding.weight) == tie_output


def test_sharing_holds_in_training() -> None:
    """After a step of the optimizer, and after the model has moved to another precision."""
    model = SequenceToSequence(10, 10, sizes(), share_embeddings=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    ids = torch.randint(4, 10, (5, 3))
    model(ids, ids).square().sum().backward()
    optimizer.step()
    model.double()
    table = model.src_embedding.weight
    assert torch.equal(table, model.generator.weight)
    assert table.data_ptr() == model.tgt_embedding.weight.data_ptr()
    assert table.data_ptr() == model.generator.weight.data_ptr()


def test_one_table_for_two_vocabularies_is_refused() -> None:
    with pytest.raises(ValueError, match="not 10 and 12: write share_embeddings=False"):
        SequenceToSequence(10, 12, sizes(), share_embeddings=True)


def test_the_configuration_decides_the_sizes() -> None:
    config = TransformerConfig(
        d_model=12,
        nhead=3,
        num_encoder_layers=1,
        num_decoder_layers=2,
        dim_feedforward=17,
        activation="gelu",
        max_len=9,
        norm_first=False,
        dropout=0.25,
    )
    model = SequenceToSequence(10, 11, config, share_embeddings=False)
    encoder, decoder = model.transformer.encoder, model.transformer.decoder
    assert (len(encoder.layers), len(decoder.layers)) == (1, 2)
    assert model.positional_encoding.table.shape == (9, 1, 12)
    for layer in [*encoder.layers, *decoder.layers]:
        assert layer.self_attn.num_heads == 3
        assert layer.linear1.weight.shape == (17, 12)
        assert layer.activation is torch.nn.functional.gelu
        assert not layer.norm_first
    drops = [m.p for m in model.modules() if type(m).__name__ == "Dropout"]
    assert set(drops) == {0.25}
    assert model(column(4, 10), column(3, 11)).shape == (3, 1, 11)


# Step by step


@law
@given(seed=seeds, norm_first=orders, data=st.data())
def test_selected_rows_go_on_as_their_histories(
    seed: int, norm_first: bool, data: st.DataObject
) -> None:
    """As in a beam search: one row a sentence, then three; then sentences leave and rows move."""
    model = model_of(seed, norm_first)
    src = together([column(n, SRC_WORDS) for n in (4, 2, 6, 3)])
    stay = sorted(data.draw(st.sets(st.integers(0, 3), min_size=1)))
    tgt = torch.randint(4, TGT_WORDS, (2, 4))
    with torch.inference_mode():
        stepwise = IncrementalModel(model)
        state = stepwise.start(src)
        for tokens in tgt:
            stepwise.step(tokens, state)
        state.select(torch.arange(4).repeat_interleave(3))
        tgt = torch.cat([tgt.repeat_interleave(3, dim=1), torch.randint(4, TGT_WORDS, (1, 12))])
        stepwise.step(tgt[-1], state)
        # Of each sentence that stays, three of its own rows in any order, some of them twice.
        rows = torch.tensor([3 * b + data.draw(st.integers(0, 2)) for b in stay for _ in range(3)])
        state.select(rows, torch.tensor(stay))
        tgt = torch.cat([tgt[:, rows], torch.randint(4, TGT_WORDS, (1, len(rows)))])
        stepped = stepwise.step(tgt[-1], state)
        whole = model(src[:, stay].repeat_interleave(3, dim=1), tgt)
    assert_near(stepped, whole[-1], 1e-4)


# Searches over a real model


def search(model: SequenceToSequence, src: Tensor, beam_size: int) -> list[list[Hypothesis]]:
    """Beam search, or greedy search for no beams, with limits that differ between sentences."""
    lengths = (src != PAD).sum(dim=0)
    options = {"max_lengths": torch.clamp(lengths + 3, max=MAX_LEN - 1)}
    prepared = IncrementalModel(model)
    state = prepared.start(src)
    if beam_size == 0:
        return [[one] for one in greedy_search(prepared.step, state, **options)]
    return beam_search(prepared.step, state, beam_size=beam_size, length_penalty=0.6, **options)


@pytest.mark.parametrize("beam_size", [0, 1, 3])
@law
@given(seed=seeds, lengths=source_lengths, norm_first=orders, data=st.data())
def test_a_sentence_is_answered_the_same_in_any_batch_and_order(
    beam_size: int, seed: int, lengths: list[int], norm_first: bool, data: st.DataObject
) -> None:
    model = chatty(seed, norm_first)
    sources = [column(n, SRC_WORDS) for n in lengths]
    order = data.draw(st.permutations(range(len(lengths))))
    with torch.inference_mode():
        alone = [search(model, src, beam_size)[0] for src in sources]
        assert_same(search(model, together(sources, extra=2), beam_size), alone)
        shuffled = search(model, together([sources[i] for i in order]), beam_size)
        assert_same(shuffled, [alone[i] for i in order])


def test_the_random_models_have_something_to_say() -> None:
    """The laws above are about outputs of different lengths, some ended and some at their limit."""
    torch.manual_seed(1)
    src = together([column(n, SRC_WORDS) for n in (4, 2, 6, 3)])
    with torch.inference_mode():
        found = [ranked[0] for seed in range(8) for ranked in search(chatty(seed, True), src, 0)]
    lengths = [len(one.tokens) for one in found]
    limits = [7, 5, 9, 6] * 8
    at_limit = sum(length == limit for length, limit in zip(lengths, limits, strict=True))
    assert 4 <= at_limit <= 28
    assert len(set(lengths)) >= 4
    assert len({tuple(one.tokens) for one in found}) >= 16
    assert not {UNK, PAD, BOS, EOS} & {token for one in found for token in one.tokens}


def test_greedy_decode_is_greedy_search() -> None:
    model = chatty(3, True)
    src = together([column(n, SRC_WORDS) for n in (4, 1, 6)])
    with torch.inference_mode():
        limits = torch.tensor([5, 0, 3])
        prepared = IncrementalModel(model)
        found = greedy_search(prepared.step, prepared.start(src), max_lengths=limits)
    assert greedy_decode(model, src, max_lengths=limits) == [one.tokens for one in found]


@pytest.mark.parametrize(
    ("asked", "max_len", "expected"),
    [(None, 40, [14, 22]), (None, MAX_LEN, [11, 11]), ([100, 3], MAX_LEN, [11, 3])],
)
def test_greedy_decode_stops_a_model_that_never_ends(
    asked: list[int] | None, max_len: int, expected: list[int]
) -> None:
    """At the requested length, else at 2 S + 10, and never beyond the last position."""
    model = model_of(1, max_len=max_len)
    with torch.no_grad():
        model.generator.bias[EOS] = -1e4
    src = together([column(2, SRC_WORDS), column(6, SRC_WORDS)])
    limits = None if asked is None else torch.tensor(asked)
    assert [len(ids) for ids in greedy_decode(model, src, max_lengths=limits)] == expected
