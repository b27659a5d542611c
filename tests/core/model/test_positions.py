"""Positions inside self-attention: each equals a reference, and depends on distances only."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from core.errors import ConfigError
from core.inference.attention_maps import attention_weights
from core.model.attention import MyMultiheadAttention, split_heads
from core.model.config import POSITIONS, EncoderConfig
from core.model.embedding import PositionalEncoding
from core.model.masks import generate_square_subsequent_mask
from core.model.positions import (
    SHAW_DISTANCE,
    RotaryPositions,
    relative_positions,
    t5_buckets,
)
from core.model.transformer import MyTransformer
from tests.core.model.parity import assert_near, shake
from tests.core.small_models import PAD, SRC_WORDS, TGT_WORDS, column, model_of, together

law = settings(max_examples=15, deadline=None, derandomize=True)
seeds = st.integers(0, 2**31 - 1)
RELATIVE = ("rotary", "shaw", "t5")
every_kind = pytest.mark.parametrize("kind", POSITIONS)
relative = pytest.mark.parametrize("kind", RELATIVE)
# A sentence that is longer than the distance at which Shaw's vectors end.
T, S, B, H, K = 23, 21, 2, 3, 4


def attention(kind: str, *, is_causal: bool = False) -> MyMultiheadAttention:
    torch.manual_seed(1)
    positions = relative_positions(kind, K, H, is_causal=is_causal)
    module = MyMultiheadAttention(H * K, H, positions=positions).double().eval()
    shake(module)
    return module


def heads(module: MyMultiheadAttention, *inputs: Tensor) -> list[Tensor]:
    """Projected queries, keys and values, ``[B, H, length, K]``."""
    return [split_heads(x, H) for x in module._project(*inputs)]


def by_loops(
    module: MyMultiheadAttention, inputs: list[Tensor], allowed: Tensor, kind: str
) -> tuple[Tensor, Tensor]:
    """Output and weights of every query, key by key."""
    q, k, v = heads(module, *inputs)
    scores = torch.full((B, H, len(inputs[0]), len(inputs[1])), -torch.inf, dtype=torch.float64)
    for t in range(scores.shape[2]):
        for s in range(scores.shape[3]):
            if allowed[t, s]:
                scores[:, :, t, s] = score(module, q[:, :, t], k[:, :, s], t, s, kind)
    weights = scores.softmax(dim=-1)
    out = torch.einsum("bhts,bhsk->tbhk", weights, v).flatten(2)
    return module.out_proj(out), weights


def score(module: MyMultiheadAttention, q: Tensor, k: Tensor, t: int, s: int, kind: str) -> Tensor:
    """The score ``[B, H]`` of one query and key ``[B, H, K]`` at places t and s."""
    table = getattr(module.positions, "table", torch.empty(0))
    if kind == "rotary":
        q, k = as_rotated(q, t), as_rotated(k, s)
    if kind == "shaw":  # equations 4 and 3 of the paper
        k = k + table[max(-SHAW_DISTANCE, min(SHAW_DISTANCE, s - t)) + SHAW_DISTANCE]
    product = (q * k).sum(dim=-1) / math.sqrt(K)
    if kind == "t5":
        is_causal = module.positions.is_causal
        bucket = published_bucket(torch.tensor(s - t), bidirectional=not is_causal)
        product = product + table[bucket]
    return product


def as_rotated(x: Tensor, position: int) -> Tensor:
    """Su et al. 2021, equation 34, with complex numbers: f(x, m) = x exp(i m theta)."""
    pairs = torch.complex(x[..., : K // 2], x[..., K // 2 :])
    for i in range(K // 2):
        pairs[..., i] = pairs[..., i] * complex(
            math.cos(position * 10000 ** (-2 * i / K)), math.sin(position * 10000 ** (-2 * i / K))
        )
    return torch.cat([pairs.real, pairs.imag], dim=-1)


def published_bucket(
    relative_position: Tensor,
    bidirectional: bool = True,
    num_buckets: int = 32,
    max_distance: int = 128,
) -> Tensor:
    """``_relative_position_bucket`` of the T5 that its authors published, in PyTorch."""
    ret = torch.zeros_like(relative_position)
    n = -relative_position
    if bidirectional:
        num_buckets //= 2
        ret += (n < 0).long() * num_buckets
        n = n.abs()
    else:
        n = torch.max(n, torch.zeros_like(n))
    max_exact = num_buckets // 2
    is_small = n < max_exact
    val_if_large = (
        max_exact
        + (
            torch.log(n.float() / max_exact)
            / math.log(max_distance / max_exact)
            * (num_buckets - max_exact)
        )
        .clamp(min=-1000)
        .long()
    )
    val_if_large = torch.min(val_if_large, torch.full_like(val_if_large, num_buckets - 1))
    return ret + torch.where(is_small, n, val_if_large)


@pytest.mark.parametrize("is_causal", [False, True], ids=["encoder", "decoder"])
@relative
def test_attention_is_the_published_formula(kind: str, is_causal: bool) -> None:
    """The weights too, and for more keys than queries and the reverse."""
    module = attention(kind, is_causal=is_causal)
    for target, source in [(T, T), (1, S), (S, T)]:
        query, key = (torch.randn(n, B, H * K, dtype=torch.float64) for n in (target, source))
        blocked = torch.ones(target, source).triu(1).bool() & is_causal
        expected, weights = by_loops(module, [query, key, key], ~blocked, kind)
        found = module(query, key, key, attn_mask=blocked, average_attn_weights=False)
        assert_near(found, (expected, weights), 1e-9)
        fused, _ = module(query, key, key, attn_mask=blocked, need_weights=False)
        assert_near(fused, expected, 1e-9)


@pytest.mark.parametrize("is_causal", [False, True])
def test_buckets_are_those_of_t5(is_causal: bool) -> None:
    distances = torch.arange(-400, 401)
    expected = published_bucket(distances, bidirectional=not is_causal)
    assert torch.equal(t5_buckets(distances, is_causal=is_causal), expected)
    assert expected.unique().numel() == (32 if is_causal else 31)  # none is for "later by 0"


@relative
@law
@given(seed=seeds, more=st.tuples(st.integers(0, 5), st.integers(0, 5)), norm_first=st.booleans())
def test_shifting_both_sequences_changes_nothing(
    kind: str, seed: int, more: tuple[int, int], norm_first: bool
) -> None:
    """Padding on the left with any numbers in it: distances stay what they are."""
    torch.manual_seed(seed)
    model = MyTransformer(8, 2, 2, 2, 13, norm_first=norm_first, positions=kind).eval()
    shake(model)
    src, tgt = torch.randn(5, 3, 8), torch.randn(7, 3, 8)
    expected = model(src, tgt, tgt_mask=generate_square_subsequent_mask(7))
    source, target = more
    src_is_pad, tgt_is_pad = (
        (torch.arange(n + extra) < extra).expand(3, -1) for n, extra in ((5, source), (7, target))
    )
    shifted = model(
        torch.cat([9 * torch.randn(source, 3, 8), src]),
        torch.cat([9 * torch.randn(target, 3, 8), tgt]),
        tgt_mask=generate_square_subsequent_mask(7 + target, dtype=torch.bool),
        src_key_padding_mask=src_is_pad,
        tgt_key_padding_mask=tgt_is_pad,
        memory_key_padding_mask=src_is_pad,
    )
    assert_near(shifted[target:], expected, 1e-4)


@every_kind
def test_padding_on_the_left_shifts_absolute_positions_only(kind: str) -> None:
    """And the order of the words counts for every kind: the positions are really there."""
    model = model_of(1, positions=kind)
    src = torch.randint(4, SRC_WORDS, (5, 3))
    states = model.encode(src).states
    shifted = model.encode(torch.cat([torch.full((2, 3), PAD), src])).states[2:]
    assert torch.allclose(shifted, states, atol=1e-5) == (kind in RELATIVE)
    backwards = model.encode(src.flip(0)).states.flip(0)
    assert not torch.allclose(backwards, states, atol=1e-2)


@every_kind
def test_every_parameter_has_a_gradient(kind: str) -> None:
    """Data parallelism would wait for the others. Memory attention has no positions."""
    model = model_of(1, positions=kind)
    model(torch.full((5, 3), 4), torch.full((4, 3), 5)).sum().backward()
    assert [name for name, x in model.named_parameters() if x.grad is None] == []
    own = {name for name, _ in model.named_parameters() if "position" in name}
    layers = ("encoder.layers.0", "decoder.layers.0", "decoder.layers.1")
    of_layers = {f"transformer.{layer}.self_attn.positions.table" for layer in layers}
    learned = {"positional_encoding.table"}
    expected = {"learned": learned, "shaw": of_layers, "t5": of_layers}
    assert own == expected.get(kind, set())


@every_kind
def test_rows_whose_every_key_is_blocked_give_no_nan(kind: str) -> None:
    model = model_of(1, positions=kind)
    src = together([column(5, SRC_WORDS), torch.full((5, 1), PAD)])
    tgt = torch.randint(4, TGT_WORDS, (4, 2))
    model(src, tgt).sum().backward()
    assert all(x.grad is not None and x.grad.isfinite().all() for x in model.parameters())
    for weights in attention_weights(model, src, tgt):
        assert weights.isfinite().all()


def test_rotary_angles_are_exact_far_from_the_beginning() -> None:
    """In bfloat16, places 1000 and 1001 would be the same."""
    x, far = torch.ones(1, 1, 2, K), torch.tensor([1000, 1001])
    exact = RotaryPositions(K).rotate(x.double(), far)
    assert_near(RotaryPositions(K).rotate(x, far).double(), exact, 1e-4)
    assert_near(RotaryPositions(K).rotate(x.bfloat16(), far).double(), exact, 1e-2)


def test_learned_positions_start_from_the_sinusoids() -> None:
    x = torch.randn(5, 3, 6)
    learned = PositionalEncoding(6, max_len=9, positions="learned")
    assert torch.equal(learned(x), PositionalEncoding(6, max_len=9)(x))
    assert [name for name, _ in learned.named_parameters()] == ["table"]


@every_kind
def test_the_longest_sequence_is_a_limit_for_every_kind(kind: str) -> None:
    encoding = PositionalEncoding(6, max_len=9, positions=kind)
    assert encoding(torch.zeros(9, 1, 6)).shape == (9, 1, 6)
    with pytest.raises(ValueError, match=r"position 10 is beyond .* 9$"):
        encoding(torch.zeros(10, 1, 6))


def test_wrong_kinds_and_widths_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"model.positions must be .*rotary.*'alibi'"):
        EncoderConfig(positions="alibi")
    with pytest.raises(ConfigError, match=r"model.nhead .* \(24 / 8\) is even"):
        EncoderConfig(positions="rotary", d_model=24, nhead=8)
    with pytest.raises(ValueError, match=r"positions must be one of .*rotary.*'alibi'"):
        MyTransformer(8, 2, 1, 1, positions="alibi")
    with pytest.raises(ValueError, match="even width, not 3"):
        RotaryPositions(3)
