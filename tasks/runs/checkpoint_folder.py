"""Checkpoint folders: the files of a trained model, and where the shipped models are.

* ``config.json``: the task and its configuration
* ``vocabulary.txt``, ``sentencepiece.model``, ``classes.txt``: convert text to ids and back
* ``model.safetensors``: the weights, with their checksum and the digests of the text files above
* ``familiarity.safetensors``: tells texts unlike the training data
* ``confidence.safetensors``, ``language.safetensors``: a translator's confidence and languages
* ``report.html``, ``report.json``: a classifier's mistakes and figures
* ``metrics.json``: measurements and provenance
* ``history.csv``, ``steps.csv``: the training curve by epoch and by step
* ``README.md``: the model card of a shipped model
"""

import hashlib
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

from core.config import from_mapping, to_mapping, without_retired
from core.errors import CheckpointError, ConfigError, shorten, shown
from core.storage.files import (
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
CONFIDENCE_FILE = "confidence.safetensors"
FAMILIARITY_FILE = "familiarity.safetensors"
LANGUAGE_FILE = "language.safetensors"
_MANIFEST_FILE = "manifest.json"  # of version 1.0
FORMAT_VERSION = 1

# The entries of metrics.json that the program uses; null means unknown.
_METRICS_TYPES = {"parameters": int, "trained": str, "test": dict, "command": str, "init": str}

DEFAULT_MODEL = "default"
"""The name of the model that ships for a task."""

PRETRAINED = Path(__file__).resolve().parents[2] / "data" / "pretrained"

C = TypeVar("C")

Folders = str | Path | Sequence[str | Path] | None
"""A folder or the name of a shipped model, several for an ensemble, or None: the default model."""


def write_config(folder: Path, task: str, config: Any) -> None:
    """Writes ``config.json``, or raises a UserError."""
    about = {"task": task, "version": FORMAT_VERSION, **to_mapping(config)}
    write_json(folder / CONFIG_FILE, about)


def file_digests(folder: Path) -> dict[str, str]:
    """Returns the sha256 of the files that convert text to ids and back, by name."""
    return {name: hashlib.sha256(text).hexdigest() for name, text in text_files(folder).items()}


def check_files(folder: Path) -> None:
    """Compares the vocabulary and the names of classes with the digests beside the weights.

    Version 1.0 has the digests in ``manifest.json``. Raises a CheckpointError that names a file
    that was changed, added or removed.
    """
    # The list of the shipped models needs no torch, which this imports.
    from core.storage.checkpoint import WEIGHTS_FILE, read_digests

    source = folder / WEIGHTS_FILE
    right = read_digests(source) if is_file(source) else {}
    if not right and is_file(source := folder / _MANIFEST_FILE):
        manifest = read_json(source, error_class=CheckpointError)
        digests = manifest.get("sha256") if isinstance(manifest, dict) else None
        if not isinstance(digests, dict):
            raise CheckpointError(f"{source}: damaged, or of another version")
        others = (".json", ".safetensors")
        right = {name: digests[name] for name in digests if not name.endswith(others)}
    now = file_digests(folder) if right else {}
    for name in sorted(right.keys() | now.keys()):
        if right.get(name) != now.get(name):
            reason = "is missing" if name not in now else "is damaged or was changed"
            reason = f"{shorten(name)} {reason}: it does not match {source.name}"
            raise CheckpointError(f"{folder}: {reason}")


def read_config(folder: Path, task: str, config_class: type[C]) -> C:
    """Checks the files in ``folder`` and returns its configuration, or raises a CheckpointError."""
    about = describe(folder)
    if about["task"] != task:
        other = shorten(str(about["task"]))
        raise CheckpointError(f"{folder}: a model for {other}, not for {task}")
    check_files(folder)
    try:
        rest = {name: value for name, value in about.items() if name not in ("task", "version")}
        return from_mapping(config_class, without_retired(config_class, rest))
    except ConfigError as error:
        raise CheckpointError(f"{folder / CONFIG_FILE}: {error}") from error


def describe(folder: Path) -> dict[str, Any]:
    """Returns the content of ``config.json``. Raises a CheckpointError if missing or damaged."""
    path = folder / CONFIG_FILE
    if not is_file(path):
        raise CheckpointError(f"{folder}: not a checkpoint folder: there is no {CONFIG_FILE} in it")
    about = read_json(path, error_class=CheckpointError)
    if not isinstance(about, dict) or "task" not in about or "version" not in about:
        raise CheckpointError(f"{path}: not the configuration of a checkpoint")
    if about["version"] != FORMAT_VERSION:
        raise CheckpointError(
            f"{path}: format version {shown(about['version'])}, this program reads {FORMAT_VERSION}"
        )
    return about


def check_begun(folder: Path) -> None:
    """Raises a CheckpointError if there is no run in ``folder`` to resume."""
    from core.training.state import STATE_FILE, STATE_FOLDER

    for name in (CONFIG_FILE, f"{STATE_FOLDER}/{STATE_FILE}"):
        if not is_file(folder / name):
            raise CheckpointError(
                f"{folder}: nothing to resume: there is no {name} in it; "
                "begin a run without --resume, or name another --out"
            )


def read_metrics(folder: Path) -> Mapping[str, Any]:
    """Returns the content of ``metrics.json``, or {}. Raises a CheckpointError if it is damaged."""
    path = folder / METRICS_FILE
    if not is_file(path):
        return {}
    metrics = read_json(path, error_class=CheckpointError)
    if not isinstance(metrics, dict):
        raise CheckpointError(f"{path}: not the metrics of a checkpoint")
    for name, kind in _METRICS_TYPES.items():
        value = metrics.get(name)
        if value is not None and type(value) is not kind:
            raise CheckpointError(f"{path}: {name} has a wrong type: {shown(value)}")
    return metrics


def text_files(folder: Path) -> dict[str, bytes]:
    """Returns the content of the files that convert text to ids and back, by name."""
    contents = {}
    for path in sorted(path for pattern in TEXT_FILES for path in folder.glob(pattern)):
        try:
            require_regular_file(path)
            contents[path.name] = path.read_bytes()
        except OSError as error:
            raise CheckpointError(f"{path}: cannot read: {reason_of(error)}") from error
    return contents


def headline(metrics: Mapping[str, Any]) -> str:
    """Returns the most important measurement of a model, as text."""
    test = metrics.get("test") or {}
    return str(test.get("headline", "not measured"))


def model_folder(task: str, folder: str | Path | None) -> Path:
    """Returns the folder of a model of ``task``, or raises a CheckpointError if there is none.

    ``folder`` is a checkpoint folder, or the name of a shipped model if there is no such folder;
    None: the default model. Raises a TypeError for anything but a path.
    """
    if not isinstance(folder, str | PathLike | None):
        raise TypeError(f"a model is named by a str or a Path, not by {type(folder).__name__}")
    if folder is None or not is_folder(folder):
        start, name = f"{task}-", DEFAULT_MODEL if folder is None else str(folder)
        others = (path for path in shipped_models() if path.name.startswith(start))
        shipped = {DEFAULT_MODEL: PRETRAINED / task}
        shipped |= {path.name.removeprefix(start): path for path in others}
        if name not in shipped:
            raise CheckpointError(
                f"{folder}: there is no such folder; train a model, name another folder, or take a "
                f"model that ships (models): {', '.join(shipped)}"
            )
        folder = shipped[name]
        if not is_folder(folder):
            raise CheckpointError(f"{folder}: no model ships for {task}; train one, and name it")
    return Path(folder)


def model_folders(task: str, folders: Folders) -> list[Path]:
    """Returns the folders in ``folders``; see :func:`model_folder`."""
    if isinstance(folders, Sequence) and not isinstance(folders, str | bytes):
        return [model_folder(task, folder) for folder in folders]
    return [model_folder(task, folders)]


def shipped_models() -> list[Path]:
    """Returns the folders of the shipped models: TASK for a default model, else TASK-NAME."""
    return sorted(path.parent for path in PRETRAINED.glob(f"*/{CONFIG_FILE}"))
