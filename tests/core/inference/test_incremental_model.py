"""An ``IncrementalModel`` is a snapshot: it decodes as the model did when the snapshot was made."""

import copy
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from core.inference.incremental_model import IncrementalModel, greedy_decode
from core.model.config import POSITIONS
from core.model.sequence_to_sequence import SequenceToSequence
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

law = settings(max_examples=12, deadline=None, derandomize=True)
SRC = torch.tensor([[5, 6], [7, 1], [8, 1]])
TGT = torch.tensor([[4, 5], [6, 7], [12, 4]])


def stepped(prepared: IncrementalModel) -> Tensor:
    state = prepared.start(SRC)
    return torch.stack([prepared.step(tokens, state) for tokens in TGT])


def load_others(model: SequenceToSequence) -> None:
    model.load_state_dict(model_of(2).state_dict())


def write_through_numpy(model: SequenceToSequence) -> None:
    for parameter in model.parameters():
        parameter.detach().numpy()[...] *= 1.5


def write_norms(model: SequenceToSequence) -> None:
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            module.weight.mul_(-2.0)


def change_eps(model: SequenceToSequence) -> None:
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            module.eps = 1.0


def change_activation(model: SequenceToSequence) -> None:
    for layer in [*model.transformer.encoder.layers, *model.transformer.decoder.layers]:
        layer.activation = torch.tanh


def write_embeddings(model: SequenceToSequence) -> None:
    model.src_embedding.weight.add_(1.0)
    model.positional_encoding.table.add_(1.0)


def exchange_a_module(model: SequenceToSequence) -> None:
    model.generator = nn.Linear(8, TGT_WORDS)


def to_double(model: SequenceToSequence) -> None:
    model.double()


def optimize(model: SequenceToSequence) -> None:
    """A fused optimizer does not count up the versions of the weights."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, fused=True)
    with torch.enable_grad():
        model(SRC, SRC).square().sum().backward()
    optimizer.step()


@pytest.mark.parametrize(
    "change",
    [
        load_others,
        write_through_numpy,
        write_norms,
        change_eps,
        change_activation,
        write_embeddings,
        exchange_a_module,
        to_double,
        optimize,
    ],
)
def test_a_snapshot_stays_what_it_was_and_a_new_one_sees_every_change(
    change: Callable[[SequenceToSequence], None],
) -> None:
    """The model used to guess from addresses and versions whether its weights had changed.

    ``p.data.mul_(1.5)``, a change through ``.numpy()`` and another ``norm.eps`` or activation went
    unnoticed, and a search mixed new norms and embeddings with old weights.
    """
    model = model_of(1)
    prepared = IncrementalModel(model)
    before = stepped(prepared)
    assert_near(before, model(SRC, TGT).detach(), 1e-4)
    with torch.no_grad():
        change(model)
        whole = model(SRC, TGT)
    assert torch.equal(stepped(prepared), before)
    after = stepped(IncrementalModel(model))
    assert_near(after, whole, 1e-4)
    assert not torch.equal(after.double(), before.double())


def test_a_snapshot_leaves_nothing_in_the_model() -> None:
    """Copies and checkpoints of a model that has decoded are those of one that has not."""
    model = model_of(1)
    attributes = set(vars(model))
    stepped(IncrementalModel(model))
    assert set(vars(model)) == attributes
    assert copy.deepcopy(model).state_dict().keys() == model_of(1).state_dict().keys()


def test_a_model_made_in_inference_mode_decodes() -> None:
    with torch.inference_mode():
        model = model_of(1)
        assert_near(stepped(IncrementalModel(model)), model(SRC, TGT), 1e-4)


def test_dropout_is_never_applied() -> None:
    model = model_of(1)
    expected = stepped(IncrementalModel(model))
    assert torch.equal(stepped(IncrementalModel(model.train())), expected)


def test_decoding_outside_inference_mode_carries_no_gradient() -> None:
    assert not stepped(IncrementalModel(model_of(1))).requires_grad


def test_a_search_under_autocast_is_the_search_without() -> None:
    """The packed kernels were given bfloat16 inputs with float32 weights, which they refuse."""
    expected = greedy_decode(model_of(1), SRC)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert greedy_decode(model_of(1), SRC) == expected


def test_more_steps_than_positions_are_refused() -> None:
    prepared = IncrementalModel(model_of(1, max_len=3))
    state = prepared.start(SRC)
    for tokens in TGT:
        prepared.step(tokens, state)
    with pytest.raises(ValueError, match=r"position 4 is beyond .* 3"):
        prepared.step(TGT[0], state)
    with pytest.raises(ValueError, match=r"position 4 is beyond .* 3"):
        prepared.start(torch.full((4, 2), 5))


@every_search
@law
@given(
    seed=st.integers(0, 2**31 - 1),
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=5),
    norm_first=st.booleans(),
    positions=st.sampled_from(POSITIONS),
)
def test_every_search_finds_what_it_finds_without_a_cache(  # type: ignore[no-untyped-def]
    search, seed: int, lengths: list[int], norm_first: bool, positions: str
) -> None:
    """Rows move, beams share their pasts, and sentences leave in any order."""
    model = chatty(seed, norm_first, positions)
    prepared = IncrementalModel(model)
    src = together([column(n, SRC_WORDS) for n in lengths])
    limits = torch.tensor([n + 4 for n in lengths])
    with torch.no_grad():
        found = search(prepared.step, prepared.start(src), limits)
        assert_same(found, search(Uncached.step, Uncached(model, src), limits))
