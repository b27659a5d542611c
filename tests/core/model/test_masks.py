"""Masks: what they block, how two masks combine, and which sizes are refused."""

import itertools

import pytest
import torch
from torch import Tensor, nn

from core.model.masks import (
    combine_masks,
    create_mask,
    generate_square_subsequent_mask,
    padding_mask,
)

INF = float("inf")
T, S, B, H = 5, 7, 3, 2
PAD = 1


def combine(attn_mask: Tensor | None, key_padding_mask: Tensor | None) -> Tensor | None:
    return combine_masks(attn_mask, key_padding_mask, (B, H, T, S))


def as_float(is_blocked: Tensor) -> Tensor:
    return torch.zeros(is_blocked.shape).masked_fill(is_blocked, -INF)


def test_causal_mask_by_hand() -> None:
    assert generate_square_subsequent_mask(3).tolist() == [
        [0.0, -INF, -INF],
        [0.0, 0.0, -INF],
        [0.0, 0.0, 0.0],
    ]
    assert generate_square_subsequent_mask(3, dtype=torch.bool).tolist() == [
        [False, True, True],
        [False, False, True],
        [False, False, False],
    ]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("size", [0, 1, 6])
def test_causal_mask_is_that_of_torch(size: int, dtype: torch.dtype) -> None:
    ours = generate_square_subsequent_mask(sz=size, dtype=dtype)
    theirs = nn.Transformer.generate_square_subsequent_mask(sz=size, dtype=dtype)
    assert ours.dtype == dtype
    assert torch.equal(ours, theirs)


def test_padding_mask_is_batch_first_and_true_at_padding() -> None:
    tokens = torch.tensor([[4, 5, 6], [7, PAD, 8], [PAD, PAD, 9], [PAD, PAD, 0]])  # [4, 3]
    assert padding_mask(tokens, PAD).tolist() == [
        [False, False, True, True],
        [False, True, True, True],
        [False, False, False, False],
    ]


def test_create_mask_gives_the_four_masks_of_a_training_step() -> None:
    src = torch.tensor([[4, 5, 6], [7, PAD, 8]])  # [S=2, B=3]
    tgt = torch.tensor([[2, 2, 2], [9, 9, 9], [3, PAD, 9], [PAD, PAD, 3]])  # [T=4, B=3]
    src_mask, tgt_mask, src_is_pad, tgt_is_pad = create_mask(src, tgt, PAD)
    assert src_mask.dtype == torch.bool
    assert src_mask.tolist() == [[False] * 2] * 2
    assert torch.equal(tgt_mask, generate_square_subsequent_mask(4, dtype=torch.bool))
    assert src_is_pad.tolist() == [[False, False], [False, True], [False, False]]
    assert tgt_is_pad.tolist() == [
        [False, False, False, True],
        [False, False, True, True],
        [False, False, False, False],
    ]


@pytest.mark.parametrize("shape", [(T, S), (B * H, T, S)], ids=["plain", "per_head"])
def test_combined_masks_block_what_either_blocks(shape: tuple[int, ...]) -> None:
    """An entry-by-entry loop over the result, for boolean and float masks in every pairing."""
    generator = torch.Generator().manual_seed(0)
    is_blocked = torch.rand(shape, generator=generator) < 0.4
    is_pad = torch.rand(B, S, generator=generator) < 0.4
    for attn_mask, key_padding_mask in itertools.product(
        (None, is_blocked, as_float(is_blocked)), (None, is_pad, as_float(is_pad))
    ):
        combined = combine(attn_mask, key_padding_mask)
        if combined is None:
            continue
        masks = [mask for mask in (attn_mask, key_padding_mask) if mask is not None]
        is_boolean = all(mask.dtype == torch.bool for mask in masks)
        assert (combined.dtype == torch.bool) == is_boolean
        if not is_boolean:
            assert set(combined.unique().tolist()) <= {0.0, -INF}
            combined = combined == -INF
        combined = combined.expand(B, H, T, S)
        for b, h, t, s in itertools.product(range(B), range(H), range(T), range(S)):
            by_attention = attn_mask is not None and (
                is_blocked[t, s] if len(shape) == 2 else is_blocked[b * H + h, t, s]
            )
            by_padding = key_padding_mask is not None and is_pad[b, s]
            assert combined[b, h, t, s] == bool(by_attention or by_padding)


def test_float_masks_add_up() -> None:
    attn_mask, key_padding_mask = torch.randn(B * H, T, S), torch.randn(B, S)
    combined = combine(attn_mask, key_padding_mask)
    for b, h in itertools.product(range(B), range(H)):
        assert torch.equal(combined[b, h], attn_mask[b * H + h] + key_padding_mask[b])


@pytest.mark.parametrize("shape", [(S, T), (T, S + 1), (T,), (H, T, S), (B * H, S, T)], ids=str)
@pytest.mark.parametrize("dtype", [torch.bool, torch.float32])
def test_wrong_attn_mask_size_names_both(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    with pytest.raises(ValueError, match="attn_mask") as error:
        combine(torch.zeros(shape, dtype=dtype), None)
    for sizes in ([T, S], [B * H, T, S], list(shape)):
        assert str(sizes) in str(error.value)


@pytest.mark.parametrize("shape", [(S, B), (B, S - 1), (B * H, S), (S,), (B, T, S)], ids=str)
@pytest.mark.parametrize("dtype", [torch.bool, torch.float32])
def test_wrong_key_padding_mask_size_names_both(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    with pytest.raises(ValueError, match="key_padding_mask") as error:
        combine(None, torch.zeros(shape, dtype=dtype))
    assert str([B, S]) in str(error.value)
    assert str(list(shape)) in str(error.value)


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8], ids=str)
def test_integer_masks_are_refused_because_their_polarity_is_anyones_guess(
    dtype: torch.dtype,
) -> None:
    with pytest.raises(ValueError, match=rf"attn_mask must be boolean.*{dtype}"):
        combine(torch.zeros(T, S, dtype=dtype), None)
    with pytest.raises(ValueError, match=rf"key_padding_mask must be boolean.*{dtype}"):
        combine(None, torch.zeros(B, S, dtype=dtype))
