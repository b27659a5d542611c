"""The one training loop, for every task.

A task brings its data, its loss and its validation (:class:`Objective`). :func:`fit` does the rest:
schedule, mixed precision, gradient clipping, checkpoints, early stopping, and averages of weights.
Everything that decides how a run continues is in its state file, so that an interrupted run ends
exactly like one that was not.
"""

import math
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import nn

from core.distributed.process_group import ALONE, ProcessGroup
from core.errors import ChangedConditions, CheckpointError, Interrupted, UserError
from core.parallel import map_ahead
from core.progress import Progress, log
from core.storage.checkpoint import WEIGHTS_FILE, load_weights
from core.storage.files import is_file, write_text
from core.training.config import TrainConfig
from core.training.gradient import Batch, LossFunction, gradient_checkpointing
from core.training.kept_checkpoints import KeptCheckpoints
from core.training.schedule import Schedule, make_schedule
from core.training.state import (
    HISTORY_FILE,
    STATE_FILE,
    STATE_FOLDER,
    STEPS_FILE,
    Metrics,
    TrainingState,
    as_csv,
    copy_tensors,
    load_state,
    save_state,
)
from core.training.step import TrainingStep

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
        validate: returns the metrics of the model in evaluation mode, ``metric`` among them. All
            processes of the group that it gets call it, and may share the work.
        metric: decides which epoch is best; see :func:`.kept_checkpoints.is_better`.
        measure_final: returns the metric of the model as it will be used, in full precision, by
            which the best epoch and the average are compared; None: the metric of ``validate``.
    """

    data: TrainingData
    loss: LossFunction
    validate: Callable[[ProcessGroup], Metrics]
    metric: str
    measure_final: Callable[[], float] | None = None


@dataclass(frozen=True, kw_only=True)
class FitOptions:
    """Where a run computes and writes, and how it begins.

    Attributes:
        out: the folder that gets ``model.safetensors`` (the best weights), the training curve, and
            in ``training/`` the state for resuming.
        device: the model is there already.
        resume: continue from the state in ``out``. The seed and ``batch_tokens`` must be as they
            were: the position in an epoch would be one among other batches.
        conditions: what the run depends on besides its configuration, for example the digests of
            its corpus. They are saved with the state. The conditions of the main process count.
        accept_changes: resume a run begun under other conditions. The state then lists the changes.
        check_folder: called in the main process before files are written; raises a UserError if
            ``out`` is no longer that of the run.
        on_begin: called before the first step, when nothing can prevent the run from starting or
            continuing; only in the main process.
        group: the processes that train together; by default this process alone.
        digests: of the files in ``out`` that belong to the model, for the header of its weights.
    """

    out: Path
    device: torch.device
    resume: bool = False
    conditions: Mapping[str, str] = field(default_factory=dict)
    accept_changes: bool = False
    check_folder: Callable[[], None] = lambda: None
    on_begin: Callable[[], None] = lambda: None
    group: ProcessGroup = ALONE
    digests: Mapping[str, str] = field(default_factory=dict)


def fit(
    model: nn.Module, config: TrainConfig, objective: Objective, options: FitOptions
) -> TrainingState:
    """Trains ``model`` in place and leaves its best weights in the folder and in ``model``.

    With a group of several processes, each of them calls it. They train as one process would: every
    step takes the same batches, of which each process computes a shard, and leads to the same
    weights up to rounding. A run can be resumed with another number of processes. All need access
    to the folder; the main process writes there.

    The seed, the step and the rank decide the random numbers of a step. On a CPU, the same seed and
    number of threads and processes give the same run, bit for bit.

    Args:
        model: on its device already. The paper's schedule uses its ``config.d_model``.

    Raises:
        Interrupted: SIGINT, SIGTERM or SIGHUP came, to any process; all steps so far are saved.
        UserError: the loss is not finite, a file cannot be written, there is nothing to train on,
            or no epoch had a metric.
        CheckpointError: ``resume``, and there is no state, it is damaged or belongs to another
            model, or the processes see different ones.
        ChangedConditions: ``resume`` under other conditions.
    """
    trainer = Trainer(model, config, objective, options)
    trainer.begin()
    with stop_requests(options.group) as is_stop_requested:
        while not trainer.is_over():
            with gradient_checkpointing(model) if config.gradient_checkpointing else nullcontext():
                trainer.train_epoch(is_stop_requested)
            trainer.finish_epoch()
            if is_stop_requested():
                raise Interrupted(f"stopped at step {trainer.state.step}")
    trainer.finish()
    return trainer.state


class Trainer:
    """A model in training: what it is trained on, its state, and the files of its run."""

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
        self._state_path = options.out / STATE_FOLDER / STATE_FILE
        self._step = TrainingStep(model, config, options.device, group)
        self._kept = KeptCheckpoints(
            model, config, options.out, objective.metric, options.digests, group.is_main
        )

    def begin(self) -> None:
        """Begins the run, or loads the state in its folder."""
        conditions = self._group.broadcast(lambda: dict(self._options.conditions))
        if self._options.resume:
            self._load(conditions)
        self.state.conditions = conditions or self.state.conditions
        if not self._options.resume:
            self.save()  # a run that has begun can be resumed
        if self._group.is_main:
            self._options.on_begin()

    def _load(self, conditions: Mapping[str, str]) -> None:
        path = self._state_path
        if not is_file(path):
            raise CheckpointError(f"{self._options.out}: nothing to resume: there is no {path}")
        state, tensors = load_state(path)
        changes = state.differences(conditions) if conditions else []
        if changes and not self._options.accept_changes:
            shown = "; ".join(changes[:_MAX_CHANGES]) + "; ..." * (len(changes) > _MAX_CHANGES)
            raise ChangedConditions(f"{path}: not the conditions that the run began with: {shown}")
        copy_tensors(tensors, self._step.tensors(), path)
        self.state = state
        state.changes += [f"step {state.step}: {change}" for change in changes]
        if not self._group.is_same(state.step):
            raise CheckpointError(
                f"{path}: the processes read different states: all machines must share the folder, "
                "and see its latest files"
            )

    def is_over(self) -> bool:
        """Returns whether all epochs are done, or the last ``patience`` brought no improvement."""
        done, patience = self.state.epoch - 1, self.config.patience
        return done >= self.config.epochs or 0 < patience <= done - self.state.best_epoch

    def train_epoch(self, is_stop_requested: Callable[[], bool]) -> None:
        """Trains from the current position to the end of its epoch."""
        config, state = self.config, self.state
        plan = self._plan()
        rate = self._schedule(len(plan))
        started = time.monotonic() - state.sums.seconds
        label = f"epoch {state.epoch}/{config.epochs}"
        self.model.train()
        with Progress(len(plan), label, unit="batch", done=state.position) as progress:
            for batches in self._batches(plan):
                loss = self._step.take(state, batches, self._objective.loss, rate(state.step + 1))
                state.sums.seconds = time.monotonic() - started
                if config.log_every and state.step % config.log_every == 0:
                    state.steps.append(state.curve_row(state.sums - state.logged))
                    state.logged = state.sums
                progress.advance(
                    len(batches),
                    f"loss {loss:.3f}, {state.sums.tokens_per_second:,.0f} tokens/s, "
                    f"lr {state.learning_rate:.2e}",
                )
                if is_stop_requested():
                    self.save()
                    raise Interrupted(f"stopped at step {state.step}")
                if state.step % config.save_every == 0 and state.position < len(plan):
                    self.save()

    def _batches(self, plan: Sequence[Any]) -> Iterator[Sequence[Batch | None]]:
        """Yields this process's batches of each step to come in the epoch.

        While a GPU computes, a thread makes those of the next step, in pinned memory: from there
        they are copied while the program goes on.
        """
        device, count, group = self._options.device, self.config.accumulate, self._group

        def make(start: int) -> Sequence[Batch | None]:
            items = plan[start : start + count]
            shards = [item if group.size == 1 else group.shard(item) for item in items]
            batches = [self._objective.data.batch(shard) if shard else None for shard in shards]
            if device.type != "cuda":
                return batches
            with torch.cuda.device(device):  # a new thread would use the first GPU
                return [batch and tuple(x.pin_memory() for x in batch) for batch in batches]

        starts = range(self.state.position, len(plan), count)
        return map(make, starts) if device.type == "cpu" else map_ahead(make, starts)

    def _plan(self) -> Sequence[Any]:
        plan = self._objective.data.plan(self.state.epoch)
        if not plan:
            raise UserError("there is nothing to train on: the training data has no examples")
        if self._group.size > 1 and not self._group.is_same([len(item) for item in plan]):
            raise UserError("processes read different training data: it must be the same for all")
        return plan

    def _schedule(self, batches: int) -> Schedule:
        """Returns the learning rates of the steps of this epoch, given its number of ``batches``.

        The schedule ends with the last step of the run. Epochs may differ in length: those to come
        are assumed to be as long as this one.
        """
        state, config = self.state, self.config
        sizes: Any = self.model.config
        to_come = (config.epochs - state.epoch + 1) * math.ceil(batches / config.accumulate)
        steps = state.step - state.sums.steps + to_come
        return make_schedule(config, d_model=sizes.d_model, total_steps=steps)

    def save(self) -> None:
        """Writes the state of the run, atomically, and its curve; no process leaves before that."""
        if self._group.is_main:
            self._check_folder()
            curves = {HISTORY_FILE: self.state.history, STEPS_FILE: self.state.steps}
            for name, rows in curves.items():
                if rows:
                    write_text(self._options.out / name, as_csv(rows))
            save_state(self._state_path, self.state, self._step.tensors())
        self._group.barrier()

    def finish_epoch(self) -> None:
        """Validates the weights or their moving average, keeps them if needed, saves the run."""
        state = self.state
        with self._step.averages_in_place():
            self.model.eval()
            measured = self._objective.validate(self._group)
            metrics = self._group.broadcast(lambda: measured)
            self._check_folder()
            row = state.curve_row(state.sums, metrics, seconds=state.sums.seconds)
            state.history.append(row)
            shown = ", ".join(f"{name} {number:.4g}" for name, number in metrics.items())
            log(
                f"epoch {state.epoch}: train_loss {row.train_loss:.4f}, {shown}, "
                f"{row.tokens_per_second:,.0f} tokens/s, {row.seconds:.0f} s"
            )
            self._kept.keep(state, metrics[self._objective.metric])
        state.begin_epoch()
        self.save()
        self._kept.remove_others(state)

    def finish(self) -> None:
        """Leaves the best weights, of an epoch or of several, in the folder and the model."""
        metric, folder = self._objective.metric, self._options.out
        if self.state.best is None:
            raise UserError(f"no epoch had a {metric} that is a number: there is no model to keep")
        with self._group.main_process_first():
            if self._group.is_main:
                self._check_folder()
                validate, measure_final = self._objective.validate, self._objective.measure_final
                self._kept.finish(self.state, lambda: validate(ALONE), measure_final)
            load_weights(folder / WEIGHTS_FILE, self.model)
        self.model.eval()
        # What is measured next does not depend on how often the run was resumed.
        torch.manual_seed(self.config.seed)


@contextmanager
def stop_requests(group: ProcessGroup) -> Iterator[Callable[[], bool]]:
    """Turns the first SIGINT, SIGTERM or SIGHUP to any process into a request to all of them.

    In a single process, a second signal has its usual effect. Several processes ignore it: each may
    get the same signal from the scheduler and again from torchrun, which later sends SIGKILL.
    Yields a function that says whether the run shall stop.
    """
    received: list[int] = []
    previous: dict[int, Any] = {}

    def request_stop(number: int, frame: Any) -> None:
        received.append(number)
        line = "stopping as soon as this step is saved"
        if group.size == 1:
            for each, handler in previous.items():
                signal.signal(each, handler)
            line += "; once more to stop at once"
        elif len(received) > 1:
            return
        # The signal may have interrupted the writing of another line to stderr.
        with suppress(RuntimeError):
            log(line)

    try:
        for wanted in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(wanted) != signal.SIG_IGN:  # as with nohup
                previous[wanted] = signal.signal(wanted, request_stop)
    except ValueError:  # not the main thread, which alone gets signals
        pass
    try:
        yield lambda: group.any(bool(received))
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
