"""Failed allocations as errors that a user can act on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from core.errors import UserError


@contextmanager
def out_of_memory_is_user_error(advice: str) -> Iterator[None]:
    """Turns a failed allocation inside the block into a :class:`UserError` that ends in ``advice``.

    Raises:
        UserError: there is not enough memory on the CPU or the GPU.
    """
    try:
        yield
    except (MemoryError, torch.OutOfMemoryError) as error:
        raise UserError(f"not enough memory: {advice}") from error
    except RuntimeError as error:
        # PyTorch has no class of its own for a failed allocation on a CPU.
        if "DefaultCPUAllocator" not in str(error):
            raise
        raise UserError(f"not enough memory: {advice}") from error
