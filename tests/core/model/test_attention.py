"""Multi-head attention against ``torch.nn``, its sizes and its laws."""

import itertools
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from core.model.attention import MyMultiheadAttention, attend, merge_heads, split_heads
from tests.core.model.attention_cases import Sizes, copied, random_inputs, random_masks
from tests.core.model.parity import assert_near, assert_same_function

SIZES = [  # T, S, B, H, K: pairwise different, so that swapped axes cannot pass
    (7, 5, 3, 2, 4),
    (4, 9, 5, 3, 8),
    (1, 8, 4, 3, 2),
    (6, 1, 2, 4, 5),
]
ATTN_MASKS = [None, "bool", "float", "bool per head", "float per head"]
PADDING_MASKS = [None, "bool", "float"]
both_paths = pytest.mark.parametrize("need_weights", [True, False], ids=["weights", "fused"])
law = settings(max_examples=25, deadline=None, derandomize=True)
seeds = st.integers(0, 2**31 - 1)


@pytest.mark.filterwarnings("ignore:Support for mismatched")  # torch's, on one bool and one float
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no_bias"])
@pytest.mark.parametrize("padding_kind", PADDING_MASKS)
@pytest.mark.parametrize("attn_kind", ATTN_MASKS)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_equal_to_torch_in_outputs_weights_and_gradients(
    sizes: Sizes, attn_kind: str | None, padding_kind: str | None, bias: bool
) -> None:
    torch.manual_seed(1)
    target_length, source_length, batch, heads, head_dim = sizes
    ours, theirs = copied(heads * head_dim, heads, bias=bias)
    inputs = random_inputs(sizes)
    masks = random_masks(attn_kind, padding_kind, sizes)

    for average in (True, False):
        out, weights = ours(*inputs, average_attn_weights=average, **masks)
        out_torch, weights_torch = theirs(*inputs, average_attn_weights=average, **masks)
        shape = (batch, target_length, source_length)
        assert weights.shape == (shape if average else (batch, heads, *shape[1:]))
        both = torch.cat([out.flatten(), weights.flatten()])
        both_torch = torch.cat([out_torch.flatten(), weights_torch.flatten()])
        assert_same_function(ours, theirs, both, both_torch, inputs)

    fused, no_weights = ours(*inputs, need_weights=False, **masks)
    fused_torch, _ = theirs(*inputs, need_weights=False, **masks)
    assert no_weights is None
    assert_near(fused, out, 1e-5)
    assert_same_function(ours, theirs, fused, fused_torch, inputs)


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no_bias"])
@pytest.mark.parametrize("shared", ["query_key_value", "key_value", "query_key", "none"])
def test_equal_to_torch_whichever_inputs_are_one_tensor(shared: str, bias: bool) -> None:
    """Self-attention and cross-attention project in fewer, larger products: same numbers."""
    torch.manual_seed(2)
    length, batch, heads, head_dim = 6, 3, 2, 4
    ours, theirs = copied(heads * head_dim, heads, bias=bias)
    a, b, c = random_inputs((length, length, batch, heads, head_dim))
    inputs = {
        "query_key_value": (a, a, a),
        "key_value": (a, b, b),
        "query_key": (a, a, b),
        "none": (a, b, c),
    }[shared]
    out, _ = ours(*inputs, need_weights=False)
    out_torch, _ = theirs(*inputs, need_weights=False)
    assert_same_function(ours, theirs, out, out_torch, inputs)


def test_fresh_weights_are_drawn_as_torch_draws_them() -> None:
    torch.manual_seed(4)
    ours = MyMultiheadAttention(64, 4)
    bound = (6 / (64 + 3 * 64)) ** 0.5  # Glorot and Bengio (2010), of the stacked matrix
    assert 0.98 * bound < ours.in_proj_weight.abs().max() <= bound
    assert ours.in_proj_bias.eq(0).all()
    assert ours.out_proj.bias.eq(0).all()


@both_paths
def test_dropout_acts_in_training_only_and_on_the_weights(need_weights: bool) -> None:
    torch.manual_seed(14)
    module, _ = copied(8, 2, dropout=0.5)
    plain, _ = copied(8, 2)
    plain.load_state_dict(module.state_dict())
    inputs = random_inputs((7, 5, 3, 2, 4))
    expected, weights = plain(*inputs, average_attn_weights=False)
    in_evaluation, _ = module.eval()(*inputs, need_weights=need_weights)
    assert_near(in_evaluation, expected, 1e-6)

    module.train()
    repeated = (tensor.repeat(1, 4000, 1) for tensor in inputs)
    outputs = module(*repeated, need_weights=need_weights)[0]
    runs = outputs.unflatten(1, (4000, -1)).movedim(1, 0)
    assert not torch.equal(runs[0], runs[1])
    error = runs.std(dim=0) / len(runs) ** 0.5
    assert ((runs.mean(dim=0) - expected).abs() < 6 * error + 1e-6).all()
    if need_weights:
        _, dropped = module(*inputs, average_attn_weights=False)
        is_kept = dropped != 0
        assert_near(dropped[is_kept], 2 * weights[is_kept], 1e-5)
        assert 0.3 < is_kept.float().mean() < 0.7


@pytest.mark.parametrize("p", [-0.1, 1.0, 1.5])
def test_a_dropout_that_is_no_probability_is_refused(p: float) -> None:
    with pytest.raises(ValueError, match=f"not {p}"):
        MyMultiheadAttention(8, 2, dropout=p)


# Wrong sizes


@pytest.mark.parametrize("heads", [5, 0, -2])
def test_heads_must_divide_the_width(heads: int) -> None:
    with pytest.raises(ValueError, match=f"12 is not divisible by num_heads {heads}"):
        MyMultiheadAttention(12, heads)


@pytest.mark.parametrize(
    ("shapes", "named"),
    [
        (([7, 3, 6], [5, 3, 8], [5, 3, 8]), ["query", "D = 8", "[7, 3, 6]"]),
        (([7, 3, 8], [5, 3, 6], [5, 3, 6]), ["key", "D = 8", "[5, 3, 6]"]),
        (([7, 3, 8], [5, 3, 8], [5, 3, 6]), ["value", "D = 8", "[5, 3, 6]"]),
        (([7, 8], [5, 3, 8], [5, 3, 8]), ["query", "D = 8", "[7, 8]"]),
        (([7, 3, 8], [5, 3, 8], [4, 3, 8]), ["[5, 3, 8]", "[4, 3, 8]"]),
        (([7, 3, 8], [5, 3, 8], [5, 1, 8]), ["[5, 3, 8]", "[5, 1, 8]"]),
        (([7, 3, 8], [5, 4, 8], [5, 4, 8]), ["batch 3", "batch 4"]),
        (([7, 3, 8], [5, 1, 8], [5, 1, 8]), ["batch 3", "batch 1"]),
    ],
)
def test_wrong_input_sizes_name_both(shapes: tuple[list[int], ...], named: list[str]) -> None:
    module = MyMultiheadAttention(8, 2)
    with pytest.raises(ValueError) as error:
        module(*(torch.randn(shape) for shape in shapes))
    for part in named:
        assert part in str(error.value)


# Laws


def test_splitting_and_merging_heads_by_hand() -> None:
    x = torch.arange(2 * 3 * 8).view(2, 3, 8)  # [S, B, D]
    heads = split_heads(x, 2)
    assert heads.shape == (3, 2, 2, 4)
    for s, b, h, k in itertools.product(range(2), range(3), range(2), range(4)):
        assert heads[b, h, s, k] == x[s, b, h * 4 + k]
    assert torch.equal(merge_heads(heads), x)


@law
@given(seed=seeds, length=st.integers(2, 9), batch=st.integers(1, 4), heads=st.integers(1, 3))
def test_self_attention_without_masks_follows_any_permutation(
    seed: int, length: int, batch: int, heads: int
) -> None:
    torch.manual_seed(seed)
    module, _ = copied(heads * 4, heads)
    x, order = torch.randn(length, batch, heads * 4), torch.randperm(length)
    shuffled = x[order]
    for need_weights in (True, False):
        out, weights = module(x, x, x, need_weights=need_weights)
        out_shuffled, weights_shuffled = module(*[shuffled] * 3, need_weights=need_weights)
        assert_near(out_shuffled, out[order], 1e-5)
        if weights is not None:
            assert_near(weights_shuffled, weights[:, order][:, :, order], 1e-5)


@law
@given(
    seed=seeds,
    target=st.integers(1, 6),
    source=st.integers(1, 6),
    batch=st.integers(1, 4),
    padding=st.integers(1, 3),
)
def test_padding_and_batch_change_nothing(
    seed: int, target: int, source: int, batch: int, padding: int
) -> None:
    """Neither blocked keys, whatever their values, nor other sentences change an output."""
    torch.manual_seed(seed)
    module, _ = copied(8, 2)
    query, memory = torch.randn(target, batch, 8), torch.randn(source, batch, 8)
    padded = torch.cat([memory, 100 * torch.randn(padding, batch, 8)])
    is_pad = (torch.arange(source + padding) >= source).expand(batch, -1)
    for need_weights in (True, False):
        alone = [
            module(query[:, [b]], memory[:, [b]], memory[:, [b]], need_weights=need_weights)[0]
            for b in range(batch)
        ]
        together, weights = module(
            query, padded, padded, key_padding_mask=is_pad, need_weights=need_weights
        )
        assert_near(together, torch.cat(alone, dim=1), 1e-5)
        if weights is not None:
            assert weights[:, :, source:].eq(0).all()
            assert_near(weights.sum(dim=-1), torch.ones(batch, target), 1e-5)


def test_the_kernel_has_the_causal_mask_itself_unless_there_is_padding(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On GPUs, flash attention runs without a mask alone."""
    torch.manual_seed(1)
    module, x = copied(8, 2)[0], torch.randn(7, 3, 8)
    causal, is_pad = torch.ones(7, 7).triu(1).bool(), torch.rand(3, 7) < 0.3
    kernel, calls = F.scaled_dot_product_attention, []

    def counted(*args: Tensor, **options: Any) -> Tensor:
        calls.append((options["attn_mask"] is not None, options["is_causal"]))
        return kernel(*args, **options)

    monkeypatch.setattr(F, "scaled_dot_product_attention", counted)
    for padding, with_hint in ((None, (False, True)), (is_pad, (True, False))):
        for need_weights in (True, False):
            options = {"attn_mask": causal, "key_padding_mask": padding}
            expected, _ = module(x, x, x, need_weights=need_weights, **options)
            found, _ = module(x, x, x, need_weights=need_weights, is_causal=True, **options)
            assert torch.equal(found, expected)
        assert calls == [(True, False), with_hint]
        calls.clear()
    with pytest.raises(ValueError, match="attn_mask"):
        module(x, x, x, is_causal=True)


def test_second_derivatives_are_right_in_training_and_refused_in_evaluation() -> None:
    torch.manual_seed(15)
    module = MyMultiheadAttention(4, 2, dropout=0.3).double()

    def function(x: Tensor) -> Tensor:
        torch.manual_seed(3)
        return module(x, x, x, need_weights=False)[0]

    x = torch.randn(3, 1, 4).double().requires_grad_()
    assert torch.autograd.gradgradcheck(function, x)
    module.eval()
    (gradient,) = torch.autograd.grad(function(x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="not implemented"):
        gradient.sum().backward()


@law
@given(seed=seeds, queries=st.integers(1, 5), keys=st.integers(1, 5))
def test_equation_1_entry_by_entry(seed: int, queries: int, keys: int) -> None:
    """softmax(q k / sqrt(K)) v with Python's own arithmetic."""
    generator = torch.Generator().manual_seed(seed)
    q, k, v = (
        torch.randn(n, 3, generator=generator, dtype=torch.float64) for n in (queries, keys, keys)
    )
    out = attend(q[None, None], k[None, None], v[None, None])[0][0, 0]
    for t in range(queries):
        scores = [sum(float(q[t, d] * k[s, d]) for d in range(3)) / 3**0.5 for s in range(keys)]
        powers = [2.718281828459045**score for score in scores]
        for d in range(3):
            by_hand = sum(p * float(v[s, d]) for s, p in enumerate(powers)) / sum(powers)
            assert float(out[t, d]) == pytest.approx(by_hand, abs=1e-9)
