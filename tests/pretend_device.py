"""A pretend GPU: its tensors say that they are on another device, and compute on the CPU.

It refuses an operator over both devices, as a GPU does, and counts operators and synchronizations:
what makes the program wait for the device. It is a Python backend of PyTorch (``PrivateUse1``) with
real numbers; ``FakeTensorMode`` has none, so that no search ends. It changes PyTorch for the whole
process, and uses private parts of it: programs that use it run by themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Self

import torch
from torch import Tensor
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_flatten, tree_map

NAME = "pretend"

WAITING = {"_local_scalar_dense", "nonzero", "masked_select", "_unique2", "bincount", "equal"}
"""Operators whose result the program has to wait for."""
_ACROSS = {"_to_copy", "copy_", "index", "index_put", "index_put_", "_index_put_impl_"}
_INDEXING = {"index", "index_put", "index_put_", "_index_put_impl_"}

counts: Counter[str] = Counter()
"""The operators on the device (``operators``), and the synchronizations by their names."""


class _Backend(backend_registration._DummyBackendModule):  # type: ignore[name-defined, misc]
    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16, torch.float16]

    def _is_in_bad_fork(self) -> bool:
        return False


backend_registration._setup_privateuseone_for_python_backend(  # type: ignore[attr-defined]
    NAME, backend_module=_Backend()
)
torch.__future__.set_swap_module_params_on_conversion(True)
DEVICE = torch.device(NAME, 0)


class DeviceTensor(Tensor):
    """A tensor that says it is on the device, with its numbers in ``inner``."""

    inner: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, inner: Tensor) -> Self:
        return Tensor._make_wrapper_subclass(  # type: ignore[attr-defined, no-any-return]
            cls,
            inner.shape,
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=DEVICE,
        )

    def __init__(self, inner: Tensor) -> None:
        self.inner = inner

    def tolist(self) -> Any:
        counts["tolist"] += 1
        return self.inner.tolist()

    def numpy(self, *args: Any, **options: Any) -> Any:
        raise TypeError("cannot convert a tensor of the pretend device to numpy")

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            with torch.no_grad():
                copy: Tensor = self.detach().clone()
            if isinstance(self, torch.nn.Parameter):
                copy = torch.nn.Parameter(copy, self.requires_grad)
            memo[id(self)] = copy
        return memo[id(self)]

    @classmethod
    def __torch_dispatch__(
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return _compute(function, args, kwargs or {})


class Pretending(TorchDispatchMode):
    """A context in which new tensors can be made on the device."""

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return _compute(function, args, kwargs or {})

    def __enter__(self) -> Self:
        self._lifted = torch._C._only_lift_cpu_tensors()
        torch._C._set_only_lift_cpu_tensors(True)
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        torch._C._set_only_lift_cpu_tensors(self._lifted)
        super().__exit__(*error)


def _compute(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Calls an operator with the tensors inside, and wraps what is on the device."""
    name = function._schema.name.removeprefix("aten::")
    tensors = [x for x in tree_flatten((args, kwargs))[0] if isinstance(x, Tensor)]
    ours = [x for x in tensors if isinstance(x, DeviceTensor)]
    others = [x for x in tensors if not isinstance(x, DeviceTensor) and x.dim() > 0]
    if ours and others and name not in _ACROSS:
        shapes = [[tuple(x.shape) for x in side] for side in (ours, others)]
        raise RuntimeError(f"{name}: tensors on two devices: {shapes[0]} and {shapes[1]}")
    device = kwargs.get("device")
    is_ours = bool(ours) if device is None else torch.device(device).type == NAME
    _count(name, args, is_ours=is_ours, was_ours=bool(ours))
    if is_ours and not function.is_view:
        counts["operators"] += 1

    def unwrapped(x: Any) -> Any:
        if isinstance(x, torch.device):
            return torch.device("cpu")
        return x.inner if isinstance(x, DeviceTensor) else x

    inner_args, inner_kwargs = tree_map(unwrapped, (args, kwargs))
    with _disable_current_modes():
        result = function(*inner_args, **inner_kwargs)
    known = {id(x.inner): x for x in ours}

    def wrapped(x: Any) -> Any:
        if not isinstance(x, Tensor):
            return x
        if id(x) in known:
            return known[id(x)]  # an operator in place
        return DeviceTensor(x) if is_ours else x

    return tree_map(wrapped, result)


def _count(name: str, args: Sequence[Any], *, is_ours: bool, was_ours: bool) -> None:
    """Counts an operator if the program has to wait for it."""
    if name in WAITING and was_ours:
        counts[name] += 1
    if name == "_to_copy" and was_ours and not is_ours:
        counts["copy to the host"] += 1
    if name == "copy_" and was_ours and not isinstance(args[0], DeviceTensor):
        counts["copy to the host"] += 1
    if name in _INDEXING and was_ours:
        if not isinstance(args[0], DeviceTensor):
            raise RuntimeError(f"{name}: a tensor of the CPU with an index on the device")
        masks = [x for x in args[1] if x is not None and x.dtype in (torch.bool, torch.uint8)]
        counts["index by a mask"] += len(masks)


def synchronizations() -> int:
    """Returns how often the program has waited for the device."""
    return counts.total() - counts["operators"]


# Without a place for autograd's inference tensors.
torch.inference_mode = (  # type: ignore[misc, assignment]
    lambda mode=True: torch.no_grad() if mode else torch.enable_grad()
)
