"""Cross-entropy with label smoothing (Szegedy et al. 2016; Vaswani et al. 2017, section 5.4).

With smoothing e the target distribution of a token y over V words is (1 - e) on y plus e / V on
every word, and the loss of one token is

    -(1 - e) log p(y) - (e / V) * sum_v log p(v).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from .linear import linear

_CHUNK_ROWS = 256


def label_smoothed_cross_entropy(
    logits: Tensor, targets: Tensor, *, label_smoothing: float = 0.0, pad_id: int | None = None
) -> Tensor:
    """The summed loss of ``logits`` ``[..., V]`` against ``targets`` ``[...]``, in float32.

    Targets equal to ``pad_id`` count nothing.
    """
    return F.cross_entropy(
        logits.reshape(-1, logits.shape[-1]).float(),
        targets.reshape(-1),
        label_smoothing=label_smoothing,
        ignore_index=-100 if pad_id is None else pad_id,
        reduction="sum",
    )


def linear_cross_entropy(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    *,
    label_smoothing: float = 0.0,
) -> Tensor:
    """The summed loss of ``F.linear(hidden, weight, bias)`` without ever holding all its logits.

    The output layer over the vocabulary and its loss are the widest tensors of a training step.
    Here they exist for a few hundred positions at a time, small enough for the processor's cache;
    the gradients are taken in the same pass, while the probabilities are at hand.

    Args:
        hidden: ``[N, D]``, one row a target. weight: ``[V, D]``. bias: ``[V]`` or None.
        targets: ``[N]``, with no padding among them.
        label_smoothing: e above.

    Raises:
        ValueError: sizes that do not belong together; the message names them.
    """
    if hidden.shape != (len(targets), weight.shape[1]):
        raise ValueError(
            f"hidden must be [N, D] = {[len(targets), weight.shape[1]]}, not {list(hidden.shape)}"
        )
    return _LinearCrossEntropy.apply(hidden, weight, bias, targets, label_smoothing)


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, hidden, weight, bias, targets, label_smoothing):  # type: ignore[no-untyped-def]
        device = hidden.device.type
        dtype = weight.dtype
        if torch.is_autocast_enabled(device):
            dtype = torch.get_autocast_dtype(device)
        with torch.autocast(device, enabled=False):
            x, w = hidden.to(dtype), weight.to(dtype)
            b = None if bias is None else bias.to(dtype)
            loss = torch.zeros((), dtype=torch.float32, device=hidden.device)
            grad_x = torch.empty_like(x)
            grad_w = torch.zeros_like(weight, dtype=torch.float32)
            grad_b = None if bias is None else torch.zeros_like(bias, dtype=torch.float32)
            for start in range(0, len(x), _CHUNK_ROWS):
                rows = slice(start, start + _CHUNK_ROWS)
                part, grad = _chunk(linear(x[rows], w, b), targets[rows], label_smoothing)
                loss += part
                if grad_b is not None:
                    grad_b += grad.sum(dim=0)
                grad = grad.to(dtype)
                torch.mm(grad, w, out=grad_x[rows])
                if dtype == torch.float32:
                    grad_w.addmm_(grad.t(), x[rows])
                else:
                    grad_w += grad.t() @ x[rows]
        ctx.save_for_backward(grad_x, grad_w, grad_b)
        ctx.hidden_dtype = hidden.dtype
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_loss):  # type: ignore[no-untyped-def]
        grad_x, grad_w, grad_b = ctx.saved_tensors
        grad_x = grad_x.to(ctx.hidden_dtype) * grad_loss
        grad_b = None if grad_b is None else grad_b * grad_loss
        return grad_x, grad_w * grad_loss, grad_b, None, None


def _chunk(logits: Tensor, targets: Tensor, label_smoothing: float) -> tuple[Tensor, Tensor]:
    """The loss of a few rows of logits ``[n, V]``, and its gradient by them."""
    logits = logits.float()
    vocabulary_size = logits.shape[1]
    rows = torch.arange(len(targets), device=targets.device)
    of_targets, largest, total = logits[rows, targets].sum(), logits.amax(dim=1), logits.sum()
    grad = torch.softmax(logits, 1, out=logits)
    # The largest probability is exp(largest - normaliser), and never too small for its logarithm.
    log_normaliser = largest - grad.amax(dim=1).log()
    loss = log_normaliser.sum() - (1.0 - label_smoothing) * of_targets
    if label_smoothing > 0.0:
        loss -= label_smoothing / vocabulary_size * total
        grad -= label_smoothing / vocabulary_size
    grad[rows, targets] -= 1.0 - label_smoothing
    return loss, grad
