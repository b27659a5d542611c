"""Cross-entropy with label smoothing (Szegedy et al. 2016; Vaswani et al. 2017, section 5.4).

With smoothing e the target distribution of a token y over V words is (1 - e) on y plus e / V on
every word, and the loss of one token is

    -(1 - e) log p(y) - (e / V) * sum_v log p(v).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

_CHUNK_ROWS = 256


def label_smoothed_cross_entropy(
    logits: Tensor, targets: Tensor, *, label_smoothing: float = 0.0, pad_id: int | None = None
) -> Tensor:
    """Returns the summed loss of ``logits`` ``[..., V]`` and ``targets`` ``[...]``, in float32.

    Targets equal to ``pad_id`` are ignored.
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
    """Returns the summed loss of ``F.linear(hidden, weight, bias)``, computed in chunks of rows.

    The logits over the vocabulary are the largest tensors of a training step. Here they exist for
    a few hundred positions at a time, which fit into the cache of the processor. The gradients are
    computed in the same pass. Derivatives of any order are right; from the second order on (that
    is, with ``create_graph=True``) all logits are computed at once.

    Args:
        hidden: ``[N, D]``, one row for each target. weight: ``[V, D]``. bias: ``[V]`` or None.
        targets: ``[N]``, without padding.
        label_smoothing: e above.

    Raises:
        ValueError: sizes that do not match; the message names them.
    """
    if hidden.shape != (len(targets), weight.shape[1]):
        raise ValueError(
            f"hidden must be [N, D] = {[len(targets), weight.shape[1]]}, not {list(hidden.shape)}"
        )
    loss, *_ = _LinearCrossEntropy.apply(hidden, weight, bias, targets, label_smoothing)
    return loss


class _LinearCrossEntropy(torch.autograd.Function):
    """The loss, and its gradients by hidden states, weight and bias for the backward pass."""

    @staticmethod
    def forward(hidden, weight, bias, targets, label_smoothing):  # type: ignore[no-untyped-def]
        dtype = _compute_dtype(weight)
        with torch.autocast(hidden.device.type, enabled=False):
            x, w = hidden.to(dtype), weight.to(dtype)
            b = None if bias is None else bias.to(dtype)
            loss = torch.zeros((), dtype=torch.float32, device=hidden.device)
            grad_x = torch.empty_like(x)
            grad_w = torch.zeros_like(weight, dtype=torch.float32)
            grad_b = None if bias is None else torch.zeros_like(bias, dtype=torch.float32)
            # On a CPU, every product would transpose the matrix again.
            w_by_columns = w.t().contiguous().t() if hidden.device.type == "cpu" else w
            for start in range(0, len(x), _CHUNK_ROWS):
                rows = slice(start, start + _CHUNK_ROWS)
                logits = F.linear(x[rows], w_by_columns, b)
                part, grad = _chunk(logits, targets[rows], label_smoothing)
                loss += part
                if grad_b is not None:
                    grad_b += grad.sum(dim=0)
                grad = grad.to(dtype)
                grad_x[rows] = F.linear(grad, w.t())
                if dtype == torch.float32:
                    grad_w.addmm_(grad.t(), x[rows])
                else:
                    grad_w += grad.t() @ x[rows]
        return loss, grad_x, grad_w, grad_b

    @staticmethod
    def setup_context(ctx, inputs, output):  # type: ignore[no-untyped-def]
        hidden, weight, bias, targets, ctx.label_smoothing = inputs
        gradients = output[1:]
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*(x for x in gradients if x is not None))
        ctx.save_for_backward(hidden, weight, bias, targets, *gradients)
        ctx.compute_dtype = _compute_dtype(weight)

    @staticmethod
    def backward(ctx, grad_loss, *_):  # type: ignore[no-untyped-def]
        hidden, weight, bias, targets, grad_x, grad_w, grad_b = ctx.saved_tensors
        if torch.is_grad_enabled():
            # create_graph=True: the gradients themselves must be functions of the inputs.
            inputs = (hidden, weight, bias, targets)
            grad_x, grad_w, grad_b = _differentiable_gradients(ctx, *inputs)
        grad_b = None if bias is None else grad_b * grad_loss
        grad_x = grad_x.to(hidden.dtype) * grad_loss
        return grad_x, grad_w * grad_loss, grad_b, None, None


def _compute_dtype(weight: Tensor) -> torch.dtype:
    """Returns the type of the matrix products: that of autocast, or that of ``weight``."""
    device = weight.device.type
    if torch.is_autocast_enabled(device):
        return torch.get_autocast_dtype(device)
    return weight.dtype


def _differentiable_gradients(ctx, hidden, weight, bias, targets):  # type: ignore[no-untyped-def]
    """Returns the gradients of the summed loss by hidden, weight and bias, which autograd follows.

    By the logits, the gradient of cross-entropy is the probabilities minus the target distribution.
    """
    dtype, label_smoothing = ctx.compute_dtype, ctx.label_smoothing
    with torch.autocast(hidden.device.type, enabled=False):
        x, w = hidden.to(dtype), weight.to(dtype)
        logits = F.linear(x, w, None if bias is None else bias.to(dtype)).float()
        log_probs = logits.log_softmax(dim=1)
        smoothed = F.one_hot(targets, logits.shape[1]) * (1.0 - label_smoothing)
        grad = log_probs.exp() - smoothed - label_smoothing / logits.shape[1]
        by_type = grad.to(dtype)
        return by_type @ w, (by_type.t() @ x).float(), grad.sum(dim=0)


def _chunk(logits: Tensor, targets: Tensor, label_smoothing: float) -> tuple[Tensor, Tensor]:
    """The loss of a few rows of logits ``[n, V]``, and its gradient by them."""
    logits = logits.float()
    vocabulary_size = logits.shape[1]
    rows = torch.arange(len(targets), device=targets.device)
    of_targets, largest, total = logits[rows, targets].sum(), logits.amax(dim=1), logits.sum()
    grad = torch.softmax(logits, 1, out=logits)
    # The largest probability is exp(largest - normalizer), and never too small for its logarithm.
    log_normalizer = largest - grad.amax(dim=1).log()
    loss = log_normalizer.sum() - (1.0 - label_smoothing) * of_targets
    if label_smoothing > 0.0:
        loss -= label_smoothing / vocabulary_size * total
        grad -= label_smoothing / vocabulary_size
    grad[rows, targets] -= 1.0 - label_smoothing
    return loss, grad
