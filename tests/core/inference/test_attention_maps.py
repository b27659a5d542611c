"""Attention weights of every layer and head, and that they cost nothing unless requested."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from core.inference.attention_maps import attention_weights
from core.model import attention
from core.model.attention import MyMultiheadAttention
from tests.core.model.parity import assert_near
from tests.core.small_models import SRC_WORDS, TGT_WORDS, column, model_of, together

law = settings(max_examples=12, deadline=None, derandomize=True)
seeds = st.integers(0, 2**31 - 1)
orders = st.booleans()  # norm_first

# Encoder layers 1, decoder layers 2, heads 2 (see ``model_of``); S = 5, T = 4, B = 3.
SOURCES, TARGETS = (5, 2, 3), (1, 4, 2)


def batch() -> tuple[Tensor, Tensor]:
    sources = together([column(n, SRC_WORDS) for n in SOURCES])
    return sources, together([column(n, TGT_WORDS) for n in TARGETS])


@law
@given(seed=seeds, norm_first=orders)
def test_rows_of_words_sum_to_one_and_all_else_is_zero(seed: int, norm_first: bool) -> None:
    model = model_of(seed, norm_first)
    src, tgt = batch()
    encoder, decoder, cross = attention_weights(model, src, tgt)
    assert encoder.shape == (1, 3, 2, 5, 5)
    assert decoder.shape == (2, 3, 2, 4, 4)
    assert cross.shape == (2, 3, 2, 4, 5)
    is_future = torch.ones(4, 4, dtype=torch.bool).triu(1)
    assert (decoder[..., is_future] == 0.0).all()
    for weights, queries, keys in [
        (encoder, SOURCES, SOURCES),
        (decoder, TARGETS, TARGETS),
        (cross, TARGETS, SOURCES),
    ]:
        for b, (words, seen) in enumerate(zip(queries, keys, strict=True)):
            of_words = weights[:, b, :, :words]
            assert_near(of_words.sum(dim=-1), torch.ones(of_words.shape[:-1]), 1e-5)
            assert (of_words[..., seen:] == 0.0).all()
            assert (weights[:, b, :, words:] == 0.0).all()
    assert (cross[:, 0, :, :1] > 0.0).all()


@law
@given(seed=seeds, norm_first=orders)
def test_a_pair_has_the_same_weights_alone_and_in_a_batch(seed: int, norm_first: bool) -> None:
    model = model_of(seed, norm_first)
    src, tgt = batch()
    together_ = attention_weights(model, src, tgt)
    for b, (s, t) in enumerate(zip(SOURCES, TARGETS, strict=True)):
        encoder, decoder, cross = attention_weights(model, src[:s, [b]], tgt[:t, [b]])
        assert_near(together_.encoder[:, [b], :, :s, :s], encoder, 1e-5)
        assert_near(together_.decoder[:, [b], :, :t, :t], decoder, 1e-5)
        assert_near(together_.cross[:, [b], :, :t, :s], cross, 1e-5)


def test_the_weights_are_those_of_the_equation() -> None:
    """softmax(Q K^T / sqrt(K)), written out for the first layer of the encoder (pre-norm)."""
    model = model_of(1, True)
    src, tgt = column(5, SRC_WORDS), column(4, TGT_WORDS)
    found = attention_weights(model, src, tgt).encoder[0, 0]
    with torch.no_grad():
        layer = model.transformer.encoder.layers[0]
        x = layer.norm1(model.positional_encoding(model.src_embedding(src)))[:, 0]  # [S, D]
        projected = x @ layer.self_attn.in_proj_weight.t() + layer.self_attn.in_proj_bias
        for head in range(2):
            q = projected[:, 4 * head : 4 * head + 4]
            k = projected[:, 8 + 4 * head : 8 + 4 * head + 4]
            assert_near(found[head], (q @ k.t() / math.sqrt(4)).softmax(dim=-1), 1e-5)
    assert (found[0] - found[1]).abs().max() > 1e-3


def test_weights_cost_nothing_unless_requested(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a request every attention uses the fused kernel."""
    model, (src, tgt) = model_of(1).requires_grad_(False), batch()
    before = model(src, tgt)
    calls: list[str] = []

    def watched(name: str) -> Callable[..., Any]:
        original = getattr(attention, name)

        def call(*args: Any, **options: Any) -> Any:
            calls.append(name)
            return original(*args, **options)

        return call

    for name in ("attend", "attend_fused"):
        monkeypatch.setattr(attention, name, watched(name))
    attention_weights(model, src, tgt)
    assert calls == ["attend"] * 5
    calls.clear()
    assert torch.equal(model(src, tgt), before)
    assert calls == ["attend_fused"] * 5


def test_a_request_that_fails_leaves_no_hooks_behind() -> None:
    model = model_of(1)
    with pytest.raises(ValueError, match=r"batch 2 .* batch 3"):
        attention_weights(model, torch.full((5, 3), 4), torch.full((4, 2), 4))
    attentions = [m for m in model.modules() if isinstance(m, MyMultiheadAttention)]
    assert len(attentions) == 5
    assert not any(a._forward_hooks or a._forward_pre_hooks for a in attentions)
