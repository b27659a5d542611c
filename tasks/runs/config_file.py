"""The configuration of a run: a preset, changed by a file and by assignments."""

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from core.config import check_choice, from_mapping, override, to_mapping, without_retired
from core.errors import ConfigError, shorten
from core.storage.files import read_json, read_text
from tasks.task import Task


def make_config(
    task: Task,
    *,
    preset: str = "default",
    config_file: Path | None = None,
    assignments: Iterable[str] = (),
    init: Path | None = None,
    new_vocabulary: bool = False,
) -> Any:
    """Returns the configuration of a run of ``task``.

    Args:
        config_file: as for :func:`merge_file`.
        assignments: each ``section.key=value``.
        init: a model to start from; its model section and its options of the vocabulary take the
            place of those of the preset.
        new_vocabulary: the run builds its own vocabulary: the preset's options of it stay.

    Raises:
        ConfigError: a file that cannot be read, an unknown name, a value that cannot be used.
        CheckpointError: there is no model of ``task`` in ``init``.
    """
    check_choice("--preset", preset, task.presets)
    config = task.presets[preset]()
    if init is not None:
        from tasks.runs.initial import with_model_of

        config = with_model_of(init, task.name, config, new_vocabulary=new_vocabulary)
    if config_file is not None:
        config = merge_file(config, config_file, task=task.name)
    return override(config, assignments)


def merge_file(config: Any, path: Path, *, task: str) -> Any:
    """Returns ``config`` with the values of a file in place of its own.

    Args:
        path: a TOML file, or the ``config.json`` of a run or a model, which names its task.

    Raises:
        ConfigError: the file cannot be read, is for another task, or has an unknown name or a value
            that cannot be used.
    """
    merged, sections = to_mapping(config), _read(path, task)
    try:
        if path.suffix == ".json":
            sections = without_retired(type(config), sections)
        for name, section in sections.items():
            is_section = isinstance(section, dict) and isinstance(merged.get(name), dict)
            merged[name] = merged[name] | section if is_section else section
        return from_mapping(type(config), merged)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def _read(path: Path, task: str) -> dict[str, Any]:
    if path.suffix != ".json":
        text = read_text(path, error_class=ConfigError)
        try:
            return tomllib.loads(text)
        except (RecursionError, ValueError) as error:
            raise ConfigError(f"{path}: not valid TOML: {shorten(str(error))}") from error
    sections = read_json(path, error_class=ConfigError)
    if not isinstance(sections, dict):
        raise ConfigError(f"{path}: not a configuration")
    sections.pop("version", None)
    if (other := sections.pop("task", task)) != task:
        raise ConfigError(f"{path}: a configuration for {shorten(str(other))}, not for {task}")
    return sections
