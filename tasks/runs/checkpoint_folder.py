"""Checkpoint folders: the files of a trained model, and where the shipped models are.

* ``config.json``: the task and its configuration
* ``vocabulary.txt``, ``sentencepiece.model``, ``classes.txt``: convert text to ids and back
* ``model.safetensors``: the weights
* ``metrics.json``: measurements and provenance
* ``history.csv``, ``steps.csv``: the training curve by epoch and by step
* ``README.md``: the model card of a shipped model
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from transformer_suite.core.config import from_mapping, to_mapping
from transformer_suite.core.errors import CheckpointError, ConfigError, UserError
from transformer_suite.core.storage.files import (
    is_file,
    is_folder,
    read_json,
    reason_of,
    require_regular_file,
    write_json,
)

CONFIG_FILE = "config.json"
METRICS_FILE = "metrics.json"
TEXT_FILES = ("vocabulary*.txt", "sentencepiece*.model", "classes.txt")
FORMAT_VERSION = 1
PRETRAINED = Path(__file__).resolve().parents[2] / "data" / "pretrained"

C = TypeVar("C")

Folders = str | Path | Sequence[str | Path] | None
"""A folder, several folders for an ensemble, or None for the shipped model."""


def write_config(folder: Path, task: str, config: Any) -> None:
    """Writes ``config.json``."""
    about = {"task": task, "version": FORMAT_VERSION, **to_mapping(config)}
    write_json(folder / CONFIG_FILE, about)


def read_config(folder: Path, task: str, config_class: type[C]) -> C:
    """Returns the configuration in ``folder``, which must belong to ``task``.

    Raises:
        CheckpointError: there is none, it is damaged, or of another task or version.
    """
    about = describe(folder)
    if about["task"] != task:
        raise CheckpointError(f"{folder}: a model for {about['task']}, not for {task}")
    try:
        rest = {name: value for name, value in about.items() if name not in ("task", "version")}
        return from_mapping(config_class, rest)
    except ConfigError as error:
        raise CheckpointError(f"{folder / CONFIG_FILE}: {error}") from error


def describe(folder: Path) -> dict[str, Any]:
    """Returns the content of ``config.json``.

    Raises:
        CheckpointError: there is none, it is damaged, or of another version.
    """
    path = folder / CONFIG_FILE
    if not is_file(path):
        raise CheckpointError(f"{folder}: not a checkpoint folder: there is no {CONFIG_FILE} in it")
    about = _read_json(path)
    if not isinstance(about, dict) or "task" not in about or "version" not in about:
        raise CheckpointError(f"{path}: not the configuration of a checkpoint")
    if about["version"] != FORMAT_VERSION:
        raise CheckpointError(
            f"{path}: format version {about['version']}, this program reads {FORMAT_VERSION}"
        )
    return about


def check_begun(folder: Path) -> None:
    """Raises a CheckpointError if there is no run in ``folder`` to resume."""
    if not is_file(folder / CONFIG_FILE):
        raise CheckpointError(
            f"{folder}: nothing to resume: there is no {CONFIG_FILE} in it; "
            "begin the run without --resume"
        )


def read_metrics(folder: Path) -> Mapping[str, Any]:
    """Returns the content of ``metrics.json``, empty without that file, if it is not damaged."""
    path = folder / METRICS_FILE
    if not is_file(path):
        return {}
    metrics = _read_json(path)
    if not isinstance(metrics, dict):
        raise CheckpointError(f"{path}: not the metrics of a checkpoint")
    return metrics


def text_files(folder: Path) -> dict[str, bytes]:
    """Returns the content of the files that convert text to ids and back, by name."""
    paths = sorted(path for pattern in TEXT_FILES for path in folder.glob(pattern))
    try:
        for path in paths:
            require_regular_file(path)
        return {path.name: path.read_bytes() for path in paths}
    except OSError as error:
        raise CheckpointError(f"{error.filename}: cannot read: {reason_of(error)}") from error


def headline(metrics: Mapping[str, Any]) -> str:
    """Returns the most important measurement of a model, as text."""
    test = metrics.get("test") or {}
    return str(test.get("headline", "not measured"))


def model_folder(task: str, folder: str | Path | None) -> Path:
    """Returns ``folder``, or that of the shipped model; a CheckpointError if it is missing."""
    if folder is None:
        folder = PRETRAINED / task
        if not is_folder(folder):
            raise CheckpointError(f"{folder}: no model ships for {task}; train one, and name it")
    elif not is_folder(folder):
        raise CheckpointError(
            f"{folder}: there is no such folder; train a model, or name another folder"
        )
    return Path(folder)


def model_folders(task: str, folders: Folders) -> list[Path]:
    """Returns the folders in ``folders``; see :func:`model_folder`."""
    if folders is None or isinstance(folders, str | Path):
        return [model_folder(task, folders)]
    return [model_folder(task, folder) for folder in folders]


def shipped_models() -> list[Path]:
    """Returns the folders of the shipped models, one for each task."""
    return sorted(path.parent for path in PRETRAINED.glob(f"*/{CONFIG_FILE}"))


def _read_json(path: Path) -> object:
    try:
        return read_json(path)
    except UserError as error:
        raise CheckpointError(str(error)) from error
