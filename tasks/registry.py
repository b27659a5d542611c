"""The tasks by name. A task's modules are imported only when that task is used."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from transformer_suite.core.config import check_choice, override
from transformer_suite.tasks.runs.config_file import merge_file

if TYPE_CHECKING:
    from torch import nn

    from transformer_suite.tasks.runs.checkpoint_folder import Folders
    from transformer_suite.tasks.seq2seq.scoring import PairScore

TASKS = ("translation", "classification", "couplet")

PREDICTORS = {
    "translation": ("Translator", "translate_scored"),
    "classification": ("Classifier", "classify_scored"),
    "couplet": ("CoupletWriter", "answer_scored"),
}

# The tasks whose predictors can score given pairs.
PAIR_TASKS = ("translation", "couplet")

DEFAULT_CORPUS = {"translation": "multi30k", "classification": "ag_news", "couplet": "couplet"}


def module(task: str, name: str) -> ModuleType:
    """The module ``name`` (config, train, predict, evaluate...) of ``task``."""
    check_choice("task", task, TASKS)
    return importlib.import_module(f"transformer_suite.tasks.{task}.{name}")


def load_predictor(task: str, folder: Path | None, *, device: str) -> Callable[..., Sequence[Any]]:
    """From texts to results with scores, by the model in ``folder`` (None: the one that ships).

    Each result has a ``record()`` for JSON.
    """
    return getattr(_predictor(task, folder, device), PREDICTORS[task][1])


def load_model(task: str, folder: Path, *, device: str) -> nn.Module:
    """The model in ``folder``, with its weights."""
    predictor = _predictor(task, folder, device)
    model: nn.Module = predictor.models[0] if task in PAIR_TASKS else predictor.model
    return model


def config_class(task: str) -> type[Any]:
    """The class of the task's configurations."""
    return type(module(task, "config").PRESETS["default"]())


def load_scorer(task: str, folder: Folders, *, device: str) -> Callable[..., Sequence[PairScore]]:
    """From sources and targets to their scores, for one of :data:`PAIR_TASKS`."""
    return _predictor(task, folder, device).score


def make_config(
    task: str, *, preset: str, config_file: Path | None, assignments: Iterable[str]
) -> Any:
    """The configuration of a run: a preset, then a file, then ``section.key=value``.

    Raises:
        ConfigError: a file that cannot be read, an unknown name, a value that cannot be used.
    """
    presets = module(task, "config").PRESETS
    check_choice("--preset", preset, presets)
    config = presets[preset]()
    if config_file is not None:
        config = merge_file(config, config_file, task=task)
    return override(config, assignments)


def _predictor(task: str, folder: Folders, device: str) -> Any:
    return getattr(module(task, "predict"), PREDICTORS[task][0]).load(folder, device=device)
