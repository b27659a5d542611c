"""Inputs, masks and settings that do not fit the Transformer: ValueErrors that name both sizes."""

import pytest
import torch
from torch import nn

from core.model.transformer import (
    MyTransformer,
    MyTransformerDecoder,
    MyTransformerEncoder,
    MyTransformerEncoderLayer,
)

both_norms = pytest.mark.parametrize("norm_first", [False, True], ids=["post_norm", "pre_norm"])


@both_norms
@pytest.mark.parametrize("shape", [(5, 3, 8), (5, 3, 1), (5, 12)], ids=str)
def test_encoder_names_both_widths(shape: tuple[int, ...], norm_first: bool) -> None:
    """With pre-norm the LayerNorm sees the input first; its error was no ValueError."""
    stack = MyTransformerEncoder(MyTransformerEncoderLayer(12, 3, 13, norm_first=norm_first), 1)
    with pytest.raises(ValueError, match=r"src must be .* D = 12, not") as error:
        stack(torch.randn(shape))
    assert str(list(shape)) in str(error.value)


@pytest.mark.parametrize(
    ("src", "tgt"), [((5, 3, 8), (7, 4, 8)), ((5, 3, 8), (7, 3, 6)), ((5, 8), (7, 3, 8))], ids=str
)
def test_transformer_names_both_inputs(src: tuple[int, ...], tgt: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="must agree in B and D") as error:
        MyTransformer(8, 2, 1, 1, 13)(torch.randn(src), torch.randn(tgt))
    assert str(list(src)) in str(error.value)
    assert str(list(tgt)) in str(error.value)


@both_norms
@pytest.mark.parametrize(
    ("name", "shape", "expected"),
    [
        ("src_mask", (7, 7), [5, 5]),
        ("tgt_mask", (5, 5), [7, 7]),
        ("memory_mask", (5, 7), [7, 5]),
        ("src_key_padding_mask", (5, 3), [3, 5]),
        ("tgt_key_padding_mask", (3, 5), [3, 7]),
        ("memory_key_padding_mask", (3, 7), [3, 5]),
    ],
)
def test_transformer_names_both_sizes_of_a_mask(
    name: str, shape: tuple[int, ...], expected: list[int], norm_first: bool
) -> None:
    model = MyTransformer(8, 2, 1, 1, 13, norm_first=norm_first)
    with pytest.raises(ValueError, match="mask must be") as error:
        model(torch.randn(5, 3, 8), torch.randn(7, 3, 8), **{name: torch.zeros(shape).bool()})
    assert str(expected) in str(error.value)
    assert f"not {list(shape)}" in str(error.value)


def test_an_unknown_activation_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"\['relu', 'gelu'\], not 'swish'"):
        MyTransformerEncoderLayer(8, 2, activation="swish")


@pytest.mark.parametrize("stack", [MyTransformerEncoder, MyTransformerDecoder])
def test_a_stack_needs_a_layer(stack: type[nn.Module]) -> None:
    with pytest.raises(ValueError, match="at least one layer, not 0"):
        stack(MyTransformerEncoderLayer(8, 2, 13), 0)
