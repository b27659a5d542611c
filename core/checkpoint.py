"""Files of weights and of training state: whole, verified, and never executed.

Everything is stored as safetensors: a JSON header and raw numbers. A checksum over names, types, shapes and
bytes is kept in the header, so that a truncated or altered file is recognised and refused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from .errors import CheckpointError
from .files import atomic_write

FORMAT_VERSION = 1
WEIGHTS_FILE = "model.safetensors"


def save_tensors(path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> None:
    """Writes ``tensors`` and the JSON-able ``about`` in one atomic step.

    Raises:
        UserError: the disk is full, the folder cannot be written...; what was there stays.
    """
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    header = {
        "format": "transformer-suite",
        "version": str(FORMAT_VERSION),
        "sha256": _digest(plain),
        "about": json.dumps(about, ensure_ascii=False, allow_nan=False),
    }
    with atomic_write(path) as temporary:
        save_file(plain, temporary, metadata=header)


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What :func:`save_tensors` wrote.

    Raises:
        CheckpointError: the file is missing, cut off, altered, or of another format or version.
    """
    if not path.is_file():
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
    return tensors, json.loads(header["about"])


def model_tensors(model: nn.Module) -> dict[str, Tensor]:
    """The weights of ``model`` by name, a shared one once."""
    return {name: parameter.detach() for name, parameter in model.named_parameters()} | {
        name: buffer
        for name, buffer in model.named_buffers()
        if name in model.state_dict(keep_vars=True)
    }


def save_weights(
    path: Path, tensors: Mapping[str, Tensor], *, dtype: torch.dtype | None = None
) -> None:
    """Saves weights, floating-point ones as ``dtype`` if one is given."""
    if dtype is not None:
        tensors = {n: t.to(dtype) if t.is_floating_point() else t for n, t in tensors.items()}
    save_tensors(path, tensors, {"kind": "weights"})


def load_weights(path: Path, model: nn.Module) -> None:
    """Copies the weights in ``path`` into ``model`` (converted to the model's precision).

    Raises:
        CheckpointError: damaged, or not the weights of this architecture; names what differs.
    """
    tensors, _ = load_tensors(path)
    wanted = model_tensors(model)
    missing = sorted(wanted.keys() - tensors.keys())
    unknown = sorted(tensors.keys() - wanted.keys())
    if missing or unknown:
        raise CheckpointError(
            f"{path}: not the weights of this model: "
            f"missing {missing[:3] or 'none'}, unknown {unknown[:3] or 'none'}"
        )
    for name, tensor in tensors.items():
        if tensor.shape != wanted[name].shape:
            raise CheckpointError(
                f"{path}: {name} has shape {list(tensor.shape)}, "
                f"the configuration asks for {list(wanted[name].shape)}"
            )
    with torch.no_grad():
        for name, tensor in tensors.items():
            wanted[name].copy_(tensor)


def _digest(tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        if tensor.numel():
            digest.update(tensor.view(-1).view(torch.uint8).numpy())
    return digest.hexdigest()
