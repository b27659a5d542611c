"""The one training loop, for every task.

A task brings its data (:class:`TrainingData`), its loss and its validation; ``fit`` does the rest:
schedule, mixed precision, gradient clipping, checkpoints that survive anything, early stopping, and
averages of weights. Everything that decides a run is in its state file, so that
a run that was interrupted ends exactly as one that was not.
"""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import nn

from ..distributed.process_group import ProcessGroup
from ..errors import Interrupted, UserError
from ..progress import Progress, log
from ..storage.checkpoint import WEIGHTS_FILE, load_weights
from . import schedule, tensorboard
from .compilation import CompiledLayers, check_compiler
from .config import TrainConfig
from .microbatches import Batch, LossFunction
from .run import Run
from .state import Metrics, TrainingState


class TrainingData(Protocol):
    """Batches of an epoch; the same for the same epoch number, whenever they are asked for."""

    def plan(self, epoch: int) -> Sequence[Any]:
        """What the batches of this epoch are made of, in order.

        Where several processes train together, each entry is a sequence of examples that can be
        sliced: every process makes a batch of a part of it.
        """
        ...

    def batch(self, item: Any) -> Batch:
        """The tensors of one entry of the plan."""
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
    on_begin: Callable[[], None] = lambda: None,
    group: ProcessGroup | None = None,
) -> TrainingState:
    """Trains ``model`` in place and leaves its best weights in ``folder`` and in ``model``.

    Several processes that each call it, as a ``group``, train as one would: a step takes the same
    batches, of which each process computes its share, and ends in the same weights but for the
    rounding of sums. With dropout, each process draws from its own stream of random numbers, which
    the seed, its rank and the step decide: the same number of processes has the same run again. A
    run can go on with another number of them, from the same place in the same batches. All of them
    see ``folder``; the first one writes there, and validates.

    On a CPU the same seed and number of threads give the same run, bit for bit: each thread draws
    from a stream of its own for its part of a batch (:mod:`core.batch_parts`).

    Args:
        model: on ``device`` already. Its ``config.d_model`` is what the paper's schedule goes by.
        loss: computes with ``model`` in training mode, under the run's precision.
        validate: the metrics of ``model`` as it is, in evaluation mode; ``metric`` among them.
        metric: decides which epoch is best; see :mod:`core.training.kept_checkpoints`.
        folder: gets ``model.safetensors`` (the best), the training curve and, in
            ``training/``, what is needed to go on.
        resume: go on from the state in ``folder``.
        on_begin: called once it is sure that the run can begin or go on, before its first step; of
            a group, by the first process.
        group: the processes that train together; without it, this one by itself.

    Raises:
        Interrupted: SIGINT or SIGTERM came, to any process; everything up to this step is saved.
        UserError: the loss is not finite any more or has exploded, or a file cannot be written.
        CheckpointError: ``resume`` without a usable state.
    """
    group = group or ProcessGroup()
    run = Run(model, config, folder, device, metric, group)
    layers = CompiledLayers(model) if config.compile else None
    torch.manual_seed(config.seed)
    run.begin(resume=resume)
    if group.is_main:
        on_begin()
    with _stop_requests(group) as is_stop_requested:
        while not run.is_over():
            with layers.in_use() if layers is not None else nullcontext():
                _train_epoch(run, data, loss, is_stop_requested)
            run.finish_epoch(validate)
            if is_stop_requested():
                raise _interrupted(run)
    if run.state.best is None:
        raise UserError(f"no epoch had a {metric} that is a number: there is no model to keep")
    with group.main_process_first():
        if group.is_main:
            run.finish(validate)
        load_weights(folder / WEIGHTS_FILE, model)
    model.eval()
    return run.state


def check_installed(config: TrainConfig, device: torch.device) -> None:
    """Makes sure, before there is anything to lose, that what ``config`` asks for is here.

    Raises:
        UserError: TensorBoard or a compiler is not; says what to install.
    """
    if config.tensorboard:
        tensorboard.check_installed()
    if config.compile:
        check_compiler(device)


def make_schedule(config: TrainConfig, *, d_model: int, total_steps: int) -> schedule.Schedule:
    """The schedule that ``config`` names. "noam" is the paper's formula, which has its own peak."""
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
    """Trains from where ``run`` stands to the end of its epoch."""
    config, state = run.config, run.state
    plan = data.plan(state.epoch)
    if not plan:
        raise UserError("there is nothing to train on: the training data has no examples")
    if run.group.size > 1 and not run.group.is_same([len(item) for item in plan]):
        raise UserError("the processes read different training data: it must be the same for all")
    rate = _schedule_of(run, len(plan))
    run.model.train()
    started = time.monotonic() - state.seconds
    label = f"epoch {state.epoch}/{config.epochs}"
    with Progress(len(plan), label, unit="batch", done=state.position) as progress:
        while state.position < len(plan):
            items = plan[state.position : state.position + config.accumulate]
            mean_loss = run.step(_batches(data, items, run.group), loss, rate(state.step + 1))
            state.seconds = time.monotonic() - started
            run.log_step()
            progress.advance(
                len(items),
                f"loss {mean_loss:.3f}, {state.tokens_per_second:,.0f} tokens/s, "
                f"lr {state.learning_rate:.2e}",
            )
            if is_stop_requested():
                run.save()
                run.group.barrier()  # nobody leaves before the state is safe
                raise _interrupted(run)
            is_due = state.step % config.save_every == 0 and state.position < len(plan)
            if is_due and run.is_calm:  # an explosion may have begun
                run.save()


def _batches(
    data: TrainingData, items: Sequence[Any], group: ProcessGroup
) -> Iterator[Batch | None]:
    """This process's shares of a step's batches; None where they have fewer examples than ranks."""
    if group.size == 1:
        yield from map(data.batch, items)
        return
    for item in items:
        share = group.shard(item)
        yield data.batch(share) if share else None


def _schedule_of(run: Run, batches: int) -> schedule.Schedule:
    """The schedule for an epoch of so many batches, to reach its end with the run's last step.

    Epochs may differ in length: what the epochs so far have had is known, and those to come are
    taken to be as long as this one.
    """
    state, config = run.state, run.config
    before = state.step - state.epoch_steps
    to_come = (config.epochs - state.epoch + 1) * math.ceil(batches / config.accumulate)
    sizes: Any = run.model.config
    return make_schedule(config, d_model=sizes.d_model, total_steps=before + to_come)


def _interrupted(run: Run) -> Interrupted:
    return Interrupted(f"stopped at step {run.state.step}")


@contextmanager
def _stop_requests(group: ProcessGroup) -> Iterator[Callable[[], bool]]:
    """Turns the first SIGINT or SIGTERM to any process into a request that all of them hear of.

    A second one acts as it always does on a process by itself. Of several, each may get the same
    signal from the scheduler and again from torchrun, which kills those that take too long.
    """
    received: list[int] = []
    previous: dict[int, Any] = {}

    def remember(number: int, frame: Any) -> None:
        received.append(number)
        line = "stopping as soon as this step is saved"
        if group.size == 1:
            signal.signal(number, previous[number])
            line += "; once more to stop at once"
        elif len(received) > 1:
            return
        # The signal may have come in the middle of another line on stderr.
        with suppress(RuntimeError):
            log(line)

    try:
        for wanted in (signal.SIGINT, signal.SIGTERM):
            previous[wanted] = signal.signal(wanted, remember)
    except ValueError:  # not the main thread: nobody's signals come here
        pass
    try:
        yield lambda: group.any(bool(received))
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
