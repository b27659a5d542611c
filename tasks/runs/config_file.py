"""Configuration files: TOML written by users, and the ``config.json`` of a run."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from core.config import from_mapping, to_mapping
from core.errors import ConfigError, shorten
from core.storage.files import reason_of, require_regular_file

_MAX_BYTES = 1 << 20


def merge_file(config: Any, path: Path, *, task: str) -> Any:
    """Returns ``config`` with the values of a file in place of its own.

    Args:
        path: a TOML file, or the ``config.json`` of a run or a model, which names its task.

    Raises:
        ConfigError: the file cannot be read, is for another task, or has an unknown name or a value
            that cannot be used.
    """
    merged = to_mapping(config)
    for name, section in _read(path, task).items():
        is_section = isinstance(section, dict) and isinstance(merged.get(name), dict)
        merged[name] = merged[name] | section if is_section else section
    try:
        return from_mapping(type(config), merged)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def _read(path: Path, task: str) -> dict[str, Any]:
    """Returns the sections of a file."""
    is_json = path.suffix == ".json"
    try:
        require_regular_file(path)
        if path.stat().st_size > _MAX_BYTES:
            raise OSError("too large for a configuration")
        text = path.read_text(encoding="utf-8")
        sections = json.loads(text) if is_json else tomllib.loads(text)
    except OSError as error:
        raise ConfigError(f"{path}: cannot read: {reason_of(error)}") from error
    except RecursionError as error:
        raise ConfigError(f"{path}: nested too deeply") from error
    except ValueError as error:  # of tomllib, of json, or of UTF-8
        kind = "JSON" if is_json else "TOML"
        raise ConfigError(f"{path}: not valid {kind}: {shorten(str(error))}") from error
    if not isinstance(sections, dict):
        raise ConfigError(f"{path}: not a configuration")
    if is_json:
        sections.pop("version", None)
        if (other := sections.pop("task", task)) != task:
            raise ConfigError(f"{path}: a configuration for {shorten(str(other))}, not for {task}")
    return sections
