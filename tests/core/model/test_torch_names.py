"""Calls as in PyTorch's documentation and the tutorials: they work, or are errors."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from core.model.embedding import PositionalEncoding
from core.model.transformer import (
    MyTransformer,
    MyTransformerDecoderLayer,
    MyTransformerEncoderLayer,
)
from tests.core.model.attention_cases import copied
from tests.core.model.parity import assert_near


def test_the_causal_mask_by_the_model() -> None:
    """``model.generate_square_subsequent_mask(n)``, as in the tutorials."""
    for make in (MyTransformer, MyTransformer(8, 2, 1, 1, 13)):
        mask = make.generate_square_subsequent_mask(4)
        assert torch.equal(mask, nn.Transformer.generate_square_subsequent_mask(4))
        assert mask.dtype == torch.float32
    boolean = MyTransformer.generate_square_subsequent_mask(4, "cpu", torch.bool)
    assert torch.equal(boolean, mask.isinf())


def test_positions_by_the_tutorials_names() -> None:
    assert PositionalEncoding(d_model=6, dropout=0.1, max_len=9).table.shape == (9, 1, 6)


def test_arguments_by_position_stand_where_torch_has_them() -> None:
    """``attn_mask`` was refused there, and ``batch_first`` was taken for ``norm_first``."""
    torch.manual_seed(1)
    ours, theirs = copied(8, 2)
    query, memory = torch.randn(7, 3, 8), torch.randn(5, 3, 8)
    is_pad, attn_mask = torch.rand(3, 5) < 0.4, torch.randn(7, 5)
    is_pad[:, 0] = False
    is_pad = torch.zeros(3, 5).masked_fill(is_pad, -torch.inf)
    arguments = (query, memory, memory, is_pad, True, attn_mask, False)
    assert_near(ours(*arguments), theirs(*arguments), 1e-6)
    for layer in (MyTransformerEncoderLayer, MyTransformerDecoderLayer):
        layer(8, 2, 13, 0.1, "relu", 1e-5)
        with pytest.raises(TypeError, match="positional"):
            layer(8, 2, 13, 0.1, "relu", 1e-5, True)


def test_an_activation_may_be_a_function() -> None:
    layer = MyTransformerEncoderLayer(8, 2, 13, activation=F.gelu)
    assert layer.activation is MyTransformerEncoderLayer(8, 2, activation="gelu").activation


def test_options_of_torch_that_are_not_here_are_type_errors() -> None:
    """None of them is swallowed: ``batch_first=True`` would be other axes."""
    x = torch.randn(5, 3, 8)
    model = MyTransformer(8, 2, 1, 1, 13)
    with pytest.raises(TypeError, match="'batch_first'"):
        MyTransformer(8, 2, batch_first=True)
    with pytest.raises(TypeError, match="'is_causal'"):
        model.encoder(x, is_causal=True)


def test_optimizer_states_transfer() -> None:
    """Optimizers know parameters by their order: it is torch's, so Adam goes on from its state."""
    torch.manual_seed(2)
    arguments = (8, 2, 1, 2, 13, 0.0)
    theirs, ours = nn.Transformer(*arguments), MyTransformer(*arguments)
    assert [n for n, _ in ours.named_parameters()] == [n for n, _ in theirs.named_parameters()]
    inputs, upstream = (torch.randn(5, 3, 8), torch.randn(7, 3, 8)), torch.randn(7, 3, 8)
    # The gradient of a key's bias is zero but for rounding, which a small eps would blow up.
    adams = [torch.optim.Adam(model.parameters(), lr=1e-2, eps=1e-3) for model in (theirs, ours)]

    def train(model: nn.Module, adam: torch.optim.Optimizer) -> None:
        adam.zero_grad()
        (model(*inputs) * upstream).sum().backward()
        adam.step()

    train(theirs, adams[0])
    ours.load_state_dict(theirs.state_dict())
    adams[1].load_state_dict(copy.deepcopy(adams[0].state_dict()))
    for model, adam in zip((theirs, ours), adams, strict=True):
        train(model, adam)
    assert_near(ours.state_dict(), theirs.state_dict(), 1e-5)
