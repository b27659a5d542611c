"""The tasks by name. The modules of a task are imported when the task is used."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from core.config import check_choice, override
from tasks.runs.config_file import merge_file

if TYPE_CHECKING:
    from torch import nn

    from tasks.runs.checkpoint_folder import Folders

TASKS = ("translation", "classification", "couplet")

PREDICTORS = {
    "translation": ("Translator", "translate_scored"),
    "classification": ("Classifier", "classify_scored"),
    "couplet": ("CoupletWriter", "answer_scored"),
}

# The tasks whose predictors score pairs.
PAIR_TASKS = ("translation", "couplet")

DEFAULT_CORPUS = {"translation": "multi30k", "classification": "ag_news", "couplet": "couplet"}


def module(task: str, name: str) -> ModuleType:
    """Returns the module ``name`` (config, train, predict, evaluate...) of ``task``."""
    check_choice("task", task, TASKS)
    return importlib.import_module(f".{task}.{name}", __package__)


def predictor(task: str, folder: Folders, *, device: str) -> Any:
    """Returns the predictor of ``task`` with the model in ``folder``; None for the shipped one."""
    return getattr(module(task, "predict"), PREDICTORS[task][0]).load(folder, device=device)


def load_predictor(task: str, folder: Folders, *, device: str) -> Callable[..., Sequence[Any]]:
    """Returns a function from texts to results with scores, each with a ``record()`` for JSON."""
    return getattr(predictor(task, folder, device=device), PREDICTORS[task][1])


def load_model(task: str, folder: Path, *, device: str) -> nn.Module:
    """Returns the trained model in ``folder``."""
    loaded = predictor(task, folder, device=device)
    model: nn.Module = loaded.models[0] if task in PAIR_TASKS else loaded.model
    return model


def config_class(task: str) -> type[Any]:
    """Returns the class of the configurations of ``task``."""
    return type(module(task, "config").PRESETS["default"]())


def make_config(
    task: str,
    *,
    preset: str,
    config_file: Path | None,
    assignments: Iterable[str],
    init: Path | None = None,
    new_vocabulary: bool = False,
) -> Any:
    """Returns the configuration of a run: a preset, changed by a file and by assignments.

    Args:
        init: a model to start from; its model section and its options of the vocabulary take the
            place of those of the preset.
        new_vocabulary: the run builds its own vocabulary: the preset's options of it stay.
        assignments: each ``section.key=value``.

    Raises:
        ConfigError: a file that cannot be read, an unknown name, a value that cannot be used.
        CheckpointError: there is no model of ``task`` in ``init``.
    """
    presets = module(task, "config").PRESETS
    check_choice("--preset", preset, presets)
    config = presets[preset]()
    if init is not None:
        from tasks.runs.initial import with_model_of

        config = with_model_of(init, task, config, new_vocabulary=new_vocabulary)
    if config_file is not None:
        config = merge_file(config, config_file, task=task)
    return override(config, assignments)
