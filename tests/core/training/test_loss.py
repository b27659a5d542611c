"""The losses, against PyTorch's and by hand."""

import math
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from core.training.loss import label_smoothed_cross_entropy, linear_cross_entropy

CHUNK = 256  # rows at a time: the sizes below stand on both sides of its multiples
ROW_COUNTS = [0, 1, 7, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK + 3]


def inputs_of(rows: int, width: int = 5, words: int = 11) -> list[Tensor]:
    """``hidden [N, D]``, ``weight [V, D]``, ``bias [V]`` and ``targets [N]``, at random."""
    torch.manual_seed(rows + words)
    floats = [torch.randn(rows, width), torch.randn(words, width), torch.randn(words)]
    return [*(x.requires_grad_() for x in floats), torch.randint(words, (rows,))]


def by_torch(
    hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, label_smoothing: float
) -> Tensor:
    return F.cross_entropy(
        F.linear(hidden, weight, bias), targets, label_smoothing=label_smoothing, reduction="sum"
    )


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
@pytest.mark.parametrize("rows", ROW_COUNTS)
def test_value_and_gradients_are_pytorchs(rows: int, label_smoothing: float) -> None:
    """Times 3 before the gradients are taken: the gradient that comes from above is honoured."""
    hidden, weight, bias, targets = inputs_of(rows)
    wanted = (hidden, weight, bias)
    ours = linear_cross_entropy(hidden, weight, bias, targets, label_smoothing=label_smoothing)
    theirs = by_torch(hidden, weight, bias, targets, label_smoothing)
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
    gradients = torch.autograd.grad(3 * ours, wanted)
    expected = torch.autograd.grad(3 * theirs, wanted)
    for gradient, right in zip(gradients, expected, strict=True):
        torch.testing.assert_close(gradient, right, rtol=1e-5, atol=2e-5)


def test_by_hand() -> None:
    """Two words with logits 0 and log 3, so probabilities 1/4 and 3/4; the first word is right."""
    loss = linear_cross_entropy(
        torch.tensor([[1.0]]),
        torch.tensor([[0.0], [math.log(3.0)]]),
        torch.zeros(2),
        torch.tensor([0]),
        label_smoothing=0.2,
    )
    by_hand = -0.8 * math.log(1 / 4) - 0.1 * (math.log(1 / 4) + math.log(3 / 4))
    assert loss.item() == pytest.approx(by_hand, rel=1e-6)


def test_enormous_logits_stay_finite() -> None:
    hidden, weight, bias, targets = inputs_of(7)
    loss = linear_cross_entropy(1e4 * hidden, weight, bias, targets, label_smoothing=0.1)
    assert torch.isfinite(loss)
    assert all(torch.isfinite(g).all() for g in torch.autograd.grad(loss, (hidden, weight, bias)))


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_bfloat16_autocast_is_close(label_smoothing: float) -> None:
    """Eight bits of mantissa: a relative error of some 2^-8 in the logits and the gradients."""
    hidden, weight, bias, targets = inputs_of(2 * CHUNK + 3, width=16, words=29)
    wanted = (hidden, weight, bias)
    theirs = by_torch(hidden, weight, bias, targets, label_smoothing)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        ours = linear_cross_entropy(hidden, weight, bias, targets, label_smoothing=label_smoothing)
    assert ours.dtype == torch.float32
    assert ours.item() == pytest.approx(theirs.item(), rel=5e-3)
    gradients = torch.autograd.grad(ours, wanted)
    for gradient, right in zip(gradients, torch.autograd.grad(theirs, wanted), strict=True):
        assert gradient.dtype == torch.float32
        assert (gradient - right).norm() < 0.02 * right.norm()


def test_half_precision_hidden_states_get_gradients_of_their_type() -> None:
    """Under autocast the decoder's last layer may come in bfloat16, above float32 weights."""
    hidden, weight, bias, targets = inputs_of(7)
    half = hidden.detach().bfloat16().requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = linear_cross_entropy(half, weight, bias, targets)
    (gradient,) = torch.autograd.grad(loss, half)
    assert gradient.dtype == torch.bfloat16


def test_a_weight_that_two_layers_share_gets_both_gradients() -> None:
    """Tied embeddings: the table is the output layer's weight as well."""
    _, table, bias, targets = inputs_of(7)
    ids = torch.randint(11, (7,))

    def gradient_of(loss: Tensor) -> Tensor:
        return torch.autograd.grad(loss, table)[0]

    ours = gradient_of(linear_cross_entropy(table[ids], table, bias, targets))
    theirs = gradient_of(by_torch(table[ids], table, bias, targets, 0.0))
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("rows", "width"), [(6, 5), (8, 5), (7, 4)])
def test_sizes_that_do_not_belong_together_are_named(rows: int, width: int) -> None:
    """An eighth row for seven targets used to add to the loss in silence."""
    _, weight, bias, targets = inputs_of(7)
    with pytest.raises(ValueError, match=rf"\[7, 5\], not \[{rows}, {width}\]"):
        linear_cross_entropy(torch.randn(rows, width), weight, bias, targets)


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_padding_counts_nothing(label_smoothing: float) -> None:
    """The loss of ``[T, B]`` targets is that of their words, whatever stands where padding is."""
    torch.manual_seed(1)
    logits = torch.randn(5, 3, 11, requires_grad=True)
    targets = torch.randint(2, 11, (5, 3))
    targets[3:, 1] = 1
    is_word = targets != 1
    loss = partial(label_smoothed_cross_entropy, label_smoothing=label_smoothing)
    padded, words = loss(logits, targets, pad_id=1), loss(logits[is_word], targets[is_word])
    torch.testing.assert_close(padded, words)
    (gradient,) = torch.autograd.grad(padded, logits)
    assert gradient[~is_word].eq(0).all()
    assert gradient[is_word].ne(0).any(dim=-1).all()


def test_the_plain_loss_is_taken_in_float32() -> None:
    """A sum over thousands of words would not survive bfloat16."""
    torch.manual_seed(2)
    logits, targets = torch.randn(3000, 11).bfloat16(), torch.randint(11, (3000,))
    loss = label_smoothed_cross_entropy(logits, targets)
    assert loss.dtype == torch.float32
    expected = F.cross_entropy(logits.double(), targets, reduction="sum")
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)


def test_a_target_below_zero_is_refused() -> None:
    """-1 was the last word of the vocabulary: a loss without a meaning."""
    hidden, weight, bias, targets = inputs_of(7)
    for wrong in (-1, -11, 11):
        targets[3] = wrong
        with pytest.raises(IndexError, match=f"{wrong} is out of bounds"):
            linear_cross_entropy(hidden, weight, bias, targets)


def test_a_second_derivative_is_refused() -> None:
    """A gradient penalty lost a third of its gradient silently: the backward pass was constant."""
    hidden, weight, bias, targets = inputs_of(7)
    loss = linear_cross_entropy(hidden, weight, bias, targets)
    with pytest.raises(RuntimeError, match="no second derivatives"):
        torch.autograd.grad(loss, hidden, create_graph=True)
