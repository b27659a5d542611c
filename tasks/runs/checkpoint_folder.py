"""Checkpoint folders: the files of a trained model, and where the shipped models are.

* ``config.json``: the task and its configuration
* ``vocabulary.txt``, ``sentencepiece.model``, ``classes.txt``: convert text to ids and back
* ``model.safetensors``: the weights, with a checksum of their own
* ``manifest.json``: the sha256 of the other files that decide the model's answers
* ``familiarity.safetensors``: tells texts unlike the training data
* ``confidence.safetensors``, ``language.safetensors``: a translator's confidence, and how it tells
  its two languages apart
* ``report.html``, ``report.json``: a classifier's mistakes and figures
* ``metrics.json``: measurements and provenance
* ``history.csv``, ``steps.csv``: the training curve by epoch and by step
* ``README.md``: the model card of a shipped model
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

from core.config import from_mapping, to_mapping, without_retired
from core.errors import CheckpointError, ConfigError, UserError, shorten, shown
from core.progress import log
from core.storage.files import (
    exists,
    is_file,
    is_folder,
    is_there,
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
CALIBRATION_FILES = (CONFIDENCE_FILE, FAMILIARITY_FILE, LANGUAGE_FILE)
MANIFEST_FILE = "manifest.json"
FORMAT_VERSION = 1

# The entries of metrics.json that the program uses; null means unknown.
_METRICS_TYPES = {"parameters": int, "trained": str, "test": dict, "command": str, "init": str}

DEFAULT_MODEL = "default"
"""The name of the model that ships for a task."""

PRETRAINED = Path(__file__).resolve().parents[2] / "data" / "pretrained"

C = TypeVar("C")

Folders = str | Path | Sequence[str | Path] | None
"""A folder or the name of a shipped model, several of them for an ensemble, or None for the default
model."""


_unsealed: set[Path] = set()  # the folders without a manifest that were reported


def write_config(folder: Path, task: str, config: Any) -> None:
    """Writes ``config.json`` and the manifest. The vocabulary must have been written before.

    The checksums in an existing manifest are kept, so that damage which a file took since then is
    not taken for the truth. A program that is killed in the middle leaves no manifest.

    Raises:
        UserError: a file cannot be written.
    """
    kept: dict[str, str] = {}
    if is_file(folder / CONFIG_FILE):
        with suppress(CheckpointError):
            kept = _read_manifest(folder) or {}
    kept.pop(CONFIG_FILE, None)
    manifest = folder / MANIFEST_FILE
    try:
        manifest.unlink(missing_ok=True)
    except OSError as error:
        raise UserError(f"{manifest}: cannot write: {reason_of(error)}") from error
    about = {"task": task, "version": FORMAT_VERSION, **to_mapping(config)}
    write_json(folder / CONFIG_FILE, about)
    _write_manifest(folder, _checksums(folder) | kept)


def seal(folder: Path) -> list[str]:
    """Writes the manifest of ``folder`` again, after its files were changed on purpose.

    Returns:
        The names of the files that are not as the manifest said.

    Raises:
        CheckpointError: ``folder`` is not a checkpoint folder.
        UserError: the manifest cannot be written.
    """
    describe(folder)
    before: dict[str, str] = {}
    with suppress(CheckpointError):
        before = _read_manifest(folder) or {}
    now = _checksums(folder)
    _write_manifest(folder, now)
    return sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))


@contextmanager
def calibration_file(folder: Path, name: str) -> Iterator[Path]:
    """Yields the path of one of the :data:`CALIBRATION_FILES`, to be written or removed.

    Then its checksum is in the manifest, if there is one. Meanwhile it is not: a program that is
    killed leaves a model that can be loaded.

    Raises:
        CheckpointError: the manifest is damaged.
        UserError: the manifest cannot be written.
    """
    path = folder / name
    manifest = _read_manifest(folder)
    if manifest is not None and manifest.pop(name, None) is not None:
        _write_manifest(folder, manifest)
    yield path
    if manifest is not None and is_there(path):
        _write_manifest(folder, manifest | {name: _checksum(path)})


def check_manifest(folder: Path) -> None:
    """Compares the files in ``folder`` with its manifest; a folder without one is reported.

    The manifest of an older program does not list the calibration files.

    Raises:
        CheckpointError: a file was changed, added or removed; names it.
    """
    manifest = _read_manifest(folder)
    if manifest is None:
        if folder not in _unsealed:
            _unsealed.add(folder)
            log(
                f"{folder}: there is no {MANIFEST_FILE}, so damaged files may go unnoticed; "
                "`models seal` writes one"
            )
        return
    now = _checksums(folder)
    for name in sorted(manifest.keys() | (now.keys() - CALIBRATION_FILES)):
        if manifest.get(name) != now.get(name):
            reason = "is missing" if name not in now else "is damaged or was changed"
            raise CheckpointError(
                f"{folder}: {shorten(name)} {reason}: it does not match {MANIFEST_FILE}; "
                "after a change on purpose, run `models seal` on the folder"
            )


def read_config(folder: Path, task: str, config_class: type[C]) -> C:
    """Returns the configuration in ``folder``, which must belong to ``task``.

    All files that decide the model's answers are compared with the manifest first.

    Raises:
        CheckpointError: there is none, it is damaged, or of another task or version; or a file is
            not as the manifest says.
    """
    about = describe(folder)
    if about["task"] != task:
        raise CheckpointError(
            f"{folder}: a model for {shorten(str(about['task']))}, not for {task}"
        )
    check_manifest(folder)
    try:
        rest = {name: value for name, value in about.items() if name not in ("task", "version")}
        return from_mapping(config_class, without_retired(config_class, rest))
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
            f"{path}: format version {shown(about['version'])}, this program reads {FORMAT_VERSION}"
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
    """Returns the content of ``metrics.json``; empty without that file.

    Raises:
        CheckpointError: it is damaged, or an entry that the program uses has another type.
    """
    path = folder / METRICS_FILE
    if not is_file(path):
        return {}
    metrics = _read_json(path)
    if not isinstance(metrics, dict):
        raise CheckpointError(f"{path}: not the metrics of a checkpoint")
    for name, kind in _METRICS_TYPES.items():
        value = metrics.get(name)
        if value is not None and type(value) is not kind:
            raise CheckpointError(f"{path}: {name} has a wrong type: {shown(value)}")
    return metrics


def text_files(folder: Path) -> dict[str, bytes]:
    """Returns the content of the files that convert text to ids and back, by name."""
    return {path.name: _read_bytes(path) for path in _text_paths(folder)}


def headline(metrics: Mapping[str, Any]) -> str:
    """Returns the most important measurement of a model, as text."""
    test = metrics.get("test") or {}
    return str(test.get("headline", "not measured"))


def model_folder(task: str, folder: str | Path | None) -> Path:
    """Returns the folder of a model of ``task``.

    Args:
        folder: a checkpoint folder; None, or ``default`` if there is no such folder: the model that
            ships for the task.

    Raises:
        CheckpointError: there is neither.
        TypeError: not a path.
    """
    if not isinstance(folder, str | PathLike | None):
        raise TypeError(f"a model is named by a str or a Path, not by {type(folder).__name__}")
    if folder is None or (str(folder) == DEFAULT_MODEL and not is_folder(folder)):
        folder = PRETRAINED / task
        if not is_folder(folder):
            raise CheckpointError(f"{folder}: no model ships for {task}; train one, and name it")
    elif not is_folder(folder):
        raise CheckpointError(
            f"{folder}: there is no such folder; train a model, name another folder, or take the "
            f"model that ships, {DEFAULT_MODEL}"
        )
    return Path(folder)


def model_folders(task: str, folders: Folders) -> list[Path]:
    """Returns the folders in ``folders``; see :func:`model_folder`."""
    if isinstance(folders, Sequence) and not isinstance(folders, str | bytes):
        return [model_folder(task, folder) for folder in folders]
    return [model_folder(task, folders)]


def shipped_models() -> list[Path]:
    """Returns the folders of the shipped models, which have the names of their tasks."""
    return sorted(path.parent for path in PRETRAINED.glob(f"*/{CONFIG_FILE}"))


def _text_paths(folder: Path) -> list[Path]:
    return sorted(path for pattern in TEXT_FILES for path in folder.glob(pattern))


def _checksums(folder: Path) -> dict[str, str]:
    """Returns the sha256 of the files that decide the answers of the model, by name."""
    paths = [folder / CONFIG_FILE, *_text_paths(folder)]
    paths += [folder / name for name in CALIBRATION_FILES if is_there(folder / name)]
    return {path.name: _checksum(path) for path in paths}


def _checksum(path: Path) -> str:
    return hashlib.sha256(_read_bytes(path)).hexdigest()


def _write_manifest(folder: Path, checksums: Mapping[str, str]) -> None:
    write_json(folder / MANIFEST_FILE, {"version": FORMAT_VERSION, "sha256": dict(checksums)})


def _read_manifest(folder: Path) -> dict[str, str] | None:
    """Returns the checksums in the manifest by file name; None without a manifest."""
    path = folder / MANIFEST_FILE
    if not exists(path):
        return None
    manifest = _read_json(path)
    checksums = manifest.get("sha256") if isinstance(manifest, dict) else None
    if not isinstance(checksums, dict) or manifest != {
        "version": FORMAT_VERSION,
        "sha256": checksums,
    }:
        raise CheckpointError(f"{path}: damaged, or of another version")
    return checksums


def _read_bytes(path: Path) -> bytes:
    try:
        require_regular_file(path)
        return path.read_bytes()
    except OSError as error:
        raise CheckpointError(f"{path}: cannot read: {reason_of(error)}") from error


def _read_json(path: Path) -> object:
    try:
        return read_json(path)
    except UserError as error:
        raise CheckpointError(str(error)) from error
