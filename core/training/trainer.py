"""A model in training: what it is trained on, its state, and the files of its run."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import nn

from core.distributed.process_group import ProcessGroup
from core.errors import ChangedConditions, CheckpointError, ConfigError, UserError
from core.progress import log
from core.storage.checkpoint import WEIGHTS_FILE, load_weights
from core.storage.files import is_file
from core.training.config import TrainConfig
from core.training.ema import averages_in_place
from core.training.history import History
from core.training.kept_checkpoints import KeptCheckpoints
from core.training.microbatches import Batch, LossFunction
from core.training.schedule import Schedule, make_schedule
from core.training.state import STATE_FILE, STATE_FOLDER, Metrics, TrainingState
from core.training.state_file import load_state, save_state
from core.training.step import TrainingStep

# With other values of these, the position in an epoch would be a position among other batches.
_FIXED_SETTINGS = ("seed", "batch_tokens")

_MAX_CHANGES = 5  # in a message


class TrainingData(Protocol):
    """The batches of each epoch. The same epoch number always gives the same batches."""

    def plan(self, epoch: int) -> Sequence[Any]:
        """Returns the entries that :meth:`batch` makes the batches of this epoch from, in order.

        If several processes train together, each entry is a sequence of examples that can be
        sliced: every process makes a batch of its shard.
        """
        ...

    def batch(self, item: Any) -> Batch:
        """Returns the tensors of an entry of the plan."""
        ...


@dataclass(frozen=True, kw_only=True)
class Objective:
    """What a model is trained on, and by what it is measured.

    Attributes:
        loss: computes with the model in training mode, in the precision of the run.
        validate: returns the metrics of the model in evaluation mode, ``metric`` among them.
        metric: decides which epoch is best; see :func:`.kept_checkpoints.is_better`.
        measure_final: returns the metric of the model as it will be used, by which the best epoch
            and the average of epochs are compared; None: the metric of ``validate``.
    """

    data: TrainingData
    loss: LossFunction
    validate: Callable[[], Metrics]
    metric: str
    measure_final: Callable[[], float] | None = None


@dataclass(frozen=True, kw_only=True)
class FitOptions:
    """Where a run computes and writes, and how it begins.

    Attributes:
        folder: gets ``model.safetensors`` (the best weights), the training curve, and in
            ``training/`` the state for resuming.
        device: the model is there already.
        resume: continue from the state in ``folder``.
        conditions: what the run depends on besides its configuration, for example the digests of
            its corpus. They are saved with the state. The conditions of the main process count.
        accept_changes: resume a run that was begun under other conditions. The state then lists
            the changes.
        check_folder: called in the main process before files are written; raises a UserError if
            ``folder`` is no longer that of the run.
        on_begin: called before the first step, when nothing can prevent the run from starting or
            continuing; only in the main process.
        group: the processes that train together; by default this process alone.
        digests: those of the files in ``folder`` that belong to the model, for the header of its
            weights.
    """

    folder: Path
    device: torch.device
    resume: bool = False
    conditions: Mapping[str, str] = field(default_factory=dict)
    accept_changes: bool = False
    check_folder: Callable[[], None] = lambda: None
    on_begin: Callable[[], None] = lambda: None
    group: ProcessGroup = field(default_factory=ProcessGroup)
    digests: Mapping[str, str] = field(default_factory=dict)


class Trainer:
    """What :func:`core.training.fit.fit` does with a model, in single actions."""

    def __init__(
        self, model: nn.Module, config: TrainConfig, objective: Objective, options: FitOptions
    ) -> None:
        self.model = model
        self.config = config
        self.state = TrainingState()
        self._objective = objective
        self._options = options
        self._group = group = options.group
        self._check_folder = options.check_folder if group.is_main else lambda: None
        self._state_path = options.folder / STATE_FOLDER / STATE_FILE
        self._step = TrainingStep(model, config, options.device, group)
        self._history = History(options.folder, config)
        self._kept = KeptCheckpoints(
            model, config, options.folder, objective.metric, options.digests, group.is_main
        )

    def begin(self) -> None:
        """Begins the run, or loads the state in its folder.

        Raises:
            CheckpointError: there is no state to resume, it is damaged or belongs to another model,
                or the processes see different ones.
            ConfigError: the run has other values of settings that must not change.
            ChangedConditions: the run was begun under other conditions.
            UserError: a file cannot be written.
        """
        conditions = self._group.broadcast(lambda: dict(self._options.conditions))
        if self._options.resume:
            self._load(conditions)
        self.state.conditions = conditions or self.state.conditions
        if self._group.is_main:
            self._history.begin(self.state.step)
            self._options.on_begin()

    def _load(self, conditions: Mapping[str, str]) -> None:
        path = self._state_path
        if not is_file(path):
            raise CheckpointError(f"{self._options.folder}: nothing to resume: there is no {path}")
        saved = load_state(path)
        for name in _FIXED_SETTINGS:
            old, new = getattr(saved.config, name), getattr(self.config, name)
            if old != new:
                raise ConfigError(
                    f"{path}: the run to resume has train.{name}={old}, which cannot change "
                    f"to {new}; resume it with train.{name}={old}"
                )
        changes = saved.state.differences(conditions) if conditions else []
        if changes and not self._options.accept_changes:
            shown = "; ".join(changes[:_MAX_CHANGES]) + "; ..." * (len(changes) > _MAX_CHANGES)
            raise ChangedConditions(f"{path}: not the conditions that the run began with: {shown}")
        saved.copy_into(self._step.tensors())
        self.state = saved.state
        self.state.changes += [f"step {self.state.step}: {change}" for change in changes]
        if not self._group.is_same(self.state.step):
            raise CheckpointError(
                f"{path}: the processes read different states: all machines must share the folder, "
                "and see its latest files"
            )

    def is_over(self) -> bool:
        """Returns whether all epochs are done, or the last ``patience`` brought no improvement."""
        done, patience = self.state.epoch - 1, self.config.patience
        return done >= self.config.epochs or 0 < patience <= done - self.state.best_epoch

    def begin_epoch(self) -> tuple[Sequence[Any], Schedule]:
        """Returns the plan of the current epoch, and the learning rates of its steps.

        The schedule ends with the last step of the run. Epochs may differ in length: those to come
        are assumed to be as long as this one.
        """
        state, config = self.state, self.config
        plan = self._objective.data.plan(state.epoch)
        if not plan:
            raise UserError("there is nothing to train on: the training data has no examples")
        if self._group.size > 1 and not self._group.is_same([len(item) for item in plan]):
            raise UserError(
                "the processes read different training data: it must be the same for all"
            )
        if state.position > len(plan):
            raise CheckpointError(
                f"{self._options.folder}: the run stopped after batch {state.position} of epoch "
                f"{state.epoch}, which has {len(plan)} batches: the training data has changed"
            )
        sizes: Any = self.model.config
        to_come = (config.epochs - state.epoch + 1) * math.ceil(len(plan) / config.accumulate)
        steps = state.step - state.sums.steps + to_come
        self.model.train()
        return plan, make_schedule(config, d_model=sizes.d_model, total_steps=steps)

    def step(self, items: Sequence[Any], learning_rate: float) -> float:
        """Takes a step over some entries of the plan, and returns its mean loss."""
        batches = [self._batch(item) for item in items]
        return self._step.take(self.state, batches, self._objective.loss, learning_rate)

    def _batch(self, item: Any) -> Batch | None:
        """Returns this process's shard of a batch; None if it is empty."""
        if self._group.size == 1:
            return self._objective.data.batch(item)
        shard = self._group.shard(item)
        return self._objective.data.batch(shard) if shard else None

    @property
    def is_stable(self) -> bool:
        """Whether the last step was like those before; if not, an explosion may have begun."""
        return self._step.is_stable

    def log_step(self) -> None:
        """Writes a row of ``steps.csv`` after every ``log_every`` steps."""
        every, state = self.config.log_every, self.state
        if every == 0 or state.step % every:
            return
        row = state.curve_row(state.sums.since(state.logged))
        state.logged = replace(state.sums)
        if self._group.is_main:
            self._check_folder()
            self._history.add_step(row)

    def save(self) -> None:
        """Writes the state of the run, atomically; no process leaves before it is saved."""
        if self._group.is_main:
            self._check_folder()
            save_state(self._state_path, self.state, self.config, self._step.tensors())
        self._group.barrier()

    def finish_epoch(self) -> None:
        """Validates, keeps the weights if they are among the best, and saves the run.

        With ``train.ema``, the averaged weights are validated and kept.
        """
        state, ema = self.state, self._step.ema
        with averages_in_place(self.model, ema) if ema is not None else nullcontext():
            self.model.eval()
            metrics = self._group.broadcast(self._objective.validate)
            self._check_folder()
            row = state.curve_row(state.sums, metrics, seconds=state.sums.seconds)
            state.history.append(row)
            shown = ", ".join(f"{name} {number:.4g}" for name, number in metrics.items())
            log(
                f"epoch {state.epoch}: train_loss {row.train_loss:.4f}, {shown}, "
                f"{row.tokens_per_second:,.0f} tokens/s, {row.seconds:.0f} s"
            )
            self._kept.keep(state, metrics[self._objective.metric])
        if self._group.is_main:
            self._history.add_epoch(state.history)
        state.begin_epoch()
        self.save()
        self._kept.remove_others(state)

    def finish(self) -> None:
        """Leaves the best weights in the folder and the model: of an epoch, or a mean of several.

        Raises:
            UserError: no epoch had a metric.
        """
        metric, folder = self._objective.metric, self._options.folder
        if self.state.best is None:
            raise UserError(f"no epoch had a {metric} that is a number: there is no model to keep")
        with self._group.main_process_first():
            if self._group.is_main:
                self._check_folder()
                objective = self._objective
                self._kept.finish(self.state, objective.validate, objective.measure_final)
            load_weights(folder / WEIGHTS_FILE, self.model)
        self.model.eval()
        # What is measured next does not depend on how often the run was resumed.
        torch.manual_seed(self.config.seed)
