"""Attention with dropout of its weights on a CPU, forwards and backwards.

PyTorch's fused kernel has no dropout there. Left to automatic differentiation, the gradients of
queries, keys and values are copied twice on their way to the projection that they come from; here
they are written where they belong.
"""

from __future__ import annotations

import math

import torch
from torch.autograd.function import once_differentiable

from .dropout import mask_and_scale
from .heads import heads_of, merge_heads, scaled_scores


class AttentionWithDropout(torch.autograd.Function):
    """Equation 1 of Vaswani et al. (2017) with dropout of the weights, over all heads at once.

    ``apply(num_heads, dropout_p, added, is_row_blocked, *projections)``:

    Args:
        dropout_p: above 0.
        added: added to the scores, ``[B or 1, H or 1, T or 1, S]``, or None; it gets no gradient.
        is_row_blocked: True where every key of a query is blocked; the shape of ``added`` but for
            its last axis, which is 1. None if there is no such query.
        projections: queries ``[T, B, D]``, keys and values ``[S, B, D]``, those that come from one
            matrix product side by side in one tensor (see :func:`heads_of`).

    Returns:
        The heads side by side, ``[T, B, D]``.
    """

    @staticmethod
    def forward(ctx, num_heads, dropout_p, added, is_row_blocked, *projections):  # type: ignore[no-untyped-def]
        q, k, v = (x.flatten(0, 1) for x in heads_of(projections, num_heads))
        scores = scaled_scores(q, k).unflatten(0, (-1, num_heads))
        if added is not None:
            scores += added
        weights = scores.softmax(dim=-1)
        if is_row_blocked is not None:
            weights = weights.masked_fill(is_row_blocked, 0.0)
        kept = mask_and_scale(weights, dropout_p)
        dropped = (weights * kept).flatten(0, 1)
        ctx.save_for_backward(q, k, v, weights, kept, dropped)
        ctx.shapes = [x.shape for x in projections]
        return merge_heads(torch.bmm(dropped, v).unflatten(0, (-1, num_heads)))

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        q, k, v, weights, kept, dropped = ctx.saved_tensors
        num_heads = weights.shape[1]
        gradients = [grad.new_empty(shape) for shape in ctx.shapes]
        grad_q, grad_k, grad_v = heads_of(gradients, num_heads)
        grad = grad.reshape(len(grad), len(q), -1).transpose(0, 1)
        grad_v.copy_(torch.bmm(dropped.transpose(1, 2), grad).view(grad_v.shape))
        grad_weights = torch.bmm(grad, v.transpose(1, 2)).view(kept.shape).mul_(kept)
        grad_scores = torch._softmax_backward_data(grad_weights, weights, -1, weights.dtype)
        grad_scores = grad_scores.mul_(1.0 / math.sqrt(q.shape[2])).flatten(0, 1)
        grad_q.copy_(torch.bmm(grad_scores, k).view(grad_q.shape))
        grad_k.copy_(torch.bmm(grad_scores.transpose(1, 2), q).view(grad_k.shape))
        return None, None, None, None, *gradients
