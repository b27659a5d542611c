"""Derivatives of every kind, empty inputs and recorded graphs: right, or refused."""

import warnings
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from core.model.attention import MyMultiheadAttention
from core.model.config import POSITIONS
from core.model.dropout import dropout
from core.model.masks import generate_square_subsequent_mask
from core.model.transformer import MyTransformer, MyTransformerEncoderLayer
from tests.core.model.parity import assert_near, shake
from tests.core.small_models import PAD, SRC_WORDS, TGT_WORDS, model_of

every_kind_of_positions = pytest.mark.parametrize("positions", POSITIONS)
both_norms = pytest.mark.parametrize("norm_first", [False, True], ids=["post_norm", "pre_norm"])


def scalar_function(norm_first: bool) -> tuple[Callable[[Tensor], Tensor], Tensor, nn.Module]:
    """A Transformer with masks as a function of its target, a target, and the Transformer."""
    torch.manual_seed(1)
    model = MyTransformer(8, 2, 1, 1, 13, 0.0, "gelu", norm_first=norm_first).double()
    shake(model)
    src, tgt = torch.randn(5, 2, 8).double(), torch.randn(3, 2, 8).double()
    src_is_pad = torch.zeros(2, 5, dtype=torch.bool)
    src_is_pad[1, 3:] = True
    causal = generate_square_subsequent_mask(3, dtype=torch.bool)

    def function(tgt: Tensor) -> Tensor:
        out = model(
            src,
            tgt,
            tgt_mask=causal,
            src_key_padding_mask=src_is_pad,
            memory_key_padding_mask=src_is_pad,
        )
        return out.pow(3).sum()

    return function, tgt, model


@both_norms
def test_second_derivatives_are_those_of_finite_differences(norm_first: bool) -> None:
    """Custom autograd functions silently lost terms of the Hessian."""
    function, tgt, _ = scalar_function(norm_first)
    direction = torch.randn_like(tgt)
    hessian = torch.autograd.functional.hessian(function, tgt)
    along = (hessian.reshape(tgt.numel(), -1) @ direction.flatten()).view(tgt.shape)
    there, back = (torch.func.grad(function)(tgt + s * 1e-5 * direction) for s in (1, -1))
    torch.testing.assert_close(along, (there - back) / 2e-5, rtol=1e-5, atol=1e-5)


@both_norms
def test_second_derivatives_by_the_weights(norm_first: bool) -> None:
    """A gradient penalty: the gradient of a squared gradient, through ``torch.autograd.grad``."""
    function, tgt, model = scalar_function(norm_first)
    weight = model.decoder.layers[0].linear1.weight

    def penalty() -> Tensor:
        gradients = torch.autograd.grad(function(tgt), list(model.parameters()), create_graph=True)
        return sum((x.square().sum() for x in gradients), torch.zeros(()))

    (gradient,) = torch.autograd.grad(penalty(), weight)
    direction, values = torch.randn_like(weight), []
    for sign in (1, -2):
        with torch.no_grad():
            weight.add_(direction, alpha=sign * 1e-6)
        values.append(penalty().item())
    by_differences = (values[0] - values[1]) / 2e-6
    assert (gradient * direction).sum().item() == pytest.approx(by_differences, rel=1e-5)


def test_second_derivatives_with_dropout() -> None:
    torch.manual_seed(2)
    layer = MyTransformerEncoderLayer(4, 2, 5, 0.3, "gelu").double()

    def function(x: Tensor) -> Tensor:
        torch.manual_seed(3)
        return layer(x)

    x = torch.randn(3, 1, 4).double().requires_grad_()
    assert torch.autograd.gradcheck(function, x)
    assert torch.autograd.gradgradcheck(function, x)


@pytest.mark.parametrize("is_trained", [True, False])
@both_norms
def test_forward_mode_and_torch_func(norm_first: bool, is_trained: bool) -> None:
    """The fused kernel has no forward mode; ``jvp`` used to fail with a request to file a bug."""
    function, tgt, model = scalar_function(norm_first)
    model.requires_grad_(is_trained)
    direction = torch.randn_like(tgt)
    leaf = tgt.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(function(leaf), leaf)
    assert_near(torch.func.grad(function)(tgt), gradient, 1e-12)
    _, along = torch.func.jvp(function, (tgt,), (direction,))
    assert along.item() == pytest.approx((gradient * direction).sum().item(), rel=1e-9)
    assert_near(
        torch.func.hessian(function)(tgt), torch.autograd.functional.hessian(function, tgt), 1e-9
    )


def test_forward_mode_through_dropout() -> None:
    x, tangent = torch.ones(100), torch.full((100,), 3.0)
    out, along = torch.func.jvp(lambda x: dropout(x, 0.5), (x,), (tangent,))
    assert torch.equal(along, 3 * out)
    assert 0 < out.eq(0).sum() < 100


@pytest.mark.parametrize("p", [0.0, 0.3])
@pytest.mark.parametrize(
    "sizes", [(0, 5, 3), (7, 0, 3), (7, 5, 0), (0, 0, 0)], ids=["no T", "no S", "no B", "nothing"]
)
def test_empty_inputs_have_a_backward_pass(sizes: tuple[int, int, int], p: float) -> None:
    """With dropout on a CPU the forward pass worked and the backward pass raised."""
    target, source, batch = sizes
    model = MyTransformer(8, 2, 1, 1, 13, p)
    src = torch.randn(source, batch, 8, requires_grad=True)
    tgt = torch.randn(target, batch, 8, requires_grad=True)
    is_pad = torch.zeros(batch, source, dtype=torch.bool)
    out = model(src, tgt, src_key_padding_mask=is_pad, memory_key_padding_mask=is_pad)
    assert out.shape == tgt.shape
    out.sum().backward()
    assert all(torch.isfinite(x.grad).all() for x in (src, tgt))
    assert all(torch.isfinite(x.grad).all() for x in model.parameters() if x.grad is not None)


@every_kind_of_positions
def test_a_traced_model_serves_other_sizes_and_masks(positions: str) -> None:
    """A trace must contain neither the lengths of its example nor whether a row was blocked."""
    model = model_of(1, positions=positions)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = torch.jit.trace(
            model, (torch.randint(4, SRC_WORDS, (5, 3)), torch.randint(4, TGT_WORDS, (4, 3)))
        )
        training = torch.jit.trace(
            model_of(1, positions=positions).train(),
            (torch.full((5, 3), 4), torch.full((4, 3), 4)),
            check_trace=False,
        )
    for source, target, batch in [(5, 4, 3), (7, 6, 2), (1, 1, 1)]:
        src = torch.randint(4, SRC_WORDS, (source, batch))
        src[:, 0] = PAD
        tgt = torch.randint(4, TGT_WORDS, (target, batch))
        assert_near(traced(src, tgt), model(src, tgt), 1e-6)
    first, second = (training(torch.full((5, 3), 4), torch.full((4, 3), 4)) for _ in range(2))
    assert not torch.equal(first, second)


@every_kind_of_positions
@pytest.mark.filterwarnings("ignore")
def test_an_exported_model_is_the_model(positions: str) -> None:
    model = model_of(2, positions=positions)
    src, tgt = torch.randint(4, SRC_WORDS, (5, 3)), torch.randint(4, TGT_WORDS, (4, 3))
    program = torch.export.export(model, (src, tgt))
    src[:, 0] = PAD
    assert_near(program.module()(src, tgt), model(src, tgt), 1e-6)


def test_a_strided_bias_is_read_by_its_strides() -> None:
    """A linear function of ours ignored the strides and read memory outside the bias."""
    torch.manual_seed(4)
    module = MyMultiheadAttention(8, 2)
    x = torch.randn(5, 3, 8)
    strided = torch.randn(24, 2)[:, 1]
    one = torch.ones(1)
    for in_bias, out_bias in [(strided, strided[::3]), (one.expand(24), one.expand(8))]:
        module.in_proj_bias, module.out_proj.bias = map(nn.Parameter, (in_bias, out_bias))
        assert not module.in_proj_bias.is_contiguous()
        out, _ = module(x, x, x)
        for bias in (module.in_proj_bias, module.out_proj.bias):
            bias.data = bias.data.contiguous()
        expected, _ = module(x, x, x)
        assert_near(out, expected, 1e-6)
