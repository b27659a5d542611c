"""Decoding uses packed copies of the weights: they are made anew whenever these may have changed,
and never otherwise; and no search finds anything else by them than without."""

import copy
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from tests.core.decoding.every_search import assert_same, every_search
from tests.core.model.parity import assert_near
from tests.core.small_models import (
    SRC_WORDS,
    TGT_WORDS,
    Uncached,
    chatty,
    column,
    model_of,
    together,
)
from transformer_suite.core.inference.packed_linear import Int8Linear, PackedLinear
from transformer_suite.core.model.sequence_to_sequence import SequenceToSequence

law = settings(max_examples=12, deadline=None, derandomize=True)
SRC = torch.tensor([[5, 6], [7, 1], [8, 1]])


def frozen(seed: int = 1) -> SequenceToSequence:
    return model_of(seed).requires_grad_(False)


def assert_decodes_as_it_is(model: SequenceToSequence, atol: float = 1e-4) -> None:
    tgt = torch.randint(4, TGT_WORDS, (3, 2))
    with torch.no_grad():
        state, whole = model.start(SRC), model(SRC, tgt)
        for tokens, expected in zip(tgt, whole, strict=True):
            assert_near(model.step(tokens, state), expected, atol)


def test_frozen_weights_are_packed_once() -> None:
    model = frozen()
    first = model.start(SRC).packed
    assert model.start(SRC).packed is first
    model.eval()(SRC, SRC)
    assert model.start(SRC).packed is first
    assert_decodes_as_it_is(model)


def test_weights_that_learn_are_packed_every_time_and_kept_by_none() -> None:
    model = model_of(1)
    assert model.start(SRC).packed is not model.start(SRC).packed
    assert model._frozen is None


@pytest.mark.parametrize("is_fused", [True, False])
def test_after_a_step_of_the_optimizer(is_fused: bool) -> None:
    """The fused one does not count up the weights' versions."""
    model = model_of(1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, fused=is_fused)
    before = model.step(torch.tensor([4, 5]), model.start(SRC))
    for _ in range(2):
        model(SRC, SRC).square().sum().backward()
        optimizer.step()
        assert_decodes_as_it_is(model)
    after = model.step(torch.tensor([4, 5]), model.start(SRC))
    assert (after - before).abs().max() > 0.1


def test_a_frozen_model_that_learns_again() -> None:
    model = frozen()
    assert_decodes_as_it_is(model)
    model.requires_grad_(True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, fused=True)
    model(SRC, SRC).square().sum().backward()
    optimizer.step()
    assert_decodes_as_it_is(model)
    model.requires_grad_(False)
    assert_decodes_as_it_is(model)


def load_others(model: SequenceToSequence) -> None:
    model.load_state_dict(model_of(2).state_dict())


def assign_others(model: SequenceToSequence) -> None:
    model.load_state_dict(model_of(2).state_dict(), assign=True)


def write_one_number(model: SequenceToSequence) -> None:
    model.transformer.decoder.layers[1].linear1.bias[3] += 5.0


def exchange_a_part(model: SequenceToSequence) -> None:
    model.generator = nn.Linear(8, TGT_WORDS).requires_grad_(False)


def to_double(model: SequenceToSequence) -> None:
    model.double()


def round_off(model: SequenceToSequence) -> None:
    """And back: the same type as before, other numbers."""
    model.bfloat16().float()


changes = pytest.mark.parametrize(
    "change",
    [load_others, assign_others, write_one_number, exchange_a_part, to_double, round_off],
)


@changes
@pytest.mark.parametrize("make", [frozen, model_of], ids=["frozen", "learns"])
def test_weights_that_have_changed_are_packed_anew(
    change: Callable[[SequenceToSequence], None], make: Callable[[int], SequenceToSequence]
) -> None:
    model = make(1)
    assert_decodes_as_it_is(model)
    before = model.step(torch.tensor([4, 5]), model.start(SRC))
    with torch.no_grad():
        change(model)
    assert_decodes_as_it_is(model, 1e-5)
    after = model.step(torch.tensor([4, 5]), model.start(SRC))
    assert not torch.equal(after.double(), before.double())


def test_layers_of_another_kind_are_packed_anew() -> None:
    model = frozen()
    first = model.start(SRC).packed
    model.linear = Int8Linear
    rounded = model.start(SRC).packed
    assert rounded is not first
    assert isinstance(rounded.generator, Int8Linear)
    assert model.start(SRC).packed is rounded
    model.linear = PackedLinear
    assert_decodes_as_it_is(model)


def test_what_has_begun_goes_on_with_the_weights_it_began_with() -> None:
    """But for the norms and the embeddings: those are no copies."""
    model = frozen()
    model.generator.weight = nn.Parameter(model.generator.weight.clone(), requires_grad=False)
    state, other = model.start(SRC), model.start(SRC)
    tokens = torch.tensor([4, 5])
    expected = model.step(tokens, other)
    for linear in [m for m in model.modules() if isinstance(m, nn.Linear)]:
        linear.weight.zero_()
        linear.bias.zero_()
    assert torch.equal(model.step(tokens, state), expected)


@pytest.mark.parametrize("make", [frozen, model_of], ids=["frozen", "learns"])
def test_a_model_that_has_decoded_can_be_copied(make: Callable[[int], SequenceToSequence]) -> None:
    model = make(1)
    assert_decodes_as_it_is(model)
    twin = copy.deepcopy(model)
    assert_decodes_as_it_is(twin)
    tokens = torch.tensor([4, 5])
    expected = model.step(tokens, model.start(SRC))
    assert torch.equal(twin.step(tokens, twin.start(SRC)), expected)
    load_others(twin)
    assert_decodes_as_it_is(twin)
    assert torch.equal(model.step(tokens, model.start(SRC)), expected)
    assert model.state_dict().keys() == twin.state_dict().keys() == model_of(1).state_dict().keys()


@pytest.mark.parametrize("is_frozen", [True, False])
def test_a_model_made_in_inference_mode_decodes(is_frozen: bool) -> None:
    """Its weights have no versions, so that nobody knows when they change."""
    with torch.inference_mode():
        model = model_of(1).requires_grad_(not is_frozen)
        assert_decodes_as_it_is(model)
        load_others(model)
        assert_decodes_as_it_is(model)


def test_decoding_outside_inference_mode_carries_no_gradient() -> None:
    model = model_of(1)
    logits = model.step(torch.tensor([4, 5]), model.start(SRC))
    assert not logits.requires_grad


@every_search
@law
@given(
    seed=st.integers(0, 2**31 - 1),
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=5),
    norm_first=st.booleans(),
    is_frozen=st.booleans(),
)
def test_every_search_finds_what_it_finds_without_a_cache(  # type: ignore[no-untyped-def]
    search, seed: int, lengths: list[int], norm_first: bool, is_frozen: bool
) -> None:
    """Rows move, beams share their pasts, and sentences leave in any order."""
    model = chatty(seed, norm_first).requires_grad_(not is_frozen)
    src = together([column(n, SRC_WORDS) for n in lengths])
    limits = torch.tensor([n + 4 for n in lengths])
    with torch.no_grad():
        found = search(model.step, model.start(src), limits)
        assert_same(found, search(Uncached.step, Uncached(model, src), limits))
