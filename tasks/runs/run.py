"""A training run from configuration to metrics, the same for every task."""

from __future__ import annotations

import platform
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import nn

from transformer_suite.core.config import to_mapping
from transformer_suite.core.distributed.team import Team
from transformer_suite.core.errors import CheckpointError, ConfigError, UserError
from transformer_suite.core.progress import say
from transformer_suite.core.storage.files import remove_partial_files, write_json
from transformer_suite.core.storage.lock import only_writer
from transformer_suite.core.training.config import TrainConfig
from transformer_suite.core.training.fit import TrainingData, check_installed, fit
from transformer_suite.core.training.microbatches import LossFunction
from transformer_suite.core.training.state import STATE_FILE, STATE_FOLDER, Metrics
from transformer_suite.tasks.runs.checkpoint_folder import (
    CONFIG_FILE,
    METRICS_FILE,
    check_begun,
    read_config,
    read_metrics,
    write_config,
)

LOCK_FILE = "lock"


class TaskConfig(Protocol):
    """What the configurations of all tasks have."""

    @property
    def model(self) -> Any: ...

    @property
    def data(self) -> Any: ...

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
    prepare: Callable[[bool], Prepared],
    *,
    data: Path,
    out: Path,
    device: torch.device,
    resume: bool,
    team: Team | None = None,
) -> dict[str, Any]:
    """Trains, measures the best model on the test split, and returns what ``metrics.json`` says.

    A run that is resumed after its end is measured again, and stays as it is. Of a ``team`` the
    first process alone measures; the others return nothing.

    Args:
        prepare: told whether it finds the vocabulary in ``out``, as a run that is resumed does, and
            all processes but the first one of ``team``.

    Raises:
        UserError: ``out`` already holds a run that is not to be resumed, or none that is, or
            another process is at work there.
        ConfigError: ``config`` is not that of the run to be resumed.
    """
    team = team or Team()
    begin = partial(_train, task, config, prepare, data, out, device, resume, team)
    if not team.is_first:
        return begin()
    check_folder(task, config, out, resume)  # a folder that is refused is not touched
    check_installed(config.train, device)
    with only_writer(out, lock=out / STATE_FOLDER / LOCK_FILE):
        check_folder(task, config, out, resume)  # a run may have begun or ended since
        for folder in (out, out / STATE_FOLDER):
            remove_partial_files(folder)
        return begin()


def _train(
    task: str,
    config: TaskConfig,
    prepare: Callable[[bool], Prepared],
    data: Path,
    out: Path,
    device: torch.device,
    resume: bool,
    team: Team,
) -> dict[str, Any]:
    """:func:`train`, with ``out`` fit for it and nobody else's."""
    how = _how(task, config, data, device, team)
    if resume:
        # The command that began the run says how to have it again, the one that resumes does not.
        how["command"] = read_metrics(out).get("command", how["command"])
    with team.first_alone():  # who makes the vocabulary and encodes the corpus, for the others too
        torch.manual_seed(config.train.seed)
        prepared = prepare(resume or not team.is_first)
    parameters = sum(p.numel() for p in prepared.model.parameters())
    place = str(device) if team.size == 1 else f"{team.size} x {device.type}"
    say(f"{task}: {parameters:,} parameters on {place}, seed {config.train.seed}, into {out}")

    def write_story() -> None:
        write_config(out, task, config)
        write_json(out / METRICS_FILE, how)

    state = fit(
        prepared.model,
        data=prepared.data,
        loss=prepared.loss,
        validate=prepared.validate,
        metric=prepared.metric,
        config=config.train,
        folder=out,
        device=device,
        resume=team.from_first(lambda: resume and (out / STATE_FOLDER / STATE_FILE).is_file()),
        on_begin=write_story,
        team=team,
    )
    if not team.is_first:
        return {}
    metrics = {
        **how,
        "validation": prepared.validate(),
        "test": prepared.evaluate(),
        "best_epoch": state.best_epoch,
        "averaged_epochs": state.averaged,
        "epochs": state.epoch - 1,
        "steps": state.step,
        "parameters": parameters,
        "training_seconds": round(sum(row["seconds"] for row in state.history)),
        "trained": datetime.now(UTC).date().isoformat(),
        "history": state.history,
    }
    write_json(out / METRICS_FILE, metrics)
    return metrics


def check_folder(task: str, config: TaskConfig, out: Path, resume: bool) -> None:
    """Makes sure that the run may be in ``out``; the errors are those of :func:`train`."""
    if resume:
        check_resumable(task, config, out)
    elif (out / CONFIG_FILE).exists():
        raise UserError(
            f"{out}: there is a run in this folder; go on with it by --resume, "
            "or name another --out"
        )


def check_resumable(task: str, config: TaskConfig, out: Path) -> None:
    """Makes sure that the run in ``out`` can go on with ``config``.

    How long and how fast it learns may change, and how outputs are searched for; the model, the
    corpus and what the batches are made of may not.

    Raises:
        CheckpointError: there is no run of ``task`` in ``out``, or only what came of it.
        ConfigError: names the options that have changed.
    """
    check_begun(out)
    state = out / STATE_FOLDER / STATE_FILE
    if not state.is_file() and "trained" in read_metrics(out):
        # It would begin anew, and put its first epoch's weights in the place of these.
        raise CheckpointError(
            f"{out}: nothing to go on from: the run has ended, and there is no {state}; "
            "name another --out"
        )
    before, now = to_mapping(read_config(out, task, type(config))), to_mapping(config)
    fixed = {"model": now["model"], "data": now["data"], "train": ("seed", "batch_tokens")}
    changed = [
        f"{section}.{key}"
        for section, keys in fixed.items()
        for key in keys
        if now[section][key] != before[section][key]
    ]
    if changed:
        raise ConfigError(
            f"{out}: {', '.join(changed)} cannot change in the middle of a run; "
            "leave it as it was, or begin a new run in another --out"
        )


def commit_of(folder: Path) -> str | None:
    """The commit checked out in ``folder``, "+" if files have changed since; None without one."""
    # Without this, an installed copy would name the commit of whatever project surrounds it.
    if not (folder / ".git").exists():
        return None
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


def command_line() -> str:
    """The command that is running, as one would type it."""
    program = Path(sys.argv[0]).name
    command = ["python", program] if program.endswith(".py") else [program]
    return shlex.join([*command, *sys.argv[1:]])


def _how(
    task: str, config: TaskConfig, data: Path, device: torch.device, team: Team
) -> dict[str, Any]:
    """What it takes to have the run again."""
    return {
        "task": task,
        "command": command_line(),
        "data": data.name,
        "seed": config.train.seed,
        "commit": commit_of(Path(__file__).resolve().parents[2]),
        "device": str(device),
        "processes": team.size,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
