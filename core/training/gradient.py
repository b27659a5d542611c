"""How the gradient of a batch is computed: microbatches, precision, gradient checkpointing."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from core.device import limit_kernel_caches
from core.model.dropout import private_rng
from core.model.transformer import MyTransformerDecoderLayer, MyTransformerEncoderLayer
from core.parallel import map_on_cores

Batch = tuple[Tensor, ...]
"""The tensors of some examples. Sequences of ids are ``[S, B]``, padded with ``PAD_ID``, and no
other tensor of a batch has two axes."""

LossFunction = Callable[[Batch], tuple[Tensor, int]]
"""From a batch to its summed loss and the number of targets (tokens, or texts) in the sum."""

# With fewer positions, the matrix products of a microbatch are too small to be fast.
_MIN_POSITIONS = 1000
_KERNELS = 32


def microbatch_count(batch: Batch) -> int:
    """Returns the best number of microbatches for ``batch`` on its device; 1: do not split."""
    if batch[0].device.type != "cpu":
        return 1
    positions, examples = max(x.numel() for x in batch), batch[0].shape[-1]
    return max(1, min(torch.get_num_threads(), examples, positions // _MIN_POSITIONS))


def accumulate_gradients(
    batch: Batch, loss: LossFunction, parameters: Sequence[nn.Parameter], count: int
) -> tuple[Tensor, int]:
    """Adds the gradients of the summed loss of ``batch`` to those of ``parameters``, on a CPU.

    If every operation is split over the cores, they wait for one another hundreds of times in a
    step. A core with a microbatch of its own waits once: the examples of a batch, its last axis,
    are independent until their gradients are added up.

    Each microbatch has its own stream of random numbers, and the gradients are added up in a fixed
    order: the same batch, random state and number of microbatches give the same bits. ``loss`` is
    called from several threads. Returns the summed loss, and the number of targets.
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


def precision_for(device: torch.device, wanted: str = "auto") -> str:
    """Returns "fp32", "bf16" or "fp16": what ``train.precision`` means on ``device``.

    "auto" is bf16 on a GPU that computes in it, or else fp16: older ones emulate bf16, slower than
    fp32. It is bf16 on a CPU with bf16 instructions, as far as this PyTorch knows. There, a step of
    the presets ``small`` and ``default`` takes 0.5 to 0.6 of the time that it takes in fp32.
    """
    if wanted != "auto":
        return wanted
    if device.type == "cuda":
        with torch.cuda.device(device):
            has_bf16 = torch.cuda.is_bf16_supported(including_emulation=False)
        return "bf16" if has_bf16 else "fp16"
    # PyTorch before 2.10 does not say.
    capabilities = getattr(torch.cpu, "get_capabilities", dict[str, object])()
    has_bf16 = any(value is True for name, value in capabilities.items() if "bf16" in name)
    return "bf16" if has_bf16 else "fp32"


def autocast(precision: str, device: torch.device) -> AbstractContextManager[Any]:
    """Returns the context of a forward pass in ``precision``: "fp32", "bf16" or "fp16"."""
    if precision == "fp32":
        return nullcontext()
    if device.type == "cpu":
        limit_kernel_caches(_KERNELS)
    return torch.autocast(device.type, torch.bfloat16 if precision == "bf16" else torch.float16)


@contextmanager
def gradient_checkpointing(model: nn.Module) -> Iterator[None]:
    """Makes the layers of ``model`` keep no activations: the backward pass computes them again."""
    kinds = MyTransformerEncoderLayer | MyTransformerDecoderLayer
    layers = [layer for layer in model.modules() if isinstance(layer, kinds)]
    for layer in layers:
        layer.__dict__["forward"] = partial(checkpoint, layer.forward, use_reentrant=False)
    try:
        yield
    finally:
        for layer in layers:
            del layer.__dict__["forward"]
