"""A training run from configuration to metrics, the same for every task."""

from __future__ import annotations

import platform
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import nn

from core.config import TrainConfig
from core.errors import UserError
from core.files import write_json
from core.progress import say
from core.training import STATE_FILE, STATE_FOLDER, LossFunction, Metrics, TrainingData, fit
from tasks.folders import CONFIG_FILE, METRICS_FILE, write_config


class TaskConfig(Protocol):
    """What the configurations of all tasks have."""

    @property
    def train(self) -> TrainConfig: ...


@dataclass
class Prepared:
    """What a task brings to a run, made from its configuration and its corpus."""

    model: nn.Module
    data: TrainingData
    loss: LossFunction
    validate: Callable[[], Metrics]
    metric: str
    evaluate: Callable[[], dict[str, Any]]
    """The report on the test split, asked for once, at the end."""


def train(
    task: str,
    config: TaskConfig,
    prepare: Callable[[], Prepared],
    *,
    data: Path,
    out: Path,
    device: torch.device,
    resume: bool,
) -> dict[str, Any]:
    """Trains, measures the best model on the test split, and returns what ``metrics.json`` says.

    Raises:
        UserError: ``out`` already holds a run that is not to be resumed.
    """
    if resume and not (out / CONFIG_FILE).is_file():
        raise UserError(f"{out}: nothing to resume: there is no {CONFIG_FILE} in it")
    if not resume and (out / CONFIG_FILE).exists():
        raise UserError(
            f"{out}: there is a run in this folder; go on with it by --resume, or name another --out"
        )
    started = time.monotonic()
    torch.manual_seed(config.train.seed)
    prepared = prepare()
    write_config(out, task, config)
    parameters = sum(p.numel() for p in prepared.model.parameters())
    say(f"{task}: {parameters:,} parameters on {device}, seed {config.train.seed}, into {out}")
    state = fit(
        prepared.model,
        data=prepared.data,
        loss=prepared.loss,
        validate=prepared.validate,
        metric=prepared.metric,
        config=config.train,
        folder=out,
        device=device,
        resume=resume and (out / STATE_FOLDER / STATE_FILE).is_file(),
    )
    metrics: dict[str, Any] = {
        "task": task,
        "validation": prepared.validate(),
        "test": prepared.evaluate(),
        "best_epoch": state.best_epoch,
        "epochs": state.epoch - 1,
        "steps": state.step,
        "parameters": parameters,
        "training_seconds": round(sum(row["seconds"] for row in state.history)),
        "run_seconds": round(time.monotonic() - started),
        "trained": datetime.now(UTC).date().isoformat(),
        "command": shlex.join(["python", Path(sys.argv[0]).name, *sys.argv[1:]]),
        "data": data.name,
        "seed": config.train.seed,
        "commit": _commit(),
        "device": str(device),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
    write_json(out / METRICS_FILE, metrics)
    return metrics


def headline(metrics: Mapping[str, Any]) -> str:
    """The one number of a model, as its task's report names it."""
    test = metrics.get("test") or {}
    return str(test.get("headline", "not measured"))


def _commit() -> str | None:
    """The commit of the code that runs, "+" if it has changed since; None outside a checkout."""
    folder = Path(__file__).resolve().parent
    try:
        described = subprocess.run(
            ["git", "describe", "--always", "--abbrev=12", "--dirty=+", "--exclude=*"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return described.stdout.strip()
