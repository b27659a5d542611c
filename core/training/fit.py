"""The one training loop, for every task.

A task brings its data (:class:`TrainingData`), its loss and its validation. ``fit`` does the rest:
schedule, mixed precision, gradient clipping, checkpoints, early stopping, and averages of weights.
Everything that decides how a run continues is in its state file, so that an interrupted run ends
exactly like one that was not.
"""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import nn

from core.distributed.process_group import ProcessGroup
from core.errors import CheckpointError, Interrupted, UserError
from core.progress import Progress, log
from core.storage.checkpoint import WEIGHTS_FILE, load_weights
from core.training import schedule, tensorboard
from core.training.compilation import CompiledLayers, check_compiler
from core.training.config import TrainConfig
from core.training.microbatches import Batch, LossFunction
from core.training.run import Run
from core.training.state import Metrics, TrainingState


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


def fit(
    model: nn.Module,
    *,
    data: TrainingData,
    loss: LossFunction,
    validate: Callable[[], Metrics],
    metric: str,
    config: TrainConfig,
    folder: Path,
    device: torch.device,
    resume: bool = False,
    conditions: Mapping[str, str] | None = None,
    accept_changes: bool = False,
    check_folder: Callable[[], None] = lambda: None,
    on_begin: Callable[[], None] = lambda: None,
    measure_final: Callable[[], float] | None = None,
    group: ProcessGroup | None = None,
) -> TrainingState:
    """Trains ``model`` in place and leaves its best weights in ``folder`` and in ``model``.

    With a ``group`` of several processes, each of them calls it. They train as one process would:
    every step takes the same batches, of which each process computes a shard, and leads to the same
    weights up to rounding. With dropout, each process has its own stream of random numbers, decided
    by the seed, the rank and the step: a run can be repeated with the same number of processes. A
    run can be resumed with another number. All processes need access to ``folder``; the main
    process writes there, and validates.

    On a CPU, the same seed and number of threads give the same run, bit for bit.

    Args:
        model: on ``device`` already. The paper's schedule uses its ``config.d_model``.
        loss: computes with ``model`` in training mode, in the precision of the run.
        validate: returns the metrics of ``model`` in evaluation mode, ``metric`` among them.
        metric: decides which epoch is best; see :mod:`core.training.kept_checkpoints`.
        folder: gets ``model.safetensors`` (the best weights), the training curve, and in
            ``training/`` the state for resuming.
        resume: continue from the state in ``folder``.
        conditions: what the run depends on besides ``config``, for example the digests of its
            corpus. They are saved with the state. The conditions of the main process count.
        accept_changes: resume a run that was begun under other conditions. The state then lists
            the changes.
        check_folder: called in the main process before files are written; raises a UserError if
            ``folder`` is no longer that of the run.
        on_begin: called before the first step, when nothing can prevent the run from starting or
            continuing; only in the main process.
        measure_final: returns the metric of ``model`` as it will be used, by which the best epoch
            and the average of epochs are compared; None: the metric of ``validate``.
        group: the processes that train together; None: this process alone.

    Raises:
        Interrupted: SIGINT or SIGTERM came, to any process; all steps so far are saved.
        UserError: the loss is not finite or has exploded, or a file cannot be written.
        CheckpointError: ``resume`` without a usable state.
        ChangedConditions: ``resume`` under other conditions.
    """
    group = group or ProcessGroup()
    run = Run(model, config, folder, device, metric, group, check_folder)
    layers = CompiledLayers(model) if config.compile else None
    torch.manual_seed(config.seed)
    run.begin(resume=resume, conditions=conditions, accept_changes=accept_changes)
    if group.is_main:
        on_begin()
    with _stop_requests(group) as is_stop_requested:
        while not run.is_over():
            with layers.in_use() if layers is not None else nullcontext():
                _train_epoch(run, data, loss, is_stop_requested)
            run.finish_epoch(validate)
            if is_stop_requested():
                raise Interrupted(f"stopped at step {run.state.step}")
    group.set_main_process_limit(config.main_process_timeout)  # it will measure the model
    if run.state.best is None:
        raise UserError(f"no epoch had a {metric} that is a number: there is no model to keep")
    with group.main_process_first():
        if group.is_main:
            run.finish(validate, measure_final)
        load_weights(folder / WEIGHTS_FILE, model)
    model.eval()
    return run.state


def check_installed(config: TrainConfig, device: torch.device) -> None:
    """Checks that the optional packages and tools which ``config`` needs are installed.

    Raises:
        UserError: TensorBoard or a compiler is missing; says what to install.
    """
    if config.tensorboard:
        tensorboard.check_installed()
    if config.compile:
        check_compiler(device)


def make_schedule(config: TrainConfig, *, d_model: int, total_steps: int) -> schedule.Schedule:
    """Returns the schedule that ``config`` names. "noam" (the paper's) has a peak of its own."""
    if config.schedule == "noam":
        return schedule.CustomSchedule(d_model, config.warmup_steps)
    if config.schedule == "cosine":
        return schedule.cosine(config.learning_rate, config.warmup_steps, total_steps)
    if config.schedule == "constant":
        return schedule.constant(config.learning_rate, config.warmup_steps)
    return schedule.inverse_sqrt(config.learning_rate, config.warmup_steps)


def _train_epoch(
    run: Run, data: TrainingData, loss: LossFunction, is_stop_requested: Callable[[], bool]
) -> None:
    """Trains from the current position of ``run`` to the end of its epoch."""
    config, state = run.config, run.state
    run.group.set_time_limit(config.first_step_timeout)
    plan = data.plan(state.epoch)
    if not plan:
        raise UserError("there is nothing to train on: the training data has no examples")
    if run.group.size > 1 and not run.group.is_same([len(item) for item in plan]):
        raise UserError("the processes read different training data: it must be the same for all")
    if state.position > len(plan):
        raise CheckpointError(
            f"{run.folder}: the run stopped after batch {state.position} of epoch {state.epoch}, "
            f"which has {len(plan)} batches: the training data has changed"
        )
    rate = _schedule_of(run, len(plan))
    run.model.train()
    started = time.monotonic() - state.seconds
    label = f"epoch {state.epoch}/{config.epochs}"
    with Progress(len(plan), label, unit="batch", done=state.position) as progress:
        while state.position < len(plan):
            items = plan[state.position : state.position + config.accumulate]
            batches = [_shard(data, item, run.group) for item in items]
            mean_loss = run.step(batches, loss, rate(state.step + 1))
            run.group.set_time_limit(config.step_timeout)
            state.seconds = time.monotonic() - started
            run.log_step()
            progress.advance(
                len(items),
                f"loss {mean_loss:.3f}, {state.tokens_per_second:,.0f} tokens/s, "
                f"lr {state.learning_rate:.2e}",
            )
            if is_stop_requested():
                run.save()
                run.group.barrier()  # no process leaves before the state is saved
                raise Interrupted(f"stopped at step {state.step}")
            is_due = state.step % config.save_every == 0 and state.position < len(plan)
            if is_due and run.is_stable:  # otherwise, an explosion may have begun
                run.save()


def _shard(data: TrainingData, item: Any, group: ProcessGroup) -> Batch | None:
    """Returns this process's shard of a batch; None if it is empty."""
    if group.size == 1:
        return data.batch(item)
    shard = group.shard(item)
    return data.batch(shard) if shard else None


def _schedule_of(run: Run, batches: int) -> schedule.Schedule:
    """Returns the schedule for an epoch of ``batches``; it ends with the last step of the run.

    Epochs may differ in length. The lengths of the past epochs are known; those to come are assumed
    to be as long as this one.
    """
    state, config = run.state, run.config
    before = state.step - state.epoch_steps
    to_come = (config.epochs - state.epoch + 1) * math.ceil(batches / config.accumulate)
    sizes: Any = run.model.config
    return make_schedule(config, d_model=sizes.d_model, total_steps=before + to_come)


@contextmanager
def _stop_requests(group: ProcessGroup) -> Iterator[Callable[[], bool]]:
    """Turns the first SIGINT or SIGTERM to any process into a request to all of them.

    In a single process, a second signal has its usual effect. Several processes ignore it: each may
    get the same signal from the scheduler and again from torchrun, which later sends SIGKILL.
    """
    received: list[int] = []
    previous: dict[int, Any] = {}

    def request_stop(number: int, frame: Any) -> None:
        received.append(number)
        line = "stopping as soon as this step is saved"
        if group.size == 1:
            signal.signal(number, previous[number])
            line += "; once more to stop at once"
        elif len(received) > 1:
            return
        # The signal may have interrupted the writing of another line to stderr.
        with suppress(RuntimeError):
            log(line)

    try:
        for wanted in (signal.SIGINT, signal.SIGTERM):
            previous[wanted] = signal.signal(wanted, request_stop)
    except ValueError:  # not the main thread, which alone gets signals
        pass
    try:
        yield lambda: group.any(bool(received))
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
