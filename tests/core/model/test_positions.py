"""Rotary positions equal a reference and depend on distances only; what holds for every kind."""

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
from core.model.rotary import rotate, rotations
from core.model.transformer import MyTransformer
from tests.core.model.parity import assert_near, shake
from tests.core.small_models import PAD, SRC_WORDS, TGT_WORDS, column, model_of, together

law = settings(max_examples=15, deadline=None, derandomize=True)
seeds = st.integers(0, 2**31 - 1)
every_kind = pytest.mark.parametrize("kind", POSITIONS)
T, B, H, K = 23, 2, 3, 4


def as_rotated(x: Tensor, position: int) -> Tensor:
    """Su et al. 2021, equation 34, with complex numbers: f(x, m) = x exp(i m theta)."""
    pairs = torch.complex(x[..., : K // 2], x[..., K // 2 :])
    for i in range(K // 2):
        pairs[..., i] = pairs[..., i] * complex(
            math.cos(position * 10000 ** (-2 * i / K)), math.sin(position * 10000 ** (-2 * i / K))
        )
    return torch.cat([pairs.real, pairs.imag], dim=-1)


@pytest.mark.parametrize("is_causal", [False, True], ids=["encoder", "decoder"])
def test_attention_is_the_published_formula(is_causal: bool) -> None:
    """Output and weights of every query, key by key."""
    torch.manual_seed(1)
    module = MyMultiheadAttention(H * K, H).double().eval()
    shake(module)
    x = torch.randn(T, B, H * K, dtype=torch.float64)
    blocked = torch.ones(T, T).triu(1).bool() & is_causal
    q, k, v = (split_heads(part, H) for part in module._project(x, x, x))
    scores = torch.full((B, H, T, T), -torch.inf, dtype=torch.float64)
    for t in range(T):
        for s in range(T):
            if not blocked[t, s]:
                product = as_rotated(q[:, :, t], t) * as_rotated(k[:, :, s], s)
                scores[:, :, t, s] = product.sum(dim=-1) / math.sqrt(K)
    weights = scores.softmax(dim=-1)
    expected = module.out_proj(torch.einsum("bhts,bhsk->tbhk", weights, v).flatten(2))
    options = {"attn_mask": blocked, "rotations": rotations(T, K, x)}
    found = module(x, x, x, average_attn_weights=False, **options)
    assert_near(found, (expected, weights), 1e-9)
    assert_near(module(x, x, x, need_weights=False, **options)[0], expected, 1e-9)


@law
@given(seed=seeds, more=st.tuples(st.integers(0, 5), st.integers(0, 5)), norm_first=st.booleans())
def test_shifting_both_sequences_changes_nothing(
    seed: int, more: tuple[int, int], norm_first: bool
) -> None:
    """Padding on the left with any numbers in it: distances stay what they are."""
    torch.manual_seed(seed)
    model = MyTransformer(8, 2, 2, 2, 13, norm_first=norm_first, rotary=True).eval()
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
    assert torch.allclose(shifted, states, atol=1e-5) == (kind == "rotary")
    backwards = model.encode(src.flip(0)).states.flip(0)
    assert not torch.allclose(backwards, states, atol=1e-2)


@every_kind
def test_every_parameter_has_a_gradient(kind: str) -> None:
    """Data parallelism would wait for the others."""
    model = model_of(1, positions=kind)
    model(torch.full((5, 3), 4), torch.full((4, 3), 5)).sum().backward()
    assert [name for name, x in model.named_parameters() if x.grad is None] == []
    own = [name for name, _ in model.named_parameters() if "position" in name]
    assert own == (["positional_encoding.table"] if kind == "learned" else [])


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
    x = torch.ones(1002, K)
    exact = rotate(x.double(), rotations(1002, K, x.double()))
    assert_near(rotate(x, rotations(1002, K, x)).double(), exact, 1e-4)
    x = x.bfloat16()
    assert_near(rotate(x, rotations(1002, K, x)).double(), exact, 1e-2)


def test_learned_positions_start_from_the_sinusoids() -> None:
    x = torch.randn(5, 3, 6)
    learned = PositionalEncoding(6, max_len=9, positions="learned")
    assert torch.equal(learned(x), PositionalEncoding(6, max_len=9)(x))
    assert [name for name, _ in learned.named_parameters()] == ["table"]


@every_kind
def test_the_longest_sequence_is_a_limit_for_every_kind(kind: str) -> None:
    encoding = PositionalEncoding(6, max_len=9, positions=kind)
    assert encoding(torch.zeros(9, 1, 6)).shape == (9, 1, 6)
    for length in (10, 12):
        with pytest.raises(ValueError, match=rf"position {length} is beyond .* 9$"):
            encoding(torch.zeros(length, 1, 6))


def test_wrong_kinds_and_widths_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"model.positions must be .*rotary.*'alibi'"):
        EncoderConfig(positions="alibi")
    with pytest.raises(ConfigError, match=r"model.nhead .* \(24 / 8\) is even"):
        EncoderConfig(positions="rotary", d_model=24, nhead=8)
    with pytest.raises(ValueError, match="even width, not 3"):
        rotations(1, 3, torch.zeros(1))
