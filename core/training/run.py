"""A training run: a model, everything around it that changes in training, and its files."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path

import torch
from torch import Tensor, nn

from core.device import autocast
from core.distributed.data_parallel import DataParallel
from core.distributed.process_group import ProcessGroup
from core.errors import ChangedConditions, CheckpointError, ConfigError, UserError
from core.progress import log
from core.special_ids import SpecialIds
from core.storage.files import is_file
from core.training.config import TrainConfig
from core.training.ema import MovingAverage
from core.training.history import History
from core.training.kept_checkpoints import KeptCheckpoints
from core.training.microbatches import Batch, LossFunction, accumulate_gradients, microbatch_count
from core.training.optimizer import make_optimizer
from core.training.precision import choose_precision
from core.training.state import STATE_FILE, STATE_FOLDER, Metrics, TrainingState
from core.training.state_file import StateFile, Trained, save_state

# With other values of these, the position in an epoch would be a position among other batches.
_FIXED_SETTINGS = ("seed", "batch_tokens")

_MAX_CHANGES = 5  # in a message


class Run:
    """A model in training, its optimizer, its state, and the files of the run.

    Args:
        model: on ``device`` already.
        metric: decides which epoch is best; see :func:`core.training.kept_checkpoints.is_better`.
        group: the processes that train this model together. The main process writes the files.
        check_folder: called before that; see :func:`core.training.fit.fit`.
    """

    def __init__(
        self,
        model: nn.Module,
        config: TrainConfig,
        folder: Path,
        device: torch.device,
        metric: str,
        group: ProcessGroup | None = None,
        check_folder: Callable[[], None] = lambda: None,
    ) -> None:
        self.model = model
        self.config = config
        self.folder = folder
        self.device = device
        self.metric = metric
        self.group = group or ProcessGroup()
        self.state = TrainingState()
        self._check_folder = check_folder if self.group.is_main else lambda: None
        self._history = History(folder, config)
        self._kept = KeptCheckpoints(model, config, folder, metric, is_writer=self.group.is_main)
        self.is_stable = True
        """Whether the last step was like those before; see :mod:`core.training.divergence`."""
        model.zero_grad(set_to_none=True)  # a run that failed may have left gradients
        parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self._parameters = list(parameters.values())
        self._data_parallel = DataParallel(model) if self.group.size > 1 else None
        self._optimizer = make_optimizer(config, self._parameters)
        self._ema = MovingAverage(self._parameters, config.ema) if config.ema > 0.0 else None
        self._trained = Trained(model, parameters, self._optimizer, self._ema, device)

    def begin(
        self,
        *,
        resume: bool,
        conditions: Mapping[str, str] | None = None,
        accept_changes: bool = False,
    ) -> None:
        """Begins the run, or loads the state in its folder; see :func:`core.training.fit.fit`.

        Raises:
            CheckpointError, ConfigError: see :meth:`load`.
            ChangedConditions: the run was begun under other conditions.
            UserError: a file cannot be written.
        """
        conditions = self.group.broadcast(lambda: dict(conditions or {}))
        if resume:
            self.load(conditions, accept_changes=accept_changes)
        self.state.conditions = conditions or self.state.conditions
        if self.group.is_main:
            self._history.begin(self.state.step)

    def step(
        self, batches: Sequence[Batch | None], loss: LossFunction, learning_rate: float
    ) -> float:
        """Takes one step of the optimizer over all of ``batches``, as if they were one.

        The gradient is that of the summed loss divided by the number of targets. So accumulating
        small batches equals one large batch, and so does sharding a batch over processes.

        Args:
            batches: this process's shards; None for an empty one.

        Returns:
            The mean loss.

        Raises:
            UserError: the loss or its gradient is not finite, or has exploded; the weights are
                unchanged.
        """
        if self.group.size > 1:
            # Decided by nothing else of the steps before: the state that the main process saves
            # is enough to resume any number of processes.
            name = f"{self.config.seed} {self.state.step} {self.group.rank}"
            torch.manual_seed(random.Random(name).getrandbits(63))
        size = len(batches)
        loss_sum, count = self._backward(batches, loss)
        gradients = [p.grad for p in self._parameters if p.grad is not None]
        norm = torch.stack(torch._foreach_norm(gradients)).norm().item() / count
        if not (math.isfinite(loss_sum) and math.isfinite(norm)):
            raise self._diverged(
                f"the loss is {loss_sum / count:.4g} and the gradient norm {norm:.4g}", size
            )
        if (explosion := self.config.explosion) > 0.0:
            values = (loss_sum / count, norm, explosion)
            if reason := self.state.monitor.explosion(*values):
                raise self._diverged(reason, size)
            self.is_stable = self.state.monitor.is_stable(*values)
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

    def _backward(self, batches: Sequence[Batch | None], loss: LossFunction) -> tuple[float, int]:
        """Gives the parameters the gradients of the summed loss, over all processes.

        Returns the loss and its number of targets.
        """

        precision = self._precision(batches, loss)

        def with_precision(batch: Batch) -> tuple[Tensor, int]:
            with autocast(precision, self.device):
                return loss(batch)

        total = torch.zeros((), device=self.device)
        count = tokens = positions = 0
        for number, batch in enumerate(batches, start=1):
            if batch is not None:
                sequences = [ids for ids in batch if ids.dim() == 2]
                tokens += sum(int((ids != SpecialIds().pad).sum()) for ids in sequences)
                positions += sum(ids.numel() for ids in sequences)
                batch = tuple(x.to(self.device, non_blocking=True) for x in batch)
            is_last = number == len(batches)
            batch_loss, batch_count = self._backward_batch(batch, with_precision, is_last)
            total += batch_loss.detach()
            count += batch_count
        loss_sum, *sums = self.group.sum([total.item(), count, tokens, positions])
        count, tokens, positions = map(int, sums)
        self.state.tokens += tokens
        self.state.positions += positions
        return loss_sum, count

    def _precision(self, batches: Sequence[Batch | None], loss: LossFunction) -> str:
        """Returns the precision of the run. On a CPU, the first step chooses that of "auto"."""
        if self.config.precision != "auto":
            return self.config.precision
        state = self.state
        if state.step == 0 and not state.precision and self.device.type == "cpu":
            state.precision = self.group.broadcast(
                lambda: choose_precision(loss, self._parameters, batches[0])
            )
        return state.precision or "auto"

    def _backward_batch(
        self, batch: Batch | None, loss: LossFunction, is_last: bool
    ) -> tuple[Tensor, int]:
        """Adds the gradients of one batch. Returns its summed loss and number of targets."""
        if self._data_parallel is not None:
            return self._data_parallel.backward(loss, batch, is_last=is_last)
        assert batch is not None, "only a process of several has empty shards"
        count = 1 if self.config.compile else microbatch_count(batch)
        if count > 1:
            return accumulate_gradients(batch, loss, self._parameters, count)
        total, targets = loss(batch)
        total.backward()
        return total, targets

    def finish_epoch(self, validate: Callable[[], Metrics]) -> None:
        """Validates, keeps the weights if they are among the best, and saves the run.

        With ``train.ema``, the averaged weights are validated and kept.
        """
        state = self.state
        with self._ema.in_place_of_weights() if self._ema is not None else nullcontext():
            self.model.eval()
            metrics = self.group.broadcast(validate)
            self._check_folder()
            row = state.epoch_row(metrics)
            state.history.append(row)
            shown = ", ".join(f"{name} {number:.4g}" for name, number in metrics.items())
            log(
                f"epoch {state.epoch}: train_loss {row['train_loss']:.4f}, {shown}, "
                f"{row['tokens_per_second']:,.0f} tokens/s, {state.seconds:.0f} s"
            )
            self._kept.keep(state, metrics[self.metric])
        if self.group.is_main:
            self._history.add_epoch(state.history)
        state.begin_epoch(state.epoch + 1)
        self.save()
        self._kept.remove_others(state)

    def log_step(self) -> None:
        """Writes a row of ``steps.csv`` after every ``log_every`` steps."""
        every = self.config.log_every
        if every > 0 and self.state.step % every == 0:
            row = self.state.step_row()
            if self.group.is_main:
                self._check_folder()
                self._history.add_step(row)

    def is_over(self) -> bool:
        """Returns whether all epochs are done, or the last ``patience`` brought no improvement."""
        done, patience = self.state.epoch - 1, self.config.patience
        return done >= self.config.epochs or 0 < patience <= done - self.state.best_epoch

    def finish(
        self, validate: Callable[[], Metrics], measure_final: Callable[[], float] | None
    ) -> None:
        """Leaves the best weights in the folder: those of an epoch, or the mean of several."""
        self._check_folder()
        self._kept.finish(self.state, validate, measure_final)

    def save(self) -> None:
        """Writes the state of the run, atomically."""
        if self.group.is_main:
            self._check_folder()
            save_state(self._state_path, self._trained, self.state, self.config)

    def load(
        self, conditions: Mapping[str, str] | None = None, *, accept_changes: bool = False
    ) -> None:
        """Loads the state that :meth:`save` wrote.

        Raises:
            ChangedConditions: the run was begun under other ``conditions``, and ``accept_changes``
                is false.
            CheckpointError: there is none, it is damaged or belongs to another model, or the
                processes see different ones.
            ConfigError: the run has other values of settings that must not change.
        """
        path = self._state_path
        if not is_file(path):
            raise CheckpointError(f"{self.folder}: nothing to resume: there is no {path}")
        file = StateFile(path)
        for name in _FIXED_SETTINGS:
            old, new = file.settings.get(name), getattr(self.config, name)
            if type(old) is not int:
                raise CheckpointError(f"{path}: not a training state, or of another version")
            if old != new:
                raise ConfigError(
                    f"{path}: the run to resume has train.{name}={old}, which cannot change "
                    f"to {new}; resume it with train.{name}={old}"
                )
        changes = file.state.differences(conditions) if conditions else []
        if changes and not accept_changes:
            shown = "; ".join(changes[:_MAX_CHANGES]) + "; ..." * (len(changes) > _MAX_CHANGES)
            raise ChangedConditions(f"{path}: not the conditions that the run began with: {shown}")
        file.restore(self._trained)
        self.state = file.state
        self.state.changes += [f"step {self.state.step}: {change}" for change in changes]
        if not self.group.is_same(self.state.step):
            raise CheckpointError(
                f"{path}: the processes read different states: all machines must share the folder, "
                "and see its latest files"
            )

    @property
    def _state_path(self) -> Path:
        return self.folder / STATE_FOLDER / STATE_FILE

    def _diverged(self, reason: str, batches: int) -> UserError:
        state = self.state
        first, last = state.position + 1, state.position + batches
        place = f"batch {first}" if first == last else f"batches {first} to {last}"
        return UserError(
            f"{reason}, at step {state.step + 1} (epoch {state.epoch}, {place}); the last good "
            "checkpoint is kept. Lower train.learning_rate or raise train.warmup_steps"
        )
