"""The configuration of a run: a preset, changed by a file and by assignments.

The parts of presets that several tasks share are here; the presets are in the packages of tasks.
"""

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from core.config import check, check_choice, from_mapping, override, to_mapping, without_retired
from core.decoding.config import GenerationConfig
from core.errors import ConfigError, shorten
from core.model.config import TransformerConfig
from core.storage.files import read_json, read_text
from core.training.config import TrainConfig
from tasks.task import Task

TINY_TRANSFORMER = TransformerConfig(
    d_model=32, nhead=4, num_encoder_layers=1, num_decoder_layers=1, dim_feedforward=64
)
"""Trains in seconds on any machine: for tests and first steps."""

TINY_TRAIN = TrainConfig(epochs=2, batch_tokens=500, warmup_steps=50, average=0, precision="fp32")

SMALL_TRANSFORMER = TransformerConfig(
    d_model=128,
    nhead=4,
    num_encoder_layers=2,
    num_decoder_layers=2,
    dim_feedforward=512,
    dropout=0.05,
    max_len=256,
    positions="rotary",
)
"""Trains in about five minutes on two CPU cores, with :data:`SMALL_TRAINING`.

Rotary positions learn faster than the paper's: see the study in ``tasks/translation/README.md``.
"""

SMALL_TRAINING = TrainConfig(
    epochs=4,
    batch_tokens=1000,
    learning_rate=3e-3,
    schedule="cosine",
    warmup=0.137,  # 300 of 2,188 steps with Multi30k
    average=0,
)
"""Small batches make many steps of a short run."""

PAPER_TRANSFORMER = TransformerConfig(
    d_model=512,
    nhead=8,
    num_encoder_layers=6,
    num_decoder_layers=6,
    dim_feedforward=2048,
    dropout=0.1,
    norm_first=False,
)
"""The base model of Vaswani et al. (2017), table 3."""

PAPER_TRAINING = TrainConfig(
    batch_tokens=25000, schedule="noam", warmup_steps=4000, clip_norm=0.0, average_of="last"
)
"""Sections 5.1 to 5.4 of the paper, and the average of 6.1, for a GPU."""

PAPER_GENERATION = GenerationConfig(
    beam_size=4, length_penalty=0.6, max_length_ratio=1.0, max_length_extra=50
)
"""Section 6.1 of the paper."""


def make_config(
    task: Task,
    *,
    preset: str = "default",
    config_file: Path | None = None,
    assignments: Iterable[str] = (),
    init: Path | None = None,
    new_vocabulary: bool = False,
) -> Any:
    """Returns the configuration of a run of ``task``, or raises an error that names what is wrong.

    Args:
        config_file: as for :func:`merge_file`.
        assignments: each ``section.key=value``.
        init: a model to start from; its model section and its options of the vocabulary take the
            place of those of the preset.
        new_vocabulary: the run builds its own vocabulary: the preset's options of it stay.
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
    """Returns ``config`` with the values of a file, or raises a ConfigError if one does not fit.

    ``path`` is a TOML file, or the ``config.json`` of a run or a model, which names its task.
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
            return tomllib.loads(text.removeprefix("\ufeff"))
        except (RecursionError, ValueError) as error:
            raise ConfigError(f"{path}: not valid TOML: {shorten(str(error))}") from error
    sections = read_json(path, error_class=ConfigError)
    if not isinstance(sections, dict):
        raise ConfigError(f"{path}: not a configuration")
    sections.pop("version", None)
    if (other := sections.pop("task", task)) != task:
        raise ConfigError(f"{path}: a configuration for {shorten(str(other))}, not for {task}")
    return sections


def check_weight(name: str, weight: float) -> None:
    """Raises a ConfigError unless a pair can be drawn ``weight`` times in an epoch."""
    check(0.0 < weight <= 1000.0, name, weight, "above 0 and at most 1,000")
