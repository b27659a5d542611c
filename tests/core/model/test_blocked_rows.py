"""Queries whose every key is blocked attend to nothing: zeros in value and gradient, never NaN."""

import pytest
import torch
from torch import Tensor, nn

from tests.core.model.attention_cases import Sizes, copied, random_inputs
from tests.core.model.parity import as_float_mask, assert_near, gradients, random_mask

both_paths = pytest.mark.parametrize("need_weights", [True, False], ids=["weights", "fused"])


def blocked_everywhere(kind: str, sizes: Sizes) -> tuple[dict[str, Tensor | None], Tensor]:
    """Masks with rows that are blocked everywhere, and which rows ``[B, H, T]`` these are.

    Row 1 of ``attn_mask`` is blocked, or every key of sentence 1, or ``attn_mask`` blocks in row 1
    what ``key_padding_mask`` leaves open in sentence 1. The other rows are blocked here and there.
    """
    target_length, source_length, batch, heads, _ = sizes
    is_row = torch.zeros(batch, heads, target_length, dtype=torch.bool)
    where, is_float = kind.removesuffix("_float"), kind.endswith("_float")
    attn_mask = key_padding_mask = None
    if where == "row":
        attn_mask = random_mask("bool", target_length, source_length)
        attn_mask[1] = True
        is_row[:, :, 1] = True
    elif where == "row_of_one_head":
        attn_mask = random_mask("bool", batch * heads, target_length, source_length)
        attn_mask[1 * heads + 0, 1] = True  # sentence 1, head 0, row 1
        is_row[1, 0, 1] = True
    elif where == "sentence":
        key_padding_mask = random_mask("bool", batch, source_length)
        key_padding_mask[1] = True
        is_row[1] = True
    else:
        attn_mask = random_mask("bool", target_length, source_length)
        attn_mask[1] = torch.arange(source_length) < 2
        key_padding_mask = torch.zeros(batch, source_length, dtype=torch.bool)
        key_padding_mask[1] = torch.arange(source_length) >= 2
        is_row[1, :, 1] = True
        attn_mask[:1, 0] = attn_mask[2:, 0] = False  # the first key is open in both elsewhere
    if is_float:
        attn_mask, key_padding_mask = (
            None if mask is None else as_float_mask(mask) for mask in (attn_mask, key_padding_mask)
        )
    return {"attn_mask": attn_mask, "key_padding_mask": key_padding_mask}, is_row


BLOCKED = ["row", "row_of_one_head", "sentence", "between_them"]
BLOCKED += [f"{kind}_float" for kind in BLOCKED]


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
@both_paths
@pytest.mark.parametrize("kind", BLOCKED)
def test_fully_blocked_rows_are_zero_in_value_and_gradient(
    kind: str, need_weights: bool, dropout: float, precision: str
) -> None:
    """Softmax over nothing is 0/0: one padded sentence could make a whole model NaN."""
    torch.manual_seed(6)
    sizes = (7, 5, 3, 2, 4)
    module = copied(8, 2, dropout=dropout)[0].train(dropout > 0.0)
    nn.init.zeros_(module.out_proj.bias)
    inputs = random_inputs(sizes)
    masks, is_row_blocked = blocked_everywhere(kind, sizes)

    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bf16"):
        out, weights = module(
            *inputs, need_weights=need_weights, average_attn_weights=False, **masks
        )
    assert torch.isfinite(out).all()
    is_position_blocked = is_row_blocked.all(dim=1).transpose(0, 1)  # every head of it: [T, B]
    assert out[is_position_blocked].eq(0).all()
    if dropout == 0.0:
        assert out[~is_position_blocked].ne(0).any(dim=-1).all()
    if weights is not None:
        assert weights[is_row_blocked].eq(0).all()
        assert torch.isfinite(weights).all()

    with torch.autograd.set_detect_anomaly(True):  # no NaN on the way back either
        got = gradients((out.float() * torch.randn(out.shape)).sum(), inputs, module)
    for name, gradient in got.items():
        assert torch.isfinite(gradient).all(), name
    assert got["input 0"][is_position_blocked].eq(0).all()
    if "sentence" in kind:
        assert got["input 1"][:, 1].eq(0).all()
        assert got["input 2"][:, 1].eq(0).all()
    assert got["input 2"][:, 0].ne(0).any()


@both_paths
def test_a_blocked_head_gives_exactly_nothing(need_weights: bool) -> None:
    """One head blocked, the other open: the output is what the open head alone gives."""
    torch.manual_seed(7)
    heads, head_dim = 2, 4
    module, _ = copied(heads * head_dim, heads)
    query, key, value = random_inputs((7, 5, 3, heads, head_dim))
    mask = torch.zeros(3, heads, 7, 5, dtype=torch.bool)
    mask[:, 0] = True
    out, _ = module(query, key, value, attn_mask=mask.flatten(0, 1), need_weights=need_weights)

    open_out, _ = module(query, key, value)
    module.out_proj.weight.data[:, head_dim:] = 0.0
    first_head, _ = module(query, key, value)
    without_first = open_out - first_head + module.out_proj.bias
    assert_near(out, without_first, 1e-5)


@both_paths
def test_the_lowest_float32_blocks_in_half_precision(need_weights: bool) -> None:
    """Masks made with ``torch.finfo(torch.float32).min`` overflow to -inf in bfloat16.

    The weights path used to look for -inf before the cast and not after it: NaN.
    """
    torch.manual_seed(10)
    module, _ = copied(8, 2)
    nn.init.zeros_(module.out_proj.bias)
    inputs = random_inputs((7, 5, 3, 2, 4))
    mask = torch.zeros(7, 5)
    mask[2] = torch.finfo(torch.float32).min
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out, _ = module(*inputs, attn_mask=mask, need_weights=need_weights)
    assert torch.isfinite(out).all()
    assert out[2].eq(0).all()
