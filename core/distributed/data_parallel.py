"""Data parallelism: every process computes a shard of each batch, and all add up the gradients.

``torch.nn.parallel.DistributedDataParallel`` (Li et al. 2020, https://arxiv.org/abs/2006.15704)
sends the gradients in buckets while the backward pass still runs. It wraps a module whose forward
pass is the loss, so that a loss may call any method of the model.
"""

import warnings
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from core.distributed.process_group import connection

_BUCKET_MEGABYTES = 8.0

Loss = Callable[[Any], tuple[Tensor, int]]
"""From a batch to its summed loss and the number of targets."""


class DataParallel:
    """The backward pass of ``model``, on one device, in one of several processes.

    The parameters are set to those of the main process, and gradients are summed.
    """

    def __init__(self, model: nn.Module) -> None:
        with connection(), warnings.catch_warnings():
            # The new name of ``broadcast_buffers`` is not in all supported versions of torch.
            warnings.simplefilter("ignore", FutureWarning)
            self._ddp = DistributedDataParallel(
                _LossModule(model),
                broadcast_buffers=False,
                bucket_cap_mb=_BUCKET_MEGABYTES,
                # Buckets are not rebuilt after the first step then: a resumed run adds up its
                # gradients in the same order as one that was not interrupted.
                find_unused_parameters=True,
                gradient_as_bucket_view=True,  # no second copy of the gradients
            )
        self._ddp.register_comm_hook(None, _sum_gradients)

    def backward(self, loss: Loss, batch: Any | None, *, is_last: bool) -> tuple[Tensor, int]:
        """Adds the gradients of ``loss(batch)``. Returns the loss and the number of targets.

        ``batch`` is this process's shard, None if it is empty. Every process makes the last call of
        a step (``is_last``) together with the others. After it, all have the sum of the gradients
        of all processes. Raises Disconnected if another process cannot be reached.
        """
        with nullcontext() if is_last else self._ddp.no_sync():
            total, count = self._ddp(loss, batch)
            with connection() if is_last else nullcontext():
                total.backward()
        return total, count


class _LossModule(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        # If no parameter is unused, DistributedDataParallel prints a warning in every process.
        device = next(model.parameters()).device
        self.unused = nn.Parameter(torch.zeros((), device=device))

    def forward(self, loss: Loss, batch: Any | None) -> tuple[Tensor, int]:
        if batch is not None:
            return loss(batch)
        # An empty sum: its gradient is zero for every parameter, whatever the weights are.
        trained = (p for p in self.model.parameters() if p.requires_grad)
        return torch.stack([p.flatten()[:0].sum() for p in trained]).sum(), 0


def _sum_gradients(state, bucket):  # type: ignore[no-untyped-def]
    """The sum over all processes, where DistributedDataParallel would take the mean.

    The caller divides by the number of targets of all processes. A mean of three would also be
    rounded: the gradient of a batch that only one process has a part of would not be exact.
    """
    # No annotations: DistributedDataParallel takes its own types alone, which mypy does not know.
    work = dist.all_reduce(bucket.buffer(), async_op=True)
    return work.get_future().then(lambda future: future.value()[0])
