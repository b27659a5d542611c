"""The gradient of a batch on a CPU, computed in microbatches: one for each core.

If every operation is split over the cores, they wait for one another hundreds of times in a step,
and each needs what another one has just computed. The examples of a batch are independent until
their gradients are added up: a core with a microbatch of its own waits once.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from core.model.dropout import private_rng
from core.parallel import map_on_cores

Batch = tuple[Tensor, ...]
"""The tensors of some examples. Sequences of ids are ``[S, B]``, padded with ``PAD_ID``, and no
other tensor of a batch has two axes."""

LossFunction = Callable[[Batch], tuple[Tensor, int]]
"""From a batch to its summed loss and the number of targets (tokens, or texts) in the sum."""

# With fewer positions, the matrix products of a microbatch are too small to be fast.
_MIN_POSITIONS = 1000


def microbatch_count(batch: Batch) -> int:
    """Returns the best number of microbatches for ``batch`` on its device; 1: do not split."""
    if batch[0].device.type != "cpu":
        return 1
    positions, examples = max(x.numel() for x in batch), batch[0].shape[-1]
    return max(1, min(torch.get_num_threads(), examples, positions // _MIN_POSITIONS))


def accumulate_gradients(
    batch: Batch, loss: LossFunction, parameters: Sequence[nn.Parameter], count: int
) -> tuple[Tensor, int]:
    """Adds the gradients of the summed loss of ``batch`` to those of ``parameters``.

    Each microbatch has its own stream of random numbers, and the gradients are added up in a fixed
    order: the same batch, random state and number of microbatches give the same bits.

    Returns the summed loss, and the number of targets.

    Args:
        batch: the examples are the last axis; at least ``count`` of them.
        loss: called from several threads at a time.
        count: the number of microbatches.
    """
    seeds = torch.randint(1 << 62, (count,)).tolist()

    def compute(number: int) -> tuple[Tensor, int, Sequence[Tensor | None]]:
        # Every ``count``-th example: neighbors have about the same length.
        microbatch = tuple(x[..., number::count].contiguous() for x in batch)
        with private_rng(seeds[number]):
            total, targets = loss(microbatch)
            gradients = torch.autograd.grad(total, parameters, allow_unused=True)
        return total.detach(), targets, gradients

    computed = list(map_on_cores(compute, range(count)))
    for _, _, gradients in computed:
        for parameter, gradient in zip(parameters, gradients, strict=True):
            if gradient is not None:
                grad = parameter.grad
                parameter.grad = gradient if grad is None else grad.add_(gradient)
    total = torch.stack([microbatch_loss for microbatch_loss, _, _ in computed]).sum()
    return total, sum(targets for _, targets, _ in computed)
