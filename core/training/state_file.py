"""The file of a training state: everything that decides how a run continues.

The tensors are called

* ``model.NAME``: the weights and buffers
* ``optimizer.NAME.SLOT``: the optimizer's moments of a weight, and the number of its steps
* ``ema.NAME``: the moving average of a weight
* ``random.cpu``, ``random.cuda``: the states of the random number generators
* ``numbers``: :class:`~.state.TrainingState` and the settings of the run, as the bytes of their
  JSON, so that the checksum of the file covers them too

A file with a right checksum may still be crafted, or come from another version of this program. So
every name, shape, type and number is checked before anything of it is used.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from core.errors import CheckpointError
from core.storage.checkpoint import check_fits, copy_into, load_tensors, model_tensors, save_tensors
from core.training.config import TrainConfig
from core.training.ema import MovingAverage
from core.training.state import TrainingState

_SLOTS = {"step", "exp_avg", "exp_avg_sq"}
_RANDOM = {"random.cpu", "random.cuda"}
_MAX_STEPS = 1 << 53


@dataclass
class Trained:
    """The parts of a run that change in training and have tensors.

    Args:
        parameters: the trained parameters by name.
        ema: the moving average of ``parameters``, in their order, or None.
    """

    model: nn.Module
    parameters: Mapping[str, nn.Parameter]
    optimizer: torch.optim.Optimizer
    ema: MovingAverage | None
    device: torch.device


def save_state(path: Path, trained: Trained, state: TrainingState, config: TrainConfig) -> None:
    """Writes the state of a run in one atomic step.

    Raises:
        UserError: the file cannot be written; the old one stays.
    """
    tensors = {f"model.{name}": t for name, t in model_tensors(trained.model).items()}
    for name, parameter in trained.parameters.items():
        for slot, value in trained.optimizer.state.get(parameter, {}).items():
            tensors[f"optimizer.{name}.{slot}"] = value
    if trained.ema is not None:
        averages = zip(trained.parameters, trained.ema.tensors, strict=True)
        tensors.update((f"ema.{name}", average) for name, average in averages)
    tensors["random.cpu"] = torch.get_rng_state()
    if trained.device.type == "cuda":
        tensors["random.cuda"] = torch.cuda.get_rng_state(trained.device)
    numbers = json.dumps({"state": asdict(state), "train": asdict(config)})
    tensors["numbers"] = torch.frombuffer(bytearray(numbers.encode()), dtype=torch.uint8)
    save_tensors(path, tensors)


class StateFile:
    """The state in the file ``path``, read and checked as far as possible without its model.

    Raises:
        CheckpointError: the file is missing or damaged, or not a training state of this version.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._tensors = load_tensors(path)
        try:
            numbers = json.loads(self._tensors.pop("numbers").numpy().tobytes())
            self.state = TrainingState.from_mapping(numbers["state"])
            self.settings: dict[str, Any] = dict(numbers["train"])
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise self._refused("not a training state, or of another version") from error

    def restore(self, trained: Trained) -> None:
        """Copies the tensors into ``trained``: all of them, or none.

        Raises:
            CheckpointError: a tensor is missing, unknown, or has a wrong shape, type or content.
        """
        groups = self._grouped()
        self._check_weights(trained, groups["model"])
        self._check_optimizer(trained, groups["optimizer"])
        self._check_average(trained, groups["ema"])
        self._restore_random(trained.device)
        copy_into(trained.model, groups["model"], self.path)
        for name, parameter in trained.parameters.items():
            slots = {slot: groups["optimizer"].get(f"{name}.{slot}") for slot in sorted(_SLOTS)}
            # Copies, because the loaded tensors are views of the file.
            moments = {
                s: t.to(trained.device, copy=True) for s, t in slots.items() if t is not None
            }
            if moments:
                trained.optimizer.state[parameter] = moments
        if trained.ema is not None:
            # A run that had no average until now begins with its weights.
            averages = groups["ema"] or groups["model"]
            for name, average in zip(trained.parameters, trained.ema.tensors, strict=True):
                average.copy_(averages[name])

    def _grouped(self) -> dict[str, dict[str, Tensor]]:
        """The tensors by the first part of their names, and then by the rest."""
        groups: dict[str, dict[str, Tensor]] = {"model": {}, "optimizer": {}, "ema": {}}
        for full_name, tensor in self._tensors.items():
            group, _, name = full_name.partition(".")
            if group in groups:
                groups[group][name] = tensor
            elif full_name not in _RANDOM:
                raise self._refused(f"unknown tensor {full_name[:80]!r}")
        return groups

    def _check_weights(self, trained: Trained, tensors: Mapping[str, Tensor]) -> None:
        check_fits(trained.model, tensors, self.path)
        for name, weight in model_tensors(trained.model).items():
            self._check_tensor(f"model.{name}", tensors[name], weight)

    def _check_optimizer(self, trained: Trained, tensors: Mapping[str, Tensor]) -> None:
        found: dict[str, set[str]] = {}
        for full_name, tensor in tensors.items():
            name, _, slot = full_name.rpartition(".")
            parameter = trained.parameters.get(name)
            if parameter is None or slot not in _SLOTS:
                raise self._refused(f"unknown tensor {f'optimizer.{full_name}'[:80]!r}")
            found.setdefault(name, set()).add(slot)
            like = torch.zeros(()) if slot == "step" else parameter
            self._check_tensor(f"optimizer.{full_name}", tensor, like)
            if slot == "step" and not 0.0 <= tensor.item() <= _MAX_STEPS:
                raise self._refused(f"optimizer.{full_name} is {tensor.item()}")
        for name, slots in found.items():
            if slots != _SLOTS:
                raise self._refused(f"optimizer.{name} is incomplete")

    def _check_average(self, trained: Trained, tensors: Mapping[str, Tensor]) -> None:
        if trained.ema is None or not tensors:
            return
        if tensors.keys() != trained.parameters.keys():
            raise self._refused("the moving average is of other weights")
        for name, parameter in trained.parameters.items():
            self._check_tensor(f"ema.{name}", tensors[name], parameter)

    def _check_tensor(self, name: str, tensor: Tensor, like: Tensor) -> None:
        if tensor.shape != like.shape or tensor.dtype != like.dtype:
            raise self._refused(
                f"{name} is {tensor.dtype} {list(tensor.shape)}, "
                f"not {like.dtype} {list(like.shape)}"
            )

    def _restore_random(self, device: torch.device) -> None:
        """Sets the states of the random number generators, or leaves both as they are."""
        before = torch.get_rng_state()
        state = self._tensors.get("random.cpu")
        if state is None or not _is_cpu_state(state):
            raise self._refused("random.cpu is not the state of a random number generator")
        try:
            torch.set_rng_state(state)
            if device.type == "cuda" and "random.cuda" in self._tensors:
                torch.cuda.set_rng_state(self._tensors["random.cuda"], device)
        except (RuntimeError, TypeError, ValueError) as error:
            torch.set_rng_state(before)
            raise self._refused("not the states of random number generators") from error

    def _refused(self, reason: str) -> CheckpointError:
        return CheckpointError(f"{self.path}: {reason}")


def _is_cpu_state(state: Tensor) -> bool:
    """Whether ``state`` can be given to torch's generator.

    torch checks the size, but not that the place in the generator's 624 words agrees with the
    number of words that are left: with a larger place it would read beyond them.
    """
    example = torch.Generator().manual_seed(1).get_state()
    if state.dtype != example.dtype or state.shape != example.shape:
        return False
    words = 624
    seed, left, is_seeded, place = _generator_header(example)
    if (seed, left, is_seeded, place) != (1, 1, 1, 0):
        return True  # another layout than the one known here: torch's own checks must do
    _, left, is_seeded, place = _generator_header(state)
    return is_seeded == 1 and left >= 1 and (left, place) in ((1, 0), (words + 1 - place, place))


def _generator_header(state: Tensor) -> tuple[int, int, int, int]:
    """The first fields of ATen's ``CPUGeneratorImplStateLegacy``: seed, left, seeded, next."""
    seed, left, is_seeded, place = struct.unpack_from("<QiiQ", state.numpy().tobytes())
    return seed, left, is_seeded, place
