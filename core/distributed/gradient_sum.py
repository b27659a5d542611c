"""The sum of the gradients of several processes, taken while the backward pass goes on.

As ``torch.nn.parallel.DistributedDataParallel`` takes their mean (Li et al. 2020,
https://arxiv.org/abs/2006.15704): the gradients travel in buckets, each as soon as it is full, the
last layers' first. Here any function of the model may be the loss, not only a module's ``forward``;
a process may have no share in a step; and the buckets are the same in every step of every run, so
that numbers are added up in the same order in a run that was resumed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import torch
import torch.distributed as dist
from torch import Tensor, nn

from .process_group import connection

# Small enough for the first to leave early, large enough for the latency not to matter.
_BUCKET_BYTES = 8 << 20


class GradientSum:
    """Replaces the gradients of ``parameters`` by their sums over all processes of the group.

    In every step :meth:`begin` goes before the last backward pass, and :meth:`finish` after it. A
    process without a backward pass calls :meth:`finish` alone.

    Args:
        parameters: all on one device. They are set to the first process's: all begin with the same.
    """

    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        self._buckets = list(_in_buckets(parameters))
        self._missing: list[int] = []
        self._sent: list[tuple[Tensor, dist.Work]] = []
        for number, bucket in enumerate(self._buckets):
            for parameter in bucket:
                parameter.register_post_accumulate_grad_hook(partial(self._count, number))
        with connection():
            for parameter in parameters:
                dist.broadcast(parameter.detach(), src=0)

    def begin(self) -> None:
        """From now on a gradient is complete when it is there."""
        self._missing = [len(bucket) for bucket in self._buckets]

    def finish(self) -> None:
        """Waits for the sums, which the parameters have as their gradients from then on."""
        self._missing = [0] * len(self._buckets)
        self._send()
        for bucket, (flat, work) in zip(self._buckets, self._sent, strict=True):
            with connection():
                work.wait()
            sums = flat.split([parameter.numel() for parameter in bucket])
            for parameter, total in zip(bucket, sums, strict=True):
                parameter.grad = total.view_as(parameter)
        self._missing, self._sent = [], []

    def _count(self, number: int, parameter: Tensor) -> None:
        """Hears of every gradient, in every backward pass."""
        if self._missing:
            self._missing[number] -= 1
            self._send()

    def _send(self) -> None:
        """Sends what is full, in the order of the buckets, which all processes must keep."""
        while len(self._sent) < len(self._buckets) and self._missing[len(self._sent)] == 0:
            bucket = self._buckets[len(self._sent)]
            flat = torch.cat([_gradient(parameter).flatten() for parameter in bucket])
            with connection():
                self._sent.append((flat, dist.all_reduce(flat, async_op=True)))


def _gradient(parameter: Tensor) -> Tensor:
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad


def _in_buckets(parameters: Sequence[nn.Parameter]) -> Iterator[list[nn.Parameter]]:
    """Neighbours together, up to the size of a bucket, the last first."""
    bucket: list[nn.Parameter] = []
    size = 0
    for parameter in reversed(parameters):
        if bucket and size + parameter.nbytes > _BUCKET_BYTES:
            yield bucket
            bucket, size = [], 0
        bucket.append(parameter)
        size += parameter.nbytes
    if bucket:
        yield bucket
