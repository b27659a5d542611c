"""The mean of several checkpoints' weights as a new checkpoint (Vaswani et al. 2017, 6.1)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from transformer_suite.core.config import to_mapping
from transformer_suite.core.errors import CheckpointError, ConfigError, UserError
from transformer_suite.core.storage.checkpoint import (
    WEIGHTS_FILE,
    average_weights,
    copy_into,
    save_weights,
)
from transformer_suite.core.storage.files import new_folder, write_json
from transformer_suite.core.training.kept_checkpoints import disk_dtype, epoch_file, kept_epochs
from transformer_suite.core.training.state import STATE_FOLDER
from transformer_suite.tasks import registry
from transformer_suite.tasks.runs.checkpoint_folder import (
    METRICS_FILE,
    describe,
    read_config,
    text_files,
    write_config,
)
from transformer_suite.tasks.runs.provenance import provenance

_EPOCH_FILE = re.compile(r"epoch-[0-9]+\.safetensors")


@dataclass(frozen=True)
class Checkpoint:
    """Weights, and the folder whose configuration and vocabulary they go with."""

    path: Path
    """As it was named: the folder itself, or the weights of one epoch of the run in it."""
    folder: Path
    weights: Path


def average(paths: Sequence[Path], out: Path) -> dict[str, Any]:
    """Leaves the mean of some checkpoints' weights in the new folder ``out``, and describes it.

    Everything but the weights is the first checkpoint's. The mean is taken in float64, one
    checkpoint in memory at a time.

    Args:
        paths: checkpoint folders, or files ``training/epoch-NNN.safetensors`` of runs.

    Returns:
        What ``metrics.json`` says: what the model is the mean of, and that nobody measured it.

    Raises:
        ConfigError: fewer than two checkpoints, or one of them twice.
        CheckpointError: one is incomplete or damaged, or they are not of one kind: another task,
            configuration or vocabulary; names both and what differs.
        UserError: ``out`` is there already, or cannot be written.
    """
    if out.exists():
        raise UserError(f"{out}: is there already; name another folder")
    checkpoints = [_find(path) for path in paths]
    _check_number(checkpoints)
    first = checkpoints[0]
    task = str(describe(first.folder)["task"])
    for other in checkpoints[1:]:
        _check_alike(task, first, other)
    model = registry.load_model(task, first.folder, device="cpu")
    copy_into(model, average_weights([one.weights for one in checkpoints]), first.path)
    config = read_config(first.folder, task, registry.config_class(task))
    metrics = _metrics(task, checkpoints, sum(p.numel() for p in model.parameters()))
    with new_folder(out) as folder:
        for name, content in text_files(first.folder).items():
            (folder / name).write_bytes(content)
        write_config(folder, task, config)
        write_json(folder / METRICS_FILE, metrics)
        save_weights(folder / WEIGHTS_FILE, model, dtype=disk_dtype(config.train))
    return metrics


def best_epochs(run: Path, count: int) -> list[Path]:
    """The weights of the ``count`` best epochs of the run in the folder ``run``.

    Raises:
        CheckpointError: there is no run, it is damaged, or it has kept fewer epochs.
    """
    return _files(run, sorted(_kept(run, count)[:count]))


def last_epochs(run: Path, count: int) -> list[Path]:
    """The weights of the last ``count`` of the epochs that the run in the folder ``run`` has kept.

    A run keeps its best epochs, unless ``train.average_of`` says otherwise; between the last of
    them there may have been others.

    Raises:
        CheckpointError: there is no run, it is damaged, or it has kept fewer epochs.
    """
    return _files(run, sorted(_kept(run, count))[-count:])


def _kept(run: Path, count: int) -> list[int]:
    """The epochs that ``run`` has kept, the best first; at least ``count``."""
    describe(run)
    epochs = kept_epochs(run)
    if len(epochs) < count:
        names = ", ".join(map(str, sorted(epochs)))
        raise CheckpointError(
            f"{run}: the run has kept the weights of {len(epochs)} epochs"
            f"{f' ({names})' if names else ''}, not of {count}: a run keeps "
            "train.average epochs"
        )
    return epochs


def _files(run: Path, epochs: Sequence[int]) -> list[Path]:
    return [epoch_file(run, epoch) for epoch in epochs]


def _find(path: Path) -> Checkpoint:
    """The checkpoint that ``path`` names."""
    is_epoch = _EPOCH_FILE.fullmatch(path.name) and path.absolute().parent.name == STATE_FOLDER
    if is_epoch:
        return Checkpoint(path, path.absolute().parents[1], path)
    if path.is_file():
        raise CheckpointError(
            f"{path}: neither a checkpoint folder nor one of a run's files "
            f"{STATE_FOLDER}/epoch-NNN.safetensors"
        )
    return Checkpoint(path, path, path / WEIGHTS_FILE)


def _check_number(checkpoints: Sequence[Checkpoint]) -> None:
    if len(checkpoints) < 2:
        raise ConfigError(f"a mean takes two checkpoints or more, not {len(checkpoints)}")
    seen = set()
    for one in checkpoints:
        resolved = one.weights.resolve()
        if resolved in seen:
            raise ConfigError(f"{one.path}: named twice: it would weigh more than the others")
        seen.add(resolved)


def _check_alike(task: str, first: Checkpoint, other: Checkpoint) -> None:
    """Makes sure that the weights of both mean the same: one task, configuration, vocabulary.

    How they were trained may differ.
    """
    theirs = describe(other.folder)["task"]
    if theirs != task:
        raise CheckpointError(
            f"{other.path} is a model for {theirs}, {first.path} one for {task}: "
            "only models of one task have a mean"
        )
    _check_same_config(task, first, other)
    ours, others = text_files(first.folder), text_files(other.folder)
    for name in sorted(ours.keys() | others.keys()):
        if ours.get(name) != others.get(name):
            raise CheckpointError(
                f"{other.path} and {first.path} differ in {name}: "
                "only models of one vocabulary have a mean"
            )


def _check_same_config(task: str, first: Checkpoint, other: Checkpoint) -> None:
    ours, theirs = (
        to_mapping(read_config(one.folder, task, registry.config_class(task)))
        for one in (first, other)
    )
    for section, values in ours.items():
        for key, value in values.items():
            its = theirs[section][key]
            if section != "train" and its != value:
                raise CheckpointError(
                    f"{other.path} has {section}.{key} = {its!r}, {first.path} has {value!r}: "
                    "only models of one configuration have a mean"
                )


def _metrics(task: str, checkpoints: Sequence[Checkpoint], parameters: int) -> dict[str, Any]:
    return provenance(task) | {
        "average_of": [str(one.path) for one in checkpoints],
        "note": "the mean of these checkpoints' weights, which nobody has measured yet",
        "parameters": parameters,
        "made": datetime.now(UTC).date().isoformat(),
    }
