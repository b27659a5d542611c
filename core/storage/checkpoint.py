"""Files of tensors: weights and training states.

The format is safetensors: a JSON header and raw numbers, so that loading never runs code from the
file. The header has a checksum over the names, types, shapes and bytes of the tensors. A truncated
or altered file is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from ..errors import CheckpointError, UserError
from .files import atomic_write, is_file

FORMAT_VERSION = 1
WEIGHTS_FILE = "model.safetensors"


def save_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Writes ``tensors`` in one atomic step.

    Raises:
        UserError: the file cannot be written (a full disk, no permission...); an old file stays.
    """
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    header = {
        "format": "transformer-suite",
        "version": str(FORMAT_VERSION),
        "sha256": _digest(plain),
    }
    with atomic_write(path) as temporary:
        mode = temporary.stat().st_mode
        try:
            save_file(plain, temporary, metadata=header)
            temporary.chmod(mode)  # safetensors makes files that only their owner can read
        except SafetensorError as error:  # a full disk, among others
            raise UserError(f"{path}: cannot write: {error}") from error


def load_tensors(path: Path) -> dict[str, Tensor]:
    """Returns the tensors that :func:`save_tensors` wrote.

    Raises:
        CheckpointError: the file is missing, cut off, altered, or of another format or version.
    """
    if not is_file(path):
        raise CheckpointError(f"{path}: there is no such file")
    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise CheckpointError(f"{path}: damaged or not a safetensors file ({error})") from error
    if header.get("format") != "transformer-suite":
        raise CheckpointError(f"{path}: not written by Transformer Suite")
    if header.get("version") != str(FORMAT_VERSION):
        raise CheckpointError(
            f"{path}: format version {header.get('version')}, this program reads {FORMAT_VERSION}"
        )
    if header.get("sha256") != _digest(tensors):
        raise CheckpointError(f"{path}: damaged: its content does not match its checksum")
    return tensors


def model_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Returns the weights and saved buffers of ``model`` by name; shared ones appear once."""
    saved = model.state_dict(keep_vars=True)
    buffers = {name: buffer for name, buffer in model.named_buffers() if name in saved}
    return {name: tensor.detach() for name, tensor in model.named_parameters()} | buffers


def check_fits(model: nn.Module, tensors: Mapping[str, Tensor], source: Path) -> None:
    """Checks that ``tensors``, from the file ``source``, are weights for ``model``.

    Raises:
        CheckpointError: they belong to another architecture; names the difference.
    """
    wanted = model_tensors(model)
    missing = sorted(wanted.keys() - tensors.keys())
    unknown = sorted(tensors.keys() - wanted.keys())
    if missing or unknown:
        raise CheckpointError(
            f"{source}: not the weights of this model: "
            f"missing {missing[:3] or 'none'}, unknown {unknown[:3] or 'none'}"
        )
    for name, weight in wanted.items():
        if tensors[name].shape != weight.shape:
            raise CheckpointError(
                f"{source}: {name} has shape {list(tensors[name].shape)}, "
                f"the configuration asks for {list(weight.shape)}"
            )


def copy_into(model: nn.Module, tensors: Mapping[str, Tensor], source: Path) -> None:
    """Copies ``tensors``, from the file ``source``, into the weights of ``model``: all or none.

    They are converted to the type of the model.

    Raises:
        CheckpointError: they belong to another architecture; names the difference.
    """
    check_fits(model, tensors, source)
    with torch.no_grad():
        for name, weight in model_tensors(model).items():
            weight.copy_(tensors[name])


def save_weights(path: Path, model: nn.Module, *, dtype: torch.dtype | None = None) -> None:
    """Saves the weights of ``model``; floating-point ones as ``dtype``, if it is given."""
    tensors = model_tensors(model)
    if dtype is not None:
        tensors = {n: t.to(dtype) if t.is_floating_point() else t for n, t in tensors.items()}
    save_tensors(path, tensors)


def load_weights(path: Path, model: nn.Module) -> None:
    """Copies the weights in the file ``path`` into ``model``, converted to its type.

    Raises:
        CheckpointError: the file is damaged, or belongs to another architecture.
    """
    copy_into(model, load_tensors(path), path)


def average_weights(paths: Sequence[Path]) -> dict[str, Tensor]:
    """Returns the mean of the weights in several files, in float32.

    See Vaswani et al. (2017), section 6.1. The sum is taken in float64.

    Raises:
        CheckpointError: a damaged file, or one whose weights have other names or shapes.
    """
    total: dict[str, Tensor] = {}
    for path in paths:
        tensors = load_tensors(path)
        if total and (difference := _difference(total, tensors)):
            raise CheckpointError(
                f"{path}: not the weights of the same model as {paths[0]}: {difference}"
            )
        for name, tensor in tensors.items():
            total[name] = total[name] + tensor.double() if name in total else tensor.double()
    return {name: (tensor / len(paths)).float() for name, tensor in total.items()}


def _difference(ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> str:
    """Returns a description of the first difference in names and shapes; "" without any."""
    for name in sorted(ours.keys() | theirs.keys()):
        if name not in theirs:
            return f"it has no {name}"
        if name not in ours:
            return f"it alone has {name}"
        if ours[name].shape != theirs[name].shape:
            return f"{name} is {list(theirs[name].shape)}, not {list(ours[name].shape)}"
    return ""


def _digest(tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        if tensor.numel():
            digest.update(tensor.view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
