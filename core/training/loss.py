"""Cross-entropy with label smoothing (Szegedy et al. 2016; Vaswani et al. 2017, section 5.4).

With smoothing e the target distribution of a token y over V words is (1 - e) on y plus e / V on
every word, and the loss of one token is

    -(1 - e) log p(y) - (e / V) * sum_v log p(v).

R-Drop (Wu et al. 2021) reads every example twice in one batch. Dropout gives it two distributions,
p and q, and the loss of the two is that of both plus alpha times how far they are apart,

    alpha * (KL(p || q) + KL(q || p)) / 2.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

_CHUNK_ROWS = 256  # even: the two rows of a pair are never parted


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
    r_drop: float = 0.0,
) -> Tensor:
    """The summed loss of ``F.linear(hidden, weight, bias)`` without ever holding all its logits.

    The output layer over the vocabulary and its loss are the widest tensors of a training step.
    Here they exist for a few hundred positions at a time, small enough for the processor's cache;
    the gradients are taken in the same pass, while the probabilities are at hand.

    Args:
        hidden: ``[N, D]``, one row a target. weight: ``[V, D]``. bias: ``[V]`` or None.
        targets: ``[N]``, with no padding among them.
        label_smoothing: e above.
        r_drop: alpha above. Unless it is 0, rows 2i and 2i + 1 are one target read twice.

    Raises:
        ValueError: sizes that do not belong together; the message names them.
    """
    if hidden.shape != (len(targets), weight.shape[1]):
        raise ValueError(
            f"hidden must be [N, D] = {[len(targets), weight.shape[1]]}, not {list(hidden.shape)}"
        )
    if r_drop > 0.0 and len(hidden) % 2:
        raise ValueError(f"R-Drop needs every row twice, not {len(hidden)} rows")
    return _LinearCrossEntropy.apply(hidden, weight, bias, targets, label_smoothing, r_drop)


def symmetric_divergence(logits: Tensor) -> Tensor:
    """(KL(p || q) + KL(q || p)) / 2 of rows 2i and 2i + 1 of ``[2N, V]``, summed over all i."""
    log_probs = logits.float().log_softmax(dim=-1).unflatten(0, (-1, 2))
    first, second = log_probs.unbind(dim=1)
    return 0.5 * ((first.exp() - second.exp()) * (first - second)).sum()


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, hidden, weight, bias, targets, label_smoothing, r_drop):  # type: ignore[no-untyped-def]
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
            # Of a CPU, every product would turn the matrix over by itself.
            w_by_columns = w.t().contiguous().t() if device == "cpu" else w
            for start in range(0, len(x), _CHUNK_ROWS):
                rows = slice(start, start + _CHUNK_ROWS)
                logits = F.linear(x[rows], w_by_columns, b)
                part, grad = _chunk(logits, targets[rows], label_smoothing, r_drop)
                loss += part
                if grad_b is not None:
                    grad_b += grad.sum(dim=0)
                grad = grad.to(dtype)
                grad_x[rows] = F.linear(grad, w.t())
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
        return grad_x, grad_w * grad_loss, grad_b, None, None, None


def _chunk(
    logits: Tensor, targets: Tensor, label_smoothing: float, r_drop: float
) -> tuple[Tensor, Tensor]:
    """The loss of a few rows of logits ``[n, V]``, and its gradient by them."""
    logits = logits.float()
    vocabulary_size = logits.shape[1]
    rows = torch.arange(len(targets), device=targets.device)
    of_targets, largest, total = logits[rows, targets].sum(), logits.amax(dim=1), logits.sum()
    if r_drop > 0.0:
        divergence, pull = _divergence(logits.log_softmax(dim=1))
    grad = torch.softmax(logits, 1, out=logits)
    # The largest probability is exp(largest - normaliser), and never too small for its logarithm.
    log_normaliser = largest - grad.amax(dim=1).log()
    loss = log_normaliser.sum() - (1.0 - label_smoothing) * of_targets
    if label_smoothing > 0.0:
        loss -= label_smoothing / vocabulary_size * total
        grad -= label_smoothing / vocabulary_size
    grad[rows, targets] -= 1.0 - label_smoothing
    if r_drop > 0.0:
        loss += r_drop * divergence
        grad.add_(pull, alpha=r_drop)
    return loss, grad


def _divergence(log_probs: Tensor) -> tuple[Tensor, Tensor]:
    """:func:`symmetric_divergence` of ``[2n, V]``, and its gradient by the logits.

    By the logits of p, the gradient of KL(p || q) is p * (log p - log q - KL(p || q)), and that of
    KL(q || p) is p - q.
    """
    pairs = log_probs.unflatten(0, (-1, 2))
    probs = pairs.exp()
    weighted = probs * (pairs - pairs.flip(1))
    divergence = weighted.sum(dim=2, keepdim=True)
    grad = 0.5 * (weighted - probs * divergence + probs - probs.flip(1))
    return 0.5 * divergence.sum(), grad.flatten(0, 1)
