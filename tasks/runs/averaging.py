"""Averages the weights of several checkpoints (Vaswani et al. 2017, section 6.1)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from core.config import to_mapping
from core.errors import CheckpointError, ConfigError, UserError
from core.storage.checkpoint import (
    WEIGHTS_FILE,
    average_weights,
    copy_into,
    save_weights,
)
from core.storage.files import exists, is_file, new_folder, write_json
from core.training.kept_checkpoints import disk_dtype, epoch_file, kept_epochs
from core.training.state import STATE_FOLDER
from tasks import registry
from tasks.runs.checkpoint_folder import (
    METRICS_FILE,
    describe,
    read_config,
    text_files,
    write_config,
)
from tasks.runs.provenance import provenance

_EPOCH_FILE = re.compile(r"epoch-[0-9]+\.safetensors")


@dataclass(frozen=True)
class Checkpoint:
    """Weights, and the folder with their configuration and vocabulary."""

    path: Path
    """The path that the user named: the folder, or the weights of one epoch in it."""
    folder: Path
    weights: Path


def average(paths: Sequence[Path], out: Path) -> dict[str, Any]:
    """Writes a checkpoint with the mean of the weights of others to the new folder ``out``.

    Everything but the weights is copied from the first checkpoint. The mean is taken in float64,
    with one checkpoint in memory at a time. Returns the content of ``metrics.json``, which has no
    measurements.

    Args:
        paths: checkpoint folders, or files ``training/epoch-NNN.safetensors`` of runs.

    Raises:
        ConfigError: there are fewer than two checkpoints, or one is named twice.
        CheckpointError: one is incomplete or damaged, or two differ in their task, configuration or
            vocabulary; names both, and the difference.
        UserError: ``out`` exists, or cannot be written.
    """
    if exists(out):
        raise UserError(f"{out}: already exists; name another folder")
    checkpoints = [_find(path) for path in paths]
    if len(checkpoints) < 2:
        raise ConfigError(f"an average needs two checkpoints or more, not {len(checkpoints)}")
    resolved = [checkpoint.weights.resolve() for checkpoint in checkpoints]
    for number, checkpoint in enumerate(checkpoints):
        if resolved[number] in resolved[:number]:
            raise ConfigError(f"{checkpoint.path}: named twice")
    first = checkpoints[0]
    task = str(describe(first.folder)["task"])
    for other in checkpoints[1:]:
        _check_alike(task, first, other)
    model = registry.load_model(task, first.folder, device="cpu")
    weights = average_weights([checkpoint.weights for checkpoint in checkpoints])
    copy_into(model, weights, first.path)
    config = read_config(first.folder, task, registry.config_class(task))
    metrics = provenance(task) | {
        "average_of": [str(checkpoint.path) for checkpoint in checkpoints],
        "note": "the mean of the weights of these checkpoints; not measured yet",
        "parameters": sum(p.numel() for p in model.parameters()),
        "made": datetime.now(UTC).date().isoformat(),
    }
    with new_folder(out) as folder:
        for name, content in text_files(first.folder).items():
            (folder / name).write_bytes(content)
        write_config(folder, task, config)
        write_json(folder / METRICS_FILE, metrics)
        save_weights(folder / WEIGHTS_FILE, model, dtype=disk_dtype(config.train))
    return metrics


def best_epochs(run: Path, count: int) -> list[Path]:
    """Returns the weights of the ``count`` best epochs of the run in the folder ``run``.

    Raises:
        CheckpointError: there is no run, it is damaged, or it has kept fewer epochs.
    """
    return [epoch_file(run, epoch) for epoch in sorted(_kept(run, count)[:count])]


def last_epochs(run: Path, count: int) -> list[Path]:
    """Returns the weights of the last ``count`` epochs that the run in ``run`` has kept.

    A run keeps its best epochs, unless ``train.average_of`` is "last"; so they need not follow one
    another. The errors are those of :func:`best_epochs`.
    """
    return [epoch_file(run, epoch) for epoch in sorted(_kept(run, count))[-count:]]


def _kept(run: Path, count: int) -> list[int]:
    """Returns the epochs that ``run`` has kept, the best first; at least ``count``."""
    describe(run)
    epochs = kept_epochs(run)
    if len(epochs) < count:
        names = ", ".join(map(str, sorted(epochs)))
        raise CheckpointError(
            f"{run}: the run has kept the weights of {len(epochs)} epochs"
            f"{f' ({names})' if names else ''}, not of {count}: a run keeps train.average epochs"
        )
    return epochs


def _find(path: Path) -> Checkpoint:
    is_epoch = _EPOCH_FILE.fullmatch(path.name) and path.absolute().parent.name == STATE_FOLDER
    if is_epoch:
        return Checkpoint(path, path.absolute().parents[1], path)
    if is_file(path):
        raise CheckpointError(
            f"{path}: neither a checkpoint folder nor one of a run's files "
            f"{STATE_FOLDER}/epoch-NNN.safetensors"
        )
    return Checkpoint(path, path, path / WEIGHTS_FILE)


def _check_alike(task: str, first: Checkpoint, other: Checkpoint) -> None:
    """Checks that both have the same task, model, data and search options, and vocabulary."""
    other_task = describe(other.folder)["task"]
    if other_task != task:
        raise CheckpointError(
            f"{other.path} is a model for {other_task}, {first.path} one for {task}: "
            "only models of the same task can be averaged"
        )
    first_config, other_config = _settings(task, first), _settings(task, other)
    for name, value in first_config.items():
        if other_config[name] != value:
            raise CheckpointError(
                f"{other.path} has {name} = {other_config[name]!r}, {first.path} has {value!r}: "
                "only models with the same configuration can be averaged"
            )
    first_files, other_files = text_files(first.folder), text_files(other.folder)
    for name in sorted(first_files.keys() | other_files.keys()):
        if first_files.get(name) != other_files.get(name):
            raise CheckpointError(
                f"{other.path} and {first.path} differ in {name}: "
                "only models with the same vocabulary can be averaged"
            )


def _settings(task: str, checkpoint: Checkpoint) -> dict[str, Any]:
    """Returns the configuration without the section ``train``, which may differ."""
    config = to_mapping(read_config(checkpoint.folder, task, registry.config_class(task)))
    return {
        f"{section}.{key}": value
        for section, values in config.items()
        for key, value in values.items()
        if section != "train"
    }
