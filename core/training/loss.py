"""Cross-entropy with label smoothing (Szegedy et al. 2016; Vaswani et al. 2017, section 5.4).

With smoothing e the target distribution of a token y over V words is (1 - e) on y plus e / V on
every word, and the loss of one token is

    -(1 - e) log p(y) - (e / V) * sum_v log p(v).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

_CHUNK_ROWS = 512


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
    bias: Tensor,
    targets: Tensor,
    *,
    label_smoothing: float = 0.0,
) -> Tensor:
    """Returns the summed loss of ``F.linear(hidden, weight, bias)``, computed in chunks of rows.

    The logits over the vocabulary are the largest tensors of a training step, and exist for a few
    hundred positions at a time here. Second derivatives are refused.

    Args:
        hidden: ``[N, D]``, one row for each target. weight: ``[V, D]``. bias: ``[V]``.
        targets: ``[N]``, without padding.
        label_smoothing: e above.

    Raises:
        ValueError: sizes that do not match; the message names them.
        IndexError: a target that is not in the vocabulary.
    """
    if hidden.shape != (len(targets), weight.shape[1]):
        raise ValueError(
            f"hidden must be [N, D] = {[len(targets), weight.shape[1]]}, not {list(hidden.shape)}"
        )
    loss: Tensor = _LinearCrossEntropy.apply(hidden, weight, bias, targets, label_smoothing)
    return loss


class _LinearCrossEntropy(torch.autograd.Function):
    """Computes the gradients of each chunk together with its loss.

    If the backward pass computed the logits a second time (``torch.utils.checkpoint``), a training
    step would take 1.1 times as long.
    """

    @staticmethod
    def forward(ctx, hidden, weight, bias, targets, label_smoothing):  # type: ignore[no-untyped-def]
        weight, bias = weight.detach().requires_grad_(), bias.detach().requires_grad_()
        total, hidden_grads = torch.zeros((), device=hidden.device), []
        for x, words in zip(hidden.split(_CHUNK_ROWS), targets.split(_CHUNK_ROWS), strict=True):
            with torch.enable_grad():
                x = x.detach().requires_grad_()
                logits = F.linear(x, weight, bias)
                loss = label_smoothed_cross_entropy(logits, words, label_smoothing=label_smoothing)
            loss.backward()
            total += loss.detach()
            hidden_grads.append(x.grad)
        ctx.save_for_backward(torch.cat(hidden_grads), weight.grad, bias.grad)
        return total

    @staticmethod
    def backward(ctx, upstream):  # type: ignore[no-untyped-def]
        if torch.is_grad_enabled():  # create_graph=True
            raise RuntimeError("linear_cross_entropy has no second derivatives")
        gradients = (gradient * upstream for gradient in ctx.saved_tensors)
        return *gradients, None, None
