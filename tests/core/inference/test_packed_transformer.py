"""The packed Transformer equals ``MyTransformer`` for all options and types."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core.inference import packed_linear
from core.inference.incremental_model import IncrementalModel
from core.inference.packed_transformer import PackedEncoder
from core.model.transformer import MyTransformer
from tests.core.model.parity import assert_near, shake
from tests.core.small_models import PAD, SRC_WORDS, TGT_WORDS, column, model_of, together

law = settings(max_examples=20, deadline=None, derandomize=True)
seeds = st.integers(0, 2**31 - 1)
sizes = st.integers(1, 6)
every_kind = pytest.mark.parametrize("activation", ["relu", "gelu"])
every_order = pytest.mark.parametrize("norm_first", [True, False], ids=["pre", "post"])
every_type = pytest.mark.parametrize(
    ("dtype", "atol"),
    [(torch.float32, 1e-4), (torch.float64, 1e-12), (torch.bfloat16, 0.4)],
    ids=["fp32", "fp64", "bf16"],
)


def transformer(seed: int, activation: str, norm_first: bool) -> MyTransformer:
    torch.manual_seed(seed)
    model = MyTransformer(
        8, 2, 2, 2, dim_feedforward=13, activation=activation, norm_first=norm_first
    ).eval()
    shake(model)
    return model


@every_kind
@every_order
@law
@given(seed=seeds, source=sizes, batch=sizes, share=st.sampled_from([None, 0.0, 0.4, 1.0]))
def test_the_packed_encoder_is_the_encoder(
    activation: str, norm_first: bool, seed: int, source: int, batch: int, share: float | None
) -> None:
    """Without a mask, and with more and more padding, up to padding only."""
    encoder = transformer(seed, activation, norm_first).encoder
    src = torch.randn(source, batch, 8)
    is_pad = None if share is None else torch.rand(batch, source) < share
    before = src.clone()
    with torch.no_grad():
        found = PackedEncoder(encoder)(src, is_pad)
        assert_near(found, encoder(src, src_key_padding_mask=is_pad), 1e-5)
    assert torch.equal(src, before)


@every_type
@every_order
@pytest.mark.parametrize("onednn", [True, False], ids=["onednn", "plain"])
def test_steps_in_every_precision_with_and_without_onednn(
    dtype: torch.dtype, atol: float, norm_first: bool, onednn: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three sentences, one of them padding only, with two beams each from the second step on."""
    if not onednn:
        monkeypatch.setattr(packed_linear, "HAS_ONEDNN", False)
    model = model_of(2, norm_first).to(dtype)
    src = together([column(5, SRC_WORDS), column(2, SRC_WORDS), torch.full((3, 1), PAD)])
    tgt = torch.randint(4, TGT_WORDS, (4, 3)).repeat_interleave(2, dim=1)
    tgt[1:] = torch.randint(4, TGT_WORDS, (3, 6))
    with torch.inference_mode():
        stepwise = IncrementalModel(model)
        state = stepwise.start(src)
        steps = [stepwise.step(tgt[0, ::2], state).repeat_interleave(2, dim=0)]
        state.select(torch.arange(3).repeat_interleave(2))
        steps += [stepwise.step(tokens, state) for tokens in tgt[1:]]
        whole = model(src.repeat_interleave(2, dim=1), tgt)
    assert steps[-1].dtype == dtype
    assert_near(torch.stack(steps), whole, atol)


@pytest.mark.parametrize("shape", [(3, 0), (0, 2)], ids=["no_sentences", "no_words"])
def test_an_empty_batch_is_allowed(shape: tuple[int, int]) -> None:
    model, src = model_of(1), torch.empty(shape, dtype=torch.long)
    tokens = torch.full(shape[1:], 4)
    with torch.inference_mode():
        stepwise = IncrementalModel(model)
        logits = stepwise.step(tokens, stepwise.start(src))
        assert_near(logits, model(src, tokens.unsqueeze(0))[0], 1e-5)
