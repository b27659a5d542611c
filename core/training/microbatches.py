"""The gradient of a batch, computed on a CPU part by part, each part on a core of its own.

Splitting every operation among the cores has them wait for one another hundreds of times a step,
and hands what one core has just computed to another. The examples of a batch have nothing to do
with each other until their gradients are added up: a core that keeps a part of them to itself waits
once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from ..model.dropout import private_rng
from ..parallel import map_on_cores

Batch = tuple[Tensor, ...]
"""The tensors of some examples. Sequences of ids are ``[S, B]``, padded with ``SpecialIds().pad``,
and nothing else in a batch has two axes."""

LossFunction = Callable[[Batch], tuple[Tensor, int]]
"""From a batch to its summed loss and the number of things (words, sentences) summed over."""

# With fewer positions, a part's matrix products are too small to be quick.
_POSITIONS_OF_A_PART = 1000


def number_of_parts(batch: Batch) -> int:
    """Into how many parts it pays to split ``batch``, given its device and PyTorch's threads."""
    if batch[0].device.type != "cpu":
        return 1
    positions, examples = max(x.numel() for x in batch), batch[0].shape[-1]
    return max(1, min(torch.get_num_threads(), examples, positions // _POSITIONS_OF_A_PART))


def add_gradients(
    batch: Batch,
    loss: LossFunction,
    parameters: Sequence[nn.Parameter],
    parts: int,
) -> tuple[Tensor, int]:
    """Adds the gradients of the summed loss of ``batch`` to those of ``parameters``.

    Each part draws its random numbers from a stream of its own, and the gradients are added up in
    the order of the parts: the same batch, state of chance and number of parts give the same bits.

    Args:
        batch: of at least as many examples as there are ``parts``; they are the last axis.
        loss: called by several threads at a time.

    Returns:
        The summed loss, and the number of things.
    """
    seeds = torch.randint(1 << 62, (parts,)).tolist()

    def compute(number: int) -> tuple[Tensor, int, Sequence[Tensor | None]]:
        # Every so many examples: neighbours are of about the same length.
        part = tuple(x[..., number::parts].contiguous() for x in batch)
        with private_rng(seeds[number]):
            total, count = loss(part)
            gradients = torch.autograd.grad(total, parameters, allow_unused=True)
        return total.detach(), count, gradients

    computed = list(map_on_cores(compute, range(parts)))
    for _, _, gradients in computed:
        for parameter, gradient in zip(parameters, gradients, strict=True):
            if gradient is not None:
                grad = parameter.grad
                parameter.grad = gradient if grad is None else grad.add_(gradient)
    return torch.stack([total for total, _, _ in computed]).sum(), sum(n for _, n, _ in computed)
