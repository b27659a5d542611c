"""The file of a training state: everything that decides how a run continues.

The tensors are called

* ``model.NAME``: the weights and buffers
* ``optimizer.NAME.SLOT``: the optimizer's moments of a weight, and the number of its steps
* ``ema.NAME``: the moving average of a weight, and ``ema.n_averaged``
* ``numbers``: :class:`~.state.TrainingState` and the settings of the run, as the bytes of their
  JSON, so that the checksum of the file covers them too

Random numbers are not in it: every step has a seed of its own. A file with a right checksum may
still be crafted, or come from another version of this program, so every name, shape and type is
checked before anything of it is used.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from core.config import from_mapping, without_retired
from core.errors import CheckpointError, shorten
from core.storage.checkpoint import load_tensors, save_tensors
from core.training.config import TrainConfig
from core.training.state import TrainingState


@dataclass(frozen=True)
class SavedState:
    """The content of a state file."""

    path: Path
    state: TrainingState
    config: TrainConfig
    tensors: Mapping[str, Tensor]

    def copy_into(self, tensors: Mapping[str, Tensor]) -> None:
        """Copies the saved tensors into ``tensors``: all of them, or none.

        A run that had no moving average until now begins one; that of a run which wants none any
        more is left out.

        Raises:
            CheckpointError: a tensor is missing, unknown, or has another shape or type.
        """
        saved = self.tensors
        if not (_has_average(saved) and _has_average(tensors)):
            saved, tensors = _without_average(saved), _without_average(tensors)
        for name in sorted(saved.keys() | tensors.keys()):
            found, wanted = _kind(saved.get(name)), _kind(tensors.get(name))
            if found != wanted:
                raise CheckpointError(
                    f"{self.path}: not the weights of this model: {shorten(name)} is {found}, "
                    f"not {wanted}"
                )
        with torch.no_grad():
            for name, tensor in tensors.items():
                tensor.copy_(saved[name])


def save_state(
    path: Path, state: TrainingState, config: TrainConfig, tensors: Mapping[str, Tensor]
) -> None:
    """Writes the state of a run in one atomic step.

    Raises:
        UserError: the file cannot be written; the old one stays.
    """
    numbers = json.dumps({"state": asdict(state), "train": asdict(config)}).encode()
    content = torch.frombuffer(bytearray(numbers), dtype=torch.uint8)
    save_tensors(path, {**tensors, "numbers": content})


def load_state(path: Path) -> SavedState:
    """Returns the state that :func:`save_state` wrote.

    Raises:
        CheckpointError: the file is missing or damaged, or not a training state of this version.
    """
    tensors = load_tensors(path)
    if "random.cpu" in tensors:
        init = path.parents[1]
        raise CheckpointError(f"{path}: made by an older version; start again with init={init}")
    try:
        numbers = json.loads(tensors.pop("numbers").numpy().tobytes())
        state = from_mapping(TrainingState, numbers["state"])
        config = from_mapping(TrainConfig, without_retired(TrainConfig, numbers["train"]))
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: not a training state, or of another version") from error
    return SavedState(path, state, config, tensors)


def _has_average(tensors: Mapping[str, Tensor]) -> bool:
    return "ema.n_averaged" in tensors


def _without_average(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor for name, tensor in tensors.items() if not name.startswith("ema.")}


def _kind(tensor: Tensor | None) -> str:
    return "missing" if tensor is None else f"{tensor.dtype} {list(tensor.shape)}"
