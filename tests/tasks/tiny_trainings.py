"""Trainings and measurements of tiny models, as tests call them."""

from pathlib import Path
from typing import Any

from tasks.runs.config_file import make_config
from tasks.runs.run import RunOptions
from tasks.task import task_named
from tests.tasks.tiny_networks import CPU


def tiny_config(task: str, *assignments: str, **options: Any) -> Any:
    """The preset ``tiny``, changed."""
    options = {"preset": "tiny"} | options
    return make_config(task_named(task), assignments=assignments, **options)


def train(
    task: str, data: Path, out: Path, *assignments: str, init: Path | None = None, **options: Any
) -> dict[str, Any]:
    """Trains with the preset ``tiny``; ``options`` are those of a run."""
    config = tiny_config(task, *assignments, init=init)
    if options.get("resume"):
        init = None
    return train_with(task, config, data, out, init=init, **options)


def train_with(task: str, config: Any, data: Path, out: Path, **options: Any) -> dict[str, Any]:
    return task_named(task).train(config, RunOptions(data=data, out=out, device=CPU, **options))


def measured(task: str, model: Any, data: Path, **options: Any) -> dict[str, Any]:
    """The report on a model, as JSON has it."""
    return task_named(task).evaluate(model, data, device="cpu", **options).record()
