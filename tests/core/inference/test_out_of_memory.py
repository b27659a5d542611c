"""Failed allocations: one line that says what to do."""

import pytest
import torch

from core.errors import UserError
from core.inference.out_of_memory import out_of_memory_is_user_error


def too_much() -> None:
    torch.empty(1 << 60, dtype=torch.uint8)


def too_much_for_python() -> None:
    raise MemoryError


def too_much_for_a_gpu() -> None:
    raise torch.OutOfMemoryError("CUDA out of memory.")


@pytest.mark.parametrize("allocate", [too_much, too_much_for_python, too_much_for_a_gpu])
def test_a_failed_allocation_is_a_user_error(allocate) -> None:  # type: ignore[no-untyped-def]
    """A beam of 100,000 ended in a traceback of PyTorch's allocator."""
    with (
        pytest.raises(UserError, match=r"^not enough memory: use less$"),
        out_of_memory_is_user_error("use less"),
    ):
        allocate()


def test_other_errors_stay_what_they_are() -> None:
    with (
        pytest.raises(RuntimeError, match="mat1 and mat2"),
        out_of_memory_is_user_error("use less"),
    ):
        torch.ones(2, 3) @ torch.ones(2, 3)
