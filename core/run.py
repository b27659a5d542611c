"""A training run: a model with all that decides how its training goes on, and the run's folder."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor, nn

from .checkpoint import (
    WEIGHTS_FILE,
    average_weights,
    check_fits,
    copy_into,
    load_tensors,
    load_weights,
    model_tensors,
    save_tensors,
    save_weights,
)
from .config import TrainConfig
from .device import autocast
from .ema import MovingAverage
from .errors import CheckpointError, ConfigError, UserError
from .history import History
from .optimizer import make_optimizer
from .progress import say
from .sequence_to_sequence import SpecialIds
from .training_state import Metrics, TrainingState

STATE_FOLDER = "training"
STATE_FILE = "state.safetensors"

Batch = tuple[Tensor, ...]
"""The tensors of some examples. Sequences of ids are ``[S, B]``, padded with ``SpecialIds().pad``,
and nothing else in a batch has two axes."""

LossFunction = Callable[[Batch], tuple[Tensor, int]]
"""From a batch to its summed loss and the number of things (words, sentences) summed over."""

# A run cannot go on with others of these: its place in an epoch's batches would mean nothing.
_FIXED_SETTINGS = ("seed", "batch_tokens")


class Run:
    """A model in training with everything around it that changes, and the files it is kept in.

    Args:
        model: on ``device`` already.
        metric: decides which epoch is best; see :func:`is_better`.
    """

    def __init__(
        self,
        model: nn.Module,
        config: TrainConfig,
        folder: Path,
        device: torch.device,
        metric: str,
    ) -> None:
        self.model = model
        self.config = config
        self.folder = folder
        self.device = device
        self.metric = metric
        self.state = TrainingState()
        self._history = History(folder, config)
        self.is_calm = True
        """Whether the last step was like those before it; see :class:`core.divergence.Course`."""
        model.zero_grad(set_to_none=True)  # a run that failed may have left gradients behind
        trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self._names, self._parameters = list(trained), list(trained.values())
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
        self._history.begin(self.state.step)

    def step(self, batches: Iterable[Batch], loss: LossFunction, learning_rate: float) -> float:
        """One step of the optimizer over all of ``batches``, as if they were one.

        The gradient is that of the summed loss divided by the number of things summed over, so
        accumulating small batches equals one big batch. Returns that mean loss.

        Raises:
            UserError: the loss or its gradient is not finite, or has exploded; the weights are as
                they were.
        """
        total, count, size = torch.zeros((), device=self.device), 0, 0
        for batch in batches:
            self._count_tokens(batch)
            batch = tuple(x.to(self.device, non_blocking=True) for x in batch)
            with autocast(self.config.precision, self.device):
                part, n = loss(batch)
            part.backward()
            total += part.detach()
            count += n
            size += 1
        gradients = [p.grad for p in self._parameters if p.grad is not None]
        norm = torch.stack(torch._foreach_norm(gradients)).norm().item() / count
        loss_sum = total.item()
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

    def finish_epoch(self, validate: Callable[[], Metrics]) -> None:
        """Validates, keeps the epoch's weights if they are among the best, and saves the run.

        The weights that are validated and kept are the moving average's where there is one.
        """
        with self._ema.in_place_of_weights() if self._ema is not None else nullcontext():
            self.model.eval()
            metrics = validate()
            self._note(metrics)
            self._keep(metrics[self.metric])
        self._history.add_epoch(self.state.history)
        self.state.begin_epoch(self.state.epoch + 1)
        self.save()
        self._remove_old_candidates()

    def _note(self, metrics: Metrics) -> None:
        """Adds the epoch to the history."""
        state = self.state
        row = state.epoch_row(metrics)
        state.history.append(row)
        shown = ", ".join(f"{name} {number:.4g}" for name, number in metrics.items())
        say(
            f"epoch {state.epoch}: train_loss {row['train_loss']:.4f}, {shown}, "
            f"{row['tokens_per_second']:,.0f} tokens/s, {state.seconds:.0f} s"
        )

    def _keep(self, value: float) -> None:
        """Keeps the weights of an epoch whose metric is ``value`` if they are among the best."""
        state = self.state
        if is_better(self.metric, value, state.best):
            state.best, state.best_epoch = value, state.epoch
            self._save_model()
        self._keep_candidate(value)

    def log_step(self) -> None:
        """Writes down how the last ``log_every`` steps went, if there are as many since then."""
        every = self.config.log_every
        if every > 0 and self.state.step % every == 0:
            self._history.add_step(self.state.step_row())

    def is_over(self) -> bool:
        """Whether every epoch is done, or ``patience`` of them came without a better one."""
        done, patience = self.state.epoch - 1, self.config.patience
        return done >= self.config.epochs or 0 < patience <= done - self.state.best_epoch

    def keep_average(self, validate: Callable[[], Metrics]) -> None:
        """Tries the mean of some epochs' weights, and keeps it if it beats the best epoch."""
        state = self.state
        epochs = sorted(epoch for _, epoch in state.candidates)
        if self.config.average >= 2 and len(epochs) >= 2:
            paths = [self._candidate(epoch) for epoch in epochs]
            copy_into(self.model, average_weights(paths), self.folder)
            self.model.eval()
            value = validate()[self.metric]
            say(
                f"average of epochs {', '.join(map(str, epochs))}: {self.metric} {value:.4g} "
                f"(best epoch: {state.best:.4g})"
            )
            if is_better(self.metric, value, state.best):
                self._save_model()
                state.averaged = epochs
                return
        self._put_back_best()

    def save(self) -> None:
        """Writes everything that decides how the run goes on, atomically."""
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
            CheckpointError: there is none, or it is damaged or of another model.
            ConfigError: it was made with settings that cannot change on the way.
        """
        path = self.folder / STATE_FOLDER / STATE_FILE
        if not path.is_file():
            raise CheckpointError(f"{self.folder}: nothing to resume: there is no {path}")
        tensors = load_tensors(path)
        state, settings = _numbers_of(path, tensors)
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

    def _count_tokens(self, batch: Batch) -> None:
        for ids in batch:
            if ids.dim() == 2:
                self.state.positions += ids.numel()
                self.state.tokens += int((ids != SpecialIds().pad).sum())

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
                    f"{path}: the run to resume has train.{name}={old}, which cannot become {new} "
                    f"on the way; resume it with --set train.{name}={old}"
                )

    def _candidate(self, epoch: int) -> Path:
        return epoch_file(self.folder, epoch)

    def _keep_candidate(self, value: float) -> None:
        """Keeps the weights if the epoch is the best, or one that may be averaged at the end."""
        state, config = self.state, self.config
        if config.average < 2 or math.isnan(value):
            return
        state.candidates.append((value, state.epoch))
        if config.average_of == "last":
            state.candidates.sort(key=lambda c: c[1], reverse=True)
        else:
            state.candidates.sort(key=lambda c: c[0], reverse=not _falls(self.metric))
        del state.candidates[config.average :]
        if state.epoch in self._kept_epochs():
            save_weights(self._candidate(state.epoch), self.model)

    def _kept_epochs(self) -> set[int]:
        return {self.state.best_epoch, *(epoch for _, epoch in self.state.candidates)}

    def _remove_old_candidates(self) -> None:
        """After the state that no longer names them is safe on disk, not before."""
        kept = set(map(self._candidate, self._kept_epochs()))
        for path in (self.folder / STATE_FOLDER).glob("epoch-*.safetensors"):
            if path not in kept:
                path.unlink()

    def _put_back_best(self) -> None:
        """Before the run was prolonged, it may have kept an average in the best epoch's place."""
        best = self._candidate(self.state.best_epoch)
        if not best.is_file():
            return
        load_weights(best, self.model)
        kept = load_tensors(self.folder / WEIGHTS_FILE)
        weights = model_tensors(self.model).items()
        if not all(torch.equal(kept[name], w.to(kept[name])) for name, w in weights):
            self._save_model()

    def _save_model(self) -> None:
        save_weights(self.folder / WEIGHTS_FILE, self.model, dtype=disk_dtype(self.config))


def disk_dtype(config: TrainConfig) -> torch.dtype | None:
    """The type of a finished model's weights on disk; None: the one they have."""
    return torch.float16 if config.weights_on_disk == "fp16" else None


def epoch_file(folder: Path, epoch: int) -> Path:
    """Where the run in ``folder`` keeps the weights of ``epoch``, if they are among its best."""
    return folder / STATE_FOLDER / f"epoch-{epoch:03d}.safetensors"


def kept_epochs(folder: Path) -> list[int]:
    """The epochs whose weights the run in ``folder`` has kept (``train.average``), the best first.

    Raises:
        CheckpointError: there is no training state, or it is damaged.
    """
    path = folder / STATE_FOLDER / STATE_FILE
    state, _ = _numbers_of(path, load_tensors(path))
    return [epoch for _, epoch in state.candidates]


def is_better(metric: str, new: float, old: float | None) -> bool:
    """Whether ``new`` beats ``old``: losses and perplexities fall, everything else rises."""
    if old is None:
        return not math.isnan(new)
    return new < old if _falls(metric) else new > old


def _falls(metric: str) -> bool:
    return metric.endswith(("loss", "perplexity"))


def _numbers_of(
    path: Path, tensors: Mapping[str, Tensor]
) -> tuple[TrainingState, dict[str, object]]:
    """The state at ``path``, whose ``tensors`` these are, and the settings it was made with.

    Raises:
        CheckpointError: it is no training state, or of a program that writes other ones.
    """
    try:
        numbers = json.loads(tensors["numbers"].numpy().tobytes())
        return TrainingState.from_mapping(numbers["state"]), numbers["train"]
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"{path}: not a training state, or that of another version of this program"
        ) from error


def _below(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    start = f"{prefix}."
    return {name[len(start) :]: t for name, t in tensors.items() if name.startswith(start)}
