"""The one training loop, for every task.

A task brings its data, its loss and its validation (:class:`~.trainer.Objective`). ``fit`` does the
rest: schedule, mixed precision, gradient clipping, checkpoints, early stopping, and averages of
weights. Everything that decides how a run continues is in its state file, so that an interrupted
run ends exactly like one that was not.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from importlib.util import find_spec

import torch
from torch import nn

from core.errors import Interrupted, UserError
from core.progress import Progress
from core.training.compilation import CompiledLayers, check_compiler
from core.training.config import TrainConfig
from core.training.state import TrainingState
from core.training.stopping import stop_requests
from core.training.trainer import FitOptions, Objective, Trainer


def fit(
    model: nn.Module, config: TrainConfig, objective: Objective, options: FitOptions
) -> TrainingState:
    """Trains ``model`` in place and leaves its best weights in the folder and in ``model``.

    With a group of several processes, each of them calls it. They train as one process would: every
    step takes the same batches, of which each process computes a shard, and leads to the same
    weights up to rounding. A run can be resumed with another number of processes. All need access
    to the folder; the main process writes there, and validates.

    The seed, the step and the rank decide the random numbers of a step. On a CPU, the same seed and
    number of threads and processes give the same run, bit for bit.

    Args:
        model: on its device already. The paper's schedule uses its ``config.d_model``.

    Raises:
        Interrupted: SIGINT or SIGTERM came, to any process; all steps so far are saved.
        UserError: the loss is not finite or has exploded, or a file cannot be written.
        CheckpointError: ``resume`` without a usable state.
        ChangedConditions: ``resume`` under other conditions.
    """
    trainer = Trainer(model, config, objective, options)
    layers = CompiledLayers(model) if config.compile else None
    trainer.begin()
    with stop_requests(options.group) as is_stop_requested:
        while not trainer.is_over():
            with layers.in_use() if layers is not None else nullcontext():
                _train_epoch(trainer, is_stop_requested)
            trainer.finish_epoch()
            if is_stop_requested():
                raise Interrupted(f"stopped at step {trainer.state.step}")
    trainer.finish()
    return trainer.state


def _train_epoch(trainer: Trainer, is_stop_requested: Callable[[], bool]) -> None:
    """Trains from the current position to the end of its epoch."""
    config, state = trainer.config, trainer.state
    plan, rate = trainer.begin_epoch()
    started = time.monotonic() - state.sums.seconds
    label = f"epoch {state.epoch}/{config.epochs}"
    with Progress(len(plan), label, unit="batch", done=state.position) as progress:
        while state.position < len(plan):
            items = plan[state.position : state.position + config.accumulate]
            loss = trainer.step(items, rate(state.step + 1))
            state.sums.seconds = time.monotonic() - started
            trainer.log_step()
            progress.advance(
                len(items),
                f"loss {loss:.3f}, {state.sums.tokens_per_second:,.0f} tokens/s, "
                f"lr {state.learning_rate:.2e}",
            )
            if is_stop_requested():
                trainer.save()
                raise Interrupted(f"stopped at step {state.step}")
            is_due = state.step % config.save_every == 0 and state.position < len(plan)
            if is_due and trainer.is_stable:
                trainer.save()


def check_installed(config: TrainConfig, device: torch.device) -> None:
    """Checks that the optional packages and tools which ``config`` needs are installed.

    Raises:
        UserError: TensorBoard or a compiler is missing; says what to install.
    """
    if config.tensorboard and find_spec("tensorboard") is None:
        raise UserError(
            "train.tensorboard needs the package tensorboard, which is not installed: "
            "pip install 'transformer-suite[tensorboard]'"
        )
    if config.compile:
        check_compiler(device)
