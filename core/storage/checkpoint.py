"""Files of tensors: weights and training states.

The format is safetensors: a JSON header and raw numbers, so that loading never runs code from the
file. The header has a checksum over the names, types, shapes and bytes of the tensors; that of a
model also has the digests of the files that belong to it. A truncated or altered file is refused.
Equal tensors give equal files.
"""

import hashlib
import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from core.errors import CheckpointError, UserError, shorten, shown
from core.storage.files import atomic_write, is_file, reason_of

FORMAT_VERSION = 1
WEIGHTS_FILE = "model.safetensors"

# torch fails in many ways on larger sizes, which only the header of a crafted file has.
_MAX_SIZE = 1 << 48
_TYPES = {"F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U16", "U8", "BOOL"}

# Beside a matrix of 8-bit integers: the number that each of its rows is multiplied by.
_SCALES = ".scales"

M = TypeVar("M", bound=nn.Module)
Shapes = Mapping[str, Sequence[int]]


def save_tensors(
    path: Path, tensors: Mapping[str, Tensor], *, digests: Mapping[str, str] | None = None
) -> None:
    """Writes ``tensors`` and ``digests`` of files, or raises a UserError and keeps the old file."""
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    header = {
        "format": "transformer-suite",
        "version": str(FORMAT_VERSION),
        "sha256": _digest(plain, files := json.dumps(digests, sort_keys=True) if digests else ""),
    } | ({"files": files} if files else {})
    with atomic_write(path) as temporary:
        mode = temporary.stat().st_mode
        try:
            save_file(plain, temporary, metadata=header)
            _sort_header(temporary)
            temporary.chmod(mode)  # safetensors makes files that only their owner can read
        except SafetensorError as error:  # a full disk, among others
            raise UserError(f"{path}: cannot write: {error}") from error


def load_tensors(path: Path) -> dict[str, Tensor]:
    """Returns what :func:`save_tensors` wrote. Raises a CheckpointError for a damaged file."""
    with _opened(path) as file:
        header = file.metadata() or {}
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    if header.get("format") != "transformer-suite":
        raise CheckpointError(f"{path}: not written by Transformer Suite")
    if header.get("version") != str(FORMAT_VERSION):
        raise CheckpointError(
            f"{path}: format version {shorten(str(header.get('version')))}, "
            f"this program reads {FORMAT_VERSION}"
        )
    if header.get("sha256") != _digest(tensors, header.get("files", "")):
        raise CheckpointError(f"{path}: damaged: its content does not match its checksum")
    return _dequantized(tensors, path)


def read_digests(path: Path) -> dict[str, str]:
    """Returns the digests of other files in the header of ``path``, or raises a CheckpointError."""
    with _opened(path) as file:
        digests = json.loads((file.metadata() or {}).get("files", "{}"))
    if not isinstance(digests, dict):
        raise CheckpointError(f"{path}: damaged: the digests of other files are not readable")
    return digests


def load_optional(
    path: Path,
    shapes: Shapes,
    *,
    may_lack: Collection[str] = (),
    may_be_infinite: Collection[str] = (),
) -> dict[str, Tensor] | None:
    """Returns the tensors that :func:`save_tensors` wrote; None without the file.

    Those of the names in ``may_lack`` may be missing, those in ``may_be_infinite`` be infinite.
    Raises a CheckpointError for other names or ``shapes``, NaN or infinity, or a damaged file.
    """
    if not os.path.lexists(path):
        return None
    tensors = load_tensors(path)
    lacking = set(may_lack) - tensors.keys()
    expected = {name: shape for name, shape in shapes.items() if name not in lacking}
    _check_shapes(expected, _shapes(tensors), path)
    for name, tensor in tensors.items():
        _check_finite(name, tensor, path, is_nan_alone=name in may_be_infinite)
    return tensors


def model_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Returns the weights and saved buffers of ``model`` by name; shared ones appear once."""
    saved = model.state_dict(keep_vars=True)
    buffers = {name: buffer for name, buffer in model.named_buffers() if name in saved}
    return {name: tensor.detach() for name, tensor in model.named_parameters()} | buffers


def copy_into(model: nn.Module, tensors: Mapping[str, Tensor], source: Path) -> None:
    """Copies ``tensors``, from the file ``source``, into the weights of ``model``: all or none.

    They are converted to the type of the model. Raises a CheckpointError that names a tensor of
    another architecture, or one that is not finite.
    """
    _check_shapes(_shapes(model_tensors(model)), _shapes(tensors), source)
    for name, tensor in tensors.items():
        _check_finite(name, tensor, source)
    with torch.no_grad():
        for name, weight in model_tensors(model).items():
            weight.copy_(tensors[name])


def save_weights(
    path: Path,
    model: nn.Module,
    *,
    dtype: torch.dtype | None = None,
    digests: Mapping[str, str] | None = None,
) -> None:
    """Saves the weights of ``model``, :func:`as_stored` with ``dtype``.

    ``digests`` are those of :func:`save_tensors`.
    """
    save_tensors(path, as_stored(model_tensors(model), dtype), digests=digests)


def as_stored(tensors: Mapping[str, Tensor], dtype: torch.dtype | None) -> dict[str, Tensor]:
    """Returns the weights ``tensors`` as a file has them: floating-point ones as ``dtype``.

    As ``torch.int8``, each row of a matrix has a scale of its own: its largest magnitude is 127.
    The others are stored as they are, and so is a weight with a value beyond the range of
    ``dtype``. With None, all are.
    """
    stored = dict(tensors)
    if dtype == torch.int8:
        for name, tensor in tensors.items():
            if tensor.is_floating_point() and tensor.dim() == 2:
                scales = tensor.abs().amax(dim=1, keepdim=True).float() / 127
                rows = tensor / scales.clamp(min=torch.finfo(torch.float32).tiny)
                stored |= {name: rows.round().to(torch.int8), name + _SCALES: scales}
    elif dtype is not None:
        limit = torch.finfo(dtype).max
        for name, tensor in tensors.items():
            if tensor.is_floating_point() and not (tensor.abs() > limit).any():
                stored[name] = tensor.to(dtype)
    return stored


def load_weights(path: Path, model: nn.Module) -> None:
    """As :func:`copy_into`, with the weights that :func:`load_tensors` reads from ``path``."""
    copy_into(model, load_tensors(path), path)


def load_model(path: Path, build: Callable[[], M]) -> M:
    """Returns the model that ``build`` makes, with the weights in the file ``path``.

    A model without memory is made first, on the meta device, and compared with the header of the
    file: a configuration with huge sizes takes no memory. Raises a CheckpointError if they differ.
    """
    with torch.device("meta"), _NoRandomNumbers():
        wanted = _shapes(model_tensors(build()))
    with _opened(path) as file:
        found = {
            name: file.get_slice(name).get_shape()
            for name in file.keys()  # noqa: SIM118
            if not name.endswith(_SCALES)
        }
    _check_shapes(wanted, found, path)
    model = build()
    load_weights(path, model)
    return model


class _NoRandomNumbers(TorchFunctionMode):
    """Leaves out random initialization, for which PyTorch on "meta" imports its compiler: 1.5 s."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func.__name__ in ("normal_", "uniform_"):
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)


def average_weights(paths: Sequence[Path]) -> dict[str, Tensor]:
    """Returns the mean of the weights in several files, in float32; it is computed in float64.

    See Vaswani et al. (2017), section 6.1. Raises a CheckpointError if names or shapes differ.
    """
    total = {name: tensor.double() for name, tensor in load_tensors(paths[0]).items()}
    for path in paths[1:]:
        tensors = load_tensors(path)
        _check_shapes(_shapes(total), _shapes(tensors), path, f"the same model as {paths[0]}")
        total = {name: tensor + tensors[name].double() for name, tensor in total.items()}
    return {name: (tensor / len(paths)).float() for name, tensor in total.items()}


def _dequantized(tensors: dict[str, Tensor], path: Path) -> dict[str, Tensor]:
    """Returns ``tensors`` with the matrices of 8-bit integers as floating-point numbers."""
    for name in [name for name in tensors if name.endswith(_SCALES)]:
        scales, rows = tensors.pop(name), tensors.get(name.removesuffix(_SCALES))
        if rows is None or rows.dtype != torch.int8 or scales.shape != (len(rows), 1):
            raise CheckpointError(f"{path}: damaged: {shown(name)} does not fit to its matrix")
        tensors[name.removesuffix(_SCALES)] = rows * scales
    return tensors


def _sort_header(path: Path) -> None:
    """Sorts the names in the header of the file ``path``; safetensors writes them in any order."""
    with path.open("r+b") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
        text = json.dumps(header, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        file.seek(8)
        file.write(text.encode().ljust(size))


@contextmanager
def _opened(path: Path) -> Iterator[safe_open]:
    """Opens a file of tensors. Raises a CheckpointError for a fault in it, also in the block."""
    if not is_file(path):
        raise CheckpointError(f"{path}: there is no such file")
    try:
        path.open("rb").close()  # safetensors reports what may not be read as missing
        with safe_open(path, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118
                header = file.get_slice(name)
                is_possible = max(header.get_shape(), default=0) <= _MAX_SIZE
                if header.get_dtype() not in _TYPES or not is_possible:
                    raise ValueError(f"{shown(name)} has an impossible type or size")
            yield file
    except OSError as error:
        raise CheckpointError(f"{path}: cannot read: {reason_of(error)}") from error
    except (SafetensorError, RuntimeError, TypeError, ValueError) as error:
        reason = shorten(str(error))
        raise CheckpointError(f"{path}: damaged or not a safetensors file ({reason})") from error


def _check_shapes(wanted: Shapes, shapes: Shapes, source: Path, model: str = "this model") -> None:
    """Checks the names and ``shapes`` of the weights in ``source``, which belong to ``model``."""
    missing = [shorten(name) for name in sorted(wanted.keys() - shapes.keys())[:3]]
    unknown = [shorten(name) for name in sorted(shapes.keys() - wanted.keys())[:3]]
    if missing or unknown:
        raise CheckpointError(
            f"{source}: not the weights of {model}: "
            f"missing {missing or 'none'}, unknown {unknown or 'none'}"
        )
    for name, shape in wanted.items():
        if shapes[name] != shape:
            raise CheckpointError(
                f"{source}: not the weights of {model}: {shorten(name)} has shape "
                f"{shown(shapes[name])}, not {shown(shape)}"
            )


def _check_finite(name: str, tensor: Tensor, source: Path, *, is_nan_alone: bool = False) -> None:
    """Refuses a tensor with values that are NaN or infinite, or, if asked for, NaN alone."""
    is_wrong = tensor.isnan() if is_nan_alone else ~tensor.isfinite()
    if is_wrong.any():
        raise CheckpointError(f"{source}: {name} has values that are NaN or infinite")


def _shapes(tensors: Mapping[str, Tensor]) -> Shapes:
    return {name: list(tensor.shape) for name, tensor in tensors.items()}


def _digest(tensors: Mapping[str, Tensor], files: str) -> str:
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        if tensor.numel():
            digest.update(tensor.view(-1).view(torch.uint8).numpy().data)
    digest.update(files.encode())
    return digest.hexdigest()
