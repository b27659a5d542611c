"""The couplet model: an aligned decoder keeps the laws of the plain one."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from core.config import from_mapping, to_mapping
from core.inference.incremental_model import IncrementalModel
from tasks.couplet.config import CoupletTransformerConfig
from tasks.couplet.model import CoupletModel
from tests.core.decoding.every_search import assert_same, every_search
from tests.core.model.parity import assert_near, shake
from tests.core.small_models import Uncached, column, sizes, together

WORDS, MAX_LEN = 13, 12
BOS, EOS = 2, 3
law = settings(max_examples=12, deadline=None, derandomize=True)


def model_of(seed: int, *, aligned: bool = True, tie_output: bool = True) -> CoupletModel:
    """A small model with random weights and biases everywhere; dropout is on, but in evaluation."""
    torch.manual_seed(seed)
    common = to_mapping(sizes(num_decoder_layers=2, dropout=0.5, max_len=MAX_LEN))
    model = CoupletModel(WORDS, **common, aligned=aligned, tie_output=tie_output).eval()
    shake(model)
    with torch.no_grad():
        if model.alignment is not None:
            model.alignment.linear.weight.normal_()
        model.generator.bias[EOS] += 1.0
    return model


def naive_inputs(model: CoupletModel, src: Tensor, length: int) -> Tensor:
    """What is added to the decoder's input for one first line ``[S, 1]``, row by row."""
    x, states = model.src_embedding(src), model.encode(src).states
    rows = torch.zeros(length, 1, 8)
    for i in range(min(length, len(src))):
        before = x[i - 1] if i > 0 else torch.zeros(1, 8)
        rows[i] = model.alignment.linear(torch.cat([x[i], before, states[i]], dim=1))
    return rows


@pytest.mark.parametrize("length", [1, 4, 7])
def test_the_decoder_reads_the_character_that_it_answers(length: int) -> None:
    """The answer may be longer than the first line: then nothing is added at its end."""
    model = model_of(1)
    src, tgt = column(4, WORDS), column(length, WORDS)
    memory = model.encode(src)
    plain = model_of(1, aligned=False)
    plain.load_state_dict(model.state_dict(), strict=False)
    added = naive_inputs(model, src, length)
    plain.tgt_embedding.register_forward_hook(lambda module, inputs, output: output + added)
    with torch.no_grad():
        expected = plain.decode(tgt, memory._replace(decoder_inputs=None))
        assert_near(model.decode(tgt, memory), expected, 1e-5)


def test_a_fresh_model_is_the_plain_one_until_it_learns() -> None:
    """The linear map is zero at first, and gets a gradient."""
    sizes = {"d_model": 8, "nhead": 2, "dropout": 0.0}
    torch.manual_seed(1)
    plain = CoupletModel(WORDS, **sizes)
    aligned = CoupletModel(WORDS, aligned=True, **sizes)
    aligned.load_state_dict(plain.state_dict(), strict=False)
    src, tgt = column(4, WORDS), column(4, WORDS)
    assert torch.equal(aligned(src, tgt), plain(src, tgt))
    aligned(src, tgt).square().sum().backward()
    assert all(p.grad is not None and p.grad.any() for p in aligned.alignment.parameters())


@law
@given(
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=4),
    extra=st.integers(0, 3),
    seed=st.integers(0, 999),
)
def test_a_line_gives_the_same_alone_and_in_a_padded_batch(
    lengths: list[int], extra: int, seed: int
) -> None:
    model = model_of(seed)
    sources, targets = ([column(n, WORDS) for n in lengths] for _ in range(2))
    with torch.no_grad():
        batch = model(together(sources, extra=extra), together(targets, extra=2))
        for i, (src, tgt) in enumerate(zip(sources, targets, strict=True)):
            assert_near(batch[: len(tgt), i : i + 1], model(src, tgt), 1e-4)


@every_search
@law
@given(seed=st.integers(0, 2**31 - 1), lengths=st.lists(st.integers(1, 6), min_size=1, max_size=5))
def test_every_search_finds_what_it_finds_without_a_cache(  # type: ignore[no-untyped-def]
    search, seed: int, lengths: list[int]
) -> None:
    """Rows move, and answers go on where their first line has ended."""
    model = model_of(seed, tie_output=seed % 2 == 0)
    prepared = IncrementalModel(model)
    src = together([column(n, WORDS) for n in lengths])
    limits = torch.tensor([n + 3 for n in lengths])
    with torch.inference_mode():
        found = search(prepared.step, prepared.start(src), limits)
        assert_same(found, search(Uncached.step, Uncached(model, src), limits))


def test_a_snapshot_keeps_the_alignment_that_it_was_made_with() -> None:
    model = model_of(5)
    prepared, src, tokens = IncrementalModel(model), column(4, WORDS), torch.tensor([BOS])
    before = prepared.step(tokens, prepared.start(src))
    with torch.no_grad():
        model.alignment.linear.weight.mul_(3.0)
    assert torch.equal(prepared.step(tokens, prepared.start(src)), before)
    changed = IncrementalModel(model)
    assert not torch.equal(changed.step(tokens, changed.start(src)), before)


def test_an_output_layer_of_its_own_begins_and_learns_for_itself() -> None:
    tied, untied = model_of(7), model_of(7, tie_output=False)
    assert tied.generator.weight is tied.src_embedding.weight
    assert len([*untied.parameters()]) == len([*tied.parameters()]) + 1
    src, tgt = column(4, WORDS), column(3, WORDS)
    hidden = untied.decode(tgt, untied.encode(src))
    expected = hidden @ untied.generator.weight.t() + untied.generator.bias
    assert_near(untied(src, tgt), expected, 1e-5)
    untied(src, tgt).square().sum().backward()
    absent = [i for i in range(WORDS) if i not in [*src.flatten(), *tgt.flatten()]]
    assert not untied.src_embedding.weight.grad[absent].any()
    assert untied.generator.weight.grad[absent].any()


def test_an_old_configuration_is_tied_and_not_aligned() -> None:
    config = from_mapping(CoupletTransformerConfig, {"d_model": 8, "nhead": 2})
    assert (config.aligned, config.tie_output) == (False, True)
    model = CoupletModel(WORDS, config)
    assert model.alignment is None
    assert model.generator.weight is model.src_embedding.weight
