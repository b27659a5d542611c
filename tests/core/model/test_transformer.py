"""The layers, stacks and whole of the Transformer against ``torch.nn``."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from core.model import attention as attention_module
from core.model import dropout as dropout_module
from core.model.transformer import (
    MyTransformer,
    MyTransformerDecoder,
    MyTransformerDecoderLayer,
    MyTransformerEncoder,
    MyTransformerEncoderLayer,
)
from tests.core.model.parity import assert_near, assert_same_function, gradients, random_mask, shake

# torch's encoder says so whenever it cannot use a path that is of no concern here.
pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor")

Sizes = tuple[int, int, int, int, int]
Kinds = tuple[str | None, str | None]  # of attention and of padding masks

SIZES = [(7, 5, 3, 2, 4), (4, 9, 5, 3, 8), (6, 11, 2, 5, 1)]  # T, S, B, H, K
MASKS = [(None, None), ("bool", None), (None, "bool"), ("bool", "bool"), ("float", "float")]
mask_grid = pytest.mark.parametrize("kinds", MASKS, ids=str)
size_grid = pytest.mark.parametrize("sizes", SIZES, ids=str)
both_norms = pytest.mark.parametrize("norm_first", [False, True], ids=["post_norm", "pre_norm"])
both_activations = pytest.mark.parametrize("activation", ["relu", "gelu"])


def copied(ours: nn.Module, theirs: nn.Module) -> tuple[nn.Module, nn.Module]:
    """Both with the same random weights, biases and norms."""
    shake(theirs)
    ours.load_state_dict(theirs.state_dict())
    return ours, theirs


def states(*shape: int) -> Tensor:
    return torch.randn(shape, requires_grad=True)


def masks_of(
    kinds: Kinds, queries: int, keys: int, batch: int
) -> tuple[Tensor | None, Tensor | None]:
    """An attention mask and a padding mask of these kinds; both leave the first key open."""
    attn_kind, padding_kind = kinds
    return (
        None if attn_kind is None else random_mask(attn_kind, queries, keys),
        None if padding_kind is None else random_mask(padding_kind, batch, keys),
    )


def assert_equal_to_torch(
    ours: nn.Module, theirs: nn.Module, inputs: list[Tensor], **options: Tensor | None
) -> None:
    out, out_torch = ours(*inputs, **options), theirs(*inputs, **options)
    assert_same_function(ours, theirs, out, out_torch, inputs)


@pytest.mark.parametrize("has_norm", [True, False], ids=["final_norm", "no_final_norm"])
@both_norms
def test_stacks_equal_torch(norm_first: bool, has_norm: bool) -> None:
    torch.manual_seed(3)
    target, source, batch, heads, width = 7, 5, 3, 2, 8

    def stack(kind: type[nn.Module], layer: type[nn.Module]) -> nn.Module:
        final_norm = nn.LayerNorm(width) if has_norm else None
        return kind(layer(width, heads, 13, dropout=0.0, norm_first=norm_first), 2, final_norm)

    src_mask, is_pad = masks_of(("bool", "bool"), source, source, batch)
    assert_equal_to_torch(
        *copied(
            stack(MyTransformerEncoder, MyTransformerEncoderLayer),
            stack(nn.TransformerEncoder, nn.TransformerEncoderLayer),
        ),
        [states(source, batch, width)],
        mask=src_mask,
        src_key_padding_mask=is_pad,
    )
    tgt_mask, tgt_is_pad = masks_of(("bool", "bool"), target, target, batch)
    assert_equal_to_torch(
        *copied(
            stack(MyTransformerDecoder, MyTransformerDecoderLayer),
            stack(nn.TransformerDecoder, nn.TransformerDecoderLayer),
        ),
        [states(target, batch, width), states(source, batch, width)],
        tgt_mask=tgt_mask,
        tgt_key_padding_mask=tgt_is_pad,
        memory_key_padding_mask=is_pad,
    )


@mask_grid
@both_activations
@both_norms
@size_grid
def test_transformer_equals_torch(
    sizes: Sizes, norm_first: bool, activation: str, kinds: Kinds
) -> None:
    """Encoder and decoder of unequal depth, all six masks."""
    torch.manual_seed(4)
    target, source, batch, heads, head_dim = sizes
    arguments = {
        "d_model": heads * head_dim,
        "nhead": heads,
        "num_encoder_layers": 1,
        "num_decoder_layers": 2,
        "dim_feedforward": 13,
        "dropout": 0.0,
        "activation": activation,
        "norm_first": norm_first,
        "layer_norm_eps": 1e-3,
    }
    ours, theirs = copied(MyTransformer(**arguments), nn.Transformer(**arguments))
    src_mask, src_is_pad = masks_of(kinds, source, source, batch)
    tgt_mask, tgt_is_pad = masks_of(kinds, target, target, batch)
    memory_mask, memory_is_pad = masks_of(kinds, target, source, batch)
    assert_equal_to_torch(
        ours,
        theirs,
        [states(source, batch, heads * head_dim), states(target, batch, heads * head_dim)],
        src_mask=src_mask,
        tgt_mask=tgt_mask,
        memory_mask=memory_mask,
        src_key_padding_mask=src_is_pad,
        tgt_key_padding_mask=tgt_is_pad,
        memory_key_padding_mask=memory_is_pad,
    )


@both_norms
def test_dropout_acts_where_torch_has_it(norm_first: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dropout is replaced by a multiplication, which shows its places without randomness.

    With a module's own probability as the factor, each place leaves its own trace.
    """
    torch.manual_seed(6)
    arguments = {"d_model": 8, "nhead": 2, "num_encoder_layers": 2, "num_decoder_layers": 2}
    arguments |= {"dim_feedforward": 13, "dropout": 0.1, "norm_first": norm_first}
    ours, theirs = copied(MyTransformer(**arguments), nn.Transformer(**arguments))
    inputs = torch.randn(5, 3, 8), torch.randn(7, 3, 8)
    without = ours.eval()(*inputs)
    for number, (name, module) in enumerate(ours.named_modules()):
        factor = 0.1 + number / 1000
        counterpart = theirs.get_submodule(name)
        if isinstance(module, dropout_module.Dropout):
            assert module.p == counterpart.p == 0.1, name
            module.p = counterpart.p = factor
        elif isinstance(module, attention_module.MyMultiheadAttention):
            assert module.dropout == counterpart.dropout == 0.1, name
            module.dropout = counterpart.dropout = factor
    fused = F.scaled_dot_product_attention

    def scaled_fused(*args: Any, dropout_p: float = 0.0, **options: Any) -> Tensor:
        # torch gives the probability by position, after the mask.
        query, key, value, mask = (*args, options.get("attn_mask"))[:4]
        dropout_p = args[4] if len(args) > 4 else dropout_p
        return fused(query, key, value, mask) * (1.0 - dropout_p)

    def scaled(x: Tensor, p: float, training: bool = True, inplace: bool = False) -> Tensor:
        return x * (1.0 - p) if training else x

    monkeypatch.setattr(F, "scaled_dot_product_attention", scaled_fused)
    monkeypatch.setattr(nn.functional, "dropout", scaled)
    monkeypatch.setattr(dropout_module, "dropout", scaled)
    monkeypatch.setattr(attention_module, "dropout", scaled)
    out = ours.train()(*inputs)
    assert_near(out, theirs.train()(*inputs), 1e-5)
    assert (out - without).abs().max() > 1e-2


def test_the_default_is_the_papers_base_model() -> None:
    with torch.device("meta"):
        ours, theirs = MyTransformer(), nn.Transformer()
    sizes = {name: tuple(x.shape) for name, x in theirs.state_dict().items()}
    assert {name: tuple(x.shape) for name, x in ours.state_dict().items()} == sizes
    assert (ours.d_model, ours.nhead) == (512, 8)
    assert len(ours.encoder.layers) == len(ours.decoder.layers) == 6
    assert all(module.p == 0.1 for module in ours.modules() if hasattr(module, "p"))
    assert not ours.encoder.layers[0].norm_first


def test_state_dicts_load_both_ways() -> None:
    arguments = (8, 2, 1, 2, 13)
    ours, theirs = MyTransformer(*arguments), nn.Transformer(*arguments)
    theirs.load_state_dict(ours.state_dict())
    for name, parameter in ours.state_dict().items():
        assert torch.equal(parameter, theirs.state_dict()[name])


def test_layers_of_a_stack_share_nothing() -> None:
    layer = MyTransformerEncoderLayer(8, 2, 13)
    stack = MyTransformerEncoder(layer, 3)
    owners = [layer, *stack.layers]
    assert len({p.data_ptr() for owner in owners for p in owner.parameters()}) == sum(
        len(list(owner.parameters())) for owner in owners
    )


def test_fresh_matrices_are_xavier_uniform() -> None:
    torch.manual_seed(7)
    for name, parameter in MyTransformer(64, 4, 1, 1, 96).named_parameters():
        if parameter.dim() > 1:
            bound = (6 / sum(parameter.shape)) ** 0.5
            assert 0.98 * bound < parameter.abs().max() <= bound, name


@both_norms
def test_a_sentence_of_padding_alone_makes_nothing_nan(norm_first: bool) -> None:
    """In training, with dropout, forward and backward. Other sentences are not affected."""
    torch.manual_seed(8)
    model = MyTransformer(8, 2, 2, 2, 13, dropout=0.3, norm_first=norm_first)
    inputs = [states(5, 3, 8), states(7, 3, 8)]
    src_is_pad, tgt_is_pad = torch.zeros(3, 5).bool(), torch.zeros(3, 7).bool()
    src_is_pad[1] = tgt_is_pad[1] = True
    masks = {
        "tgt_mask": torch.ones(7, 7).triu(1).bool(),
        "src_key_padding_mask": src_is_pad,
        "tgt_key_padding_mask": tgt_is_pad,
        "memory_key_padding_mask": src_is_pad,
    }
    out = model(*inputs, **masks)
    assert torch.isfinite(out).all()
    got = gradients((out * torch.randn_like(out)).sum(), inputs, model)
    for name, gradient in got.items():
        assert torch.isfinite(gradient).all(), name

    model.eval()
    others = [0, 2]
    without_it = model(inputs[0][:, others], inputs[1][:, others], tgt_mask=masks["tgt_mask"])
    assert_near(model(*inputs, **masks)[:, others], without_it, 1e-5)


@pytest.mark.parametrize("sizes", [(0, 5, 3), (7, 0, 3), (7, 5, 0)], ids=["no T", "no S", "no B"])
def test_empty_inputs_have_a_backward_pass(sizes: tuple[int, int, int]) -> None:
    """With dropout on a CPU the forward pass worked and the backward pass raised."""
    target, source, batch = sizes
    model = MyTransformer(8, 2, 1, 1, 13, 0.3)
    inputs = [states(source, batch, 8), states(target, batch, 8)]
    out = model(*inputs)
    assert out.shape == inputs[1].shape
    got = torch.autograd.grad(out.sum(), [*inputs, *model.parameters()], allow_unused=True)
    assert all(torch.isfinite(gradient).all() for gradient in got if gradient is not None)
