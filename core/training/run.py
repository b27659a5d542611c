"""A training run: a model with all that decides how its training goes on, and the run's folder."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import asdict
from itertools import chain, pairwise
from pathlib import Path
from typing import TypeVar, cast

import torch
from torch import Tensor, nn

from ..device import autocast
from ..distributed.gradient_sum import GradientSum
from ..distributed.process_group import ProcessGroup
from ..errors import CheckpointError, ConfigError, UserError
from ..progress import log
from ..special_ids import SpecialIds
from ..storage.checkpoint import check_fits, copy_into, load_tensors, model_tensors, save_tensors
from .config import TrainConfig
from .ema import MovingAverage
from .history import History
from .kept_checkpoints import KeptWeights
from .microbatches import Batch, LossFunction, add_gradients, number_of_parts
from .optimizer import make_optimizer
from .state import STATE_FILE, STATE_FOLDER, Metrics, TrainingState, numbers_of

# A run cannot go on with others of these: its place in an epoch's batches would mean nothing.
_FIXED_SETTINGS = ("seed", "batch_tokens")

T = TypeVar("T")


class Run:
    """A model in training with everything around it that changes, and the files it is kept in.

    Args:
        model: on ``device`` already.
        metric: decides which epoch is best; see :func:`core.training.kept_checkpoints.is_better`.
        group: the processes that train this model together. The first one has the folder.
    """

    def __init__(
        self,
        model: nn.Module,
        config: TrainConfig,
        folder: Path,
        device: torch.device,
        metric: str,
        group: ProcessGroup | None = None,
    ) -> None:
        self.model = model
        self.config = config
        self.folder = folder
        self.device = device
        self.metric = metric
        self.group = group or ProcessGroup()
        self.state = TrainingState()
        self._history = History(folder, config)
        self._kept = KeptWeights(model, config, folder, metric, is_writer=self.group.is_main)
        self.is_calm = True
        """Whether the last step was like those before it; see :mod:`core.training.divergence`."""
        model.zero_grad(set_to_none=True)  # a run that failed may have left gradients behind
        trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self._names, self._parameters = list(trained), list(trained.values())
        self._gradient_sum = GradientSum(self._parameters) if self.group.size > 1 else None
        self._optimizer = make_optimizer(config, self._parameters)
        self._ema = MovingAverage(self._parameters, config.ema) if config.ema > 0.0 else None

    def begin(self, *, resume: bool) -> None:
        """Takes up the run in the folder, or begins it.

        Raises:
            CheckpointError, ConfigError: as :meth:`load` says.
            UserError: a file cannot be written.
        """
        if resume:
            self.load()
        if self.group.is_main:
            self._history.begin(self.state.step)

    def step(
        self, batches: Iterable[Batch | None], loss: LossFunction, learning_rate: float
    ) -> float:
        """One step of the optimizer over all of ``batches``, as if they were one.

        The gradient is that of the summed loss divided by the number of things summed over, so
        accumulating small batches equals one big batch, and so do the batches of all processes.
        Returns that mean loss.

        Args:
            batches: this process's shares of them; None where it has none.

        Raises:
            UserError: the loss or its gradient is not finite, or has exploded; the weights are as
                they were.
        """
        if self.group.size > 1:
            self._seed_step()
        loss_sum, count, size = self._backward(batches, loss)
        gradients = [p.grad for p in self._parameters if p.grad is not None]
        norm = torch.stack(torch._foreach_norm(gradients)).norm().item() / count
        if not (math.isfinite(loss_sum) and math.isfinite(norm)):
            raise self._gone_wrong(
                f"the loss is {loss_sum / count:.4g} and its gradient's norm {norm:.4g}", size
            )
        self._watch(loss_sum / count, norm, size)
        factor = 1.0 / count
        if self.config.clip_norm > 0.0:
            factor *= min(1.0, self.config.clip_norm / (norm + 1e-6))
        torch._foreach_mul_(gradients, factor)
        for group in self._optimizer.param_groups:
            group["lr"] = learning_rate
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        state = self.state
        state.step += 1
        if self._ema is not None:
            self._ema.update(state.step)
        state.epoch_steps += 1
        state.position += size
        state.learning_rate = learning_rate
        state.loss_sum += loss_sum
        state.loss_count += count
        state.norm_sum += norm
        return loss_sum / count

    def _seed_step(self) -> None:
        """Gives this process a stream of random numbers of its own for the step to come.

        Nothing of earlier steps is in it, so a state that the first process saved is enough for
        all, however many there are.
        """
        name = f"{self.config.seed} {self.state.step} {self.group.rank}"
        torch.manual_seed(random.Random(name).getrandbits(63))

    def _backward(
        self, batches: Iterable[Batch | None], loss: LossFunction
    ) -> tuple[float, int, int]:
        """Gives the parameters the gradients of the summed loss of all batches of all processes.

        Returns that loss, the number of things it is summed over, and that of the batches.
        """

        def with_precision(batch: Batch) -> tuple[Tensor, int]:
            with autocast(self.config.precision, self.device):
                return loss(batch)

        total = torch.zeros((), device=self.device)
        size = count = tokens = positions = 0
        for batch, is_last in _marking_last(batches):
            size += 1
            if batch is None:
                continue
            for ids in batch:
                if ids.dim() == 2:
                    positions += ids.numel()
                    tokens += int((ids != SpecialIds().pad).sum())
            batch = tuple(x.to(self.device, non_blocking=True) for x in batch)
            parts = 1 if self.config.compile else number_of_parts(batch)
            if parts > 1:
                part, n = add_gradients(batch, with_precision, self._parameters, parts)
            else:
                part, n = with_precision(batch)
                if is_last and self._gradient_sum:
                    self._gradient_sum.begin()
                part.backward()
            total += part.detach()
            count += n
        if self._gradient_sum:
            self._gradient_sum.finish()
        loss_sum, *sums = self.group.sum([total.item(), count, tokens, positions])
        count, tokens, positions = map(int, sums)
        self.state.tokens += tokens
        self.state.positions += positions
        return loss_sum, count, size

    def finish_epoch(self, validate: Callable[[], Metrics]) -> None:
        """Validates, keeps the epoch's weights if they are among the best, and saves the run.

        The weights that are validated and kept are the moving average's where there is one.
        """
        with self._ema.in_place_of_weights() if self._ema is not None else nullcontext():
            self.model.eval()
            metrics = self.group.broadcast(validate)
            self._note(metrics)
            self._kept.keep(self.state, metrics[self.metric])
        if self.group.is_main:
            self._history.add_epoch(self.state.history)
        self.state.begin_epoch(self.state.epoch + 1)
        self.save()
        self._kept.remove_others(self.state)

    def _note(self, metrics: Metrics) -> None:
        """Adds the epoch to the history."""
        state = self.state
        row = state.epoch_row(metrics)
        state.history.append(row)
        shown = ", ".join(f"{name} {number:.4g}" for name, number in metrics.items())
        log(
            f"epoch {state.epoch}: train_loss {row['train_loss']:.4f}, {shown}, "
            f"{row['tokens_per_second']:,.0f} tokens/s, {state.seconds:.0f} s"
        )

    def log_step(self) -> None:
        """Writes down how the last ``log_every`` steps went, if there are as many since then."""
        every = self.config.log_every
        if every > 0 and self.state.step % every == 0:
            row = self.state.step_row()
            if self.group.is_main:
                self._history.add_step(row)

    def is_over(self) -> bool:
        """Whether every epoch is done, or ``patience`` of them came without a better one."""
        done, patience = self.state.epoch - 1, self.config.patience
        return done >= self.config.epochs or 0 < patience <= done - self.state.best_epoch

    def finish(self, validate: Callable[[], Metrics]) -> None:
        """Leaves the best weights in the folder: an epoch's, or the mean of several epochs'."""
        self._kept.finish(self.state, validate)

    def save(self) -> None:
        """Writes everything that decides how the run goes on, atomically."""
        if not self.group.is_main:
            return
        tensors = {f"model.{name}": t for name, t in model_tensors(self.model).items()}
        for name, parameter in self.model.named_parameters():
            for slot, value in self._optimizer.state.get(parameter, {}).items():
                tensors[f"optimizer.{name}.{slot}"] = value
        if self._ema is not None:
            averages = zip(self._names, self._ema.tensors, strict=True)
            tensors.update((f"ema.{name}", average) for name, average in averages)
        tensors["random.cpu"] = torch.get_rng_state()
        if self.device.type == "cuda":
            tensors["random.cuda"] = torch.cuda.get_rng_state(self.device)
        # The numbers go as the bytes of their JSON, so that the file's checksum covers them too.
        numbers = json.dumps({"state": asdict(self.state), "train": asdict(self.config)})
        tensors["numbers"] = torch.frombuffer(bytearray(numbers.encode()), dtype=torch.uint8)
        save_tensors(self.folder / STATE_FOLDER / STATE_FILE, tensors)

    def load(self) -> None:
        """Takes up the run that :meth:`save` wrote.

        Raises:
            CheckpointError: there is none, or it is damaged or of another model, or not all
                processes see the same.
            ConfigError: it was made with settings that cannot change on the way.
        """
        path = self.folder / STATE_FOLDER / STATE_FILE
        if not path.is_file():
            raise CheckpointError(f"{self.folder}: nothing to resume: there is no {path}")
        tensors = load_tensors(path)
        state, settings = numbers_of(path, tensors)
        check_fits(self.model, _below("model", tensors), path)
        self._check_settings(path, settings)
        copy_into(self.model, _below("model", tensors), path)
        for name, parameter in self.model.named_parameters():
            slots = _below(f"optimizer.{name}", tensors)
            if slots:
                # Copies, because the loaded ones are windows on the file.
                self._optimizer.state[parameter] = {
                    slot: value.to(self.device, copy=True) for slot, value in slots.items()
                }
        if self._ema is not None:
            # Weights of a run that had no average until now are their own.
            averages = _below("ema", tensors) or _below("model", tensors)
            for name, average in zip(self._names, self._ema.tensors, strict=True):
                average.copy_(averages[name])
        torch.set_rng_state(tensors["random.cpu"])
        if self.device.type == "cuda" and "random.cuda" in tensors:
            torch.cuda.set_rng_state(tensors["random.cuda"], self.device)
        self.state = state
        if not self.group.is_same(state.step):
            raise CheckpointError(
                f"{path}: the processes read different states: the folder must be one that all "
                "machines share, and up to date on all of them"
            )

    def _watch(self, loss: float, norm: float, batches: int) -> None:
        """Refuses a step over so many batches with which the run has exploded."""
        factor = self.config.explosion
        if factor > 0.0:
            if reason := self.state.course.explosion(loss, norm, factor):
                raise self._gone_wrong(reason, batches)
            self.is_calm = self.state.course.is_calm(loss, norm, factor)

    def _gone_wrong(self, reason: str, batches: int) -> UserError:
        state = self.state
        first, last = state.position + 1, state.position + batches
        place = f"batch {first}" if first == last else f"batches {first} to {last}"
        return UserError(
            f"{reason}, at step {state.step + 1} (epoch {state.epoch}, {place}); the last good "
            "checkpoint is kept. Lower train.learning_rate or raise train.warmup_steps"
        )

    def _check_settings(self, path: Path, saved: dict[str, object]) -> None:
        for name in _FIXED_SETTINGS:
            old, new = saved[name], getattr(self.config, name)
            if old != new:
                raise ConfigError(
                    f"{path}: the run to resume has train.{name}={old}, which cannot change to "
                    f"{new}; resume it with train.{name}={old}"
                )


def _marking_last(items: Iterable[T]) -> Iterator[tuple[T, bool]]:
    """Every item, and whether it is the last one."""
    end = object()
    for item, following in pairwise(chain(items, [end])):
        yield cast(T, item), following is end


def _below(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    start = f"{prefix}."
    return {name[len(start) :]: t for name, t in tensors.items() if name.startswith(start)}
