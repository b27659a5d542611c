"""The one training loop, for every task.

A task brings its data (:class:`TrainingData`), its loss and its validation; ``fit`` does the rest: schedule,
mixed precision, gradient clipping, checkpoints that survive anything, early stopping, and the average
of the best epochs' weights. Everything that decides a run is in its state file, so that a run that was
interrupted ends exactly as one that was not.
"""

from __future__ import annotations

import csv
import io
import math
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from . import schedule
from .checkpoint import (
    WEIGHTS_FILE,
    load_tensors,
    load_weights,
    model_tensors,
    save_tensors,
    save_weights,
)
from .config import TrainConfig
from .errors import CheckpointError, Interrupted, UserError
from .files import write_text
from .progress import Progress, say

STATE_FOLDER = "training"
STATE_FILE = "state.safetensors"
HISTORY_FILE = "history.csv"

Batch = tuple[Tensor, ...]
Metrics = dict[str, float]


class TrainingData(Protocol):
    """Batches of an epoch; the same for the same epoch number, whenever they are asked for."""

    def plan(self, epoch: int) -> Sequence[Any]:
        """What the batches of this epoch are made of, in order."""
        ...

    def batch(self, item: Any) -> Batch:
        """The tensors of one entry of the plan."""
        ...


LossFunction = Callable[[Batch], tuple[Tensor, int]]
"""From a batch to its summed loss and the number of things (tokens, sentences) summed over."""


@dataclass
class TrainingState:
    """Where a run stands, apart from its tensors."""

    epoch: int = 1
    position: int = 0
    step: int = 0
    loss_sum: float = 0.0
    count: int = 0
    norm_sum: float = 0.0
    epoch_steps: int = 0
    seconds: float = 0.0
    best: float | None = None
    best_epoch: int = 0
    candidates: list[tuple[float, int]] = field(default_factory=list)
    history: list[dict[str, float]] = field(default_factory=list)

    def begin_epoch(self, epoch: int) -> None:
        self.epoch, self.position = epoch, 0
        self.loss_sum = self.norm_sum = self.seconds = 0.0
        self.count = self.epoch_steps = 0


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
) -> TrainingState:
    """Trains ``model`` in place and leaves its best weights in ``folder`` and in ``model``.

    Args:
        model: on ``device`` already.
        loss: computes with ``model`` in training mode, under the run's precision.
        validate: the metrics of ``model`` as it is, in evaluation mode; ``metric`` among them.
        metric: decides which epoch is best: the lowest if it ends in "loss", else the highest.
        folder: gets ``model.safetensors`` (the best), ``history.csv`` and, in ``training/``, what is
            needed to go on.
        resume: go on from the state in ``folder``.

    Raises:
        Interrupted: SIGINT or SIGTERM came; everything up to this step is saved.
        UserError: the loss is not finite any more, or a file cannot be written.
        CheckpointError: ``resume`` without a usable state.
    """
    run = _Run(model, config, folder, device, metric)
    torch.manual_seed(config.seed)
    if resume:
        run.load()
    with _stop_requests() as stop_requested:
        while run.state.epoch <= config.epochs and not run.is_out_of_patience():
            _train_epoch(run, data, loss, stop_requested)
            model.eval()
            run.finish_epoch(validate())
    run.keep_average(validate)
    load_weights(folder / WEIGHTS_FILE, model)
    model.eval()
    return run.state


def choose_device(name: str) -> torch.device:
    """The device called "auto" (a GPU if there is one), "cpu", "cuda" or "cuda:N".

    Raises:
        UserError: no such device here.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or device.type not in ("cpu", "cuda"):
        raise UserError(f"--device must be auto, cpu, cuda or cuda:N, not {name!r}")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise UserError(
            f"--device {name}: this machine has {torch.cuda.device_count()} usable GPUs; use cpu"
        )
    return device


def autocast(precision: str, device: torch.device) -> AbstractContextManager[Any]:
    """The precision of a forward pass: "auto" is bf16 on a GPU that has it and fp32 elsewhere."""
    if precision == "auto":
        is_bf16 = device.type == "cuda" and torch.cuda.is_bf16_supported()
    else:
        is_bf16 = precision == "bf16"
    return torch.autocast(device.type, dtype=torch.bfloat16) if is_bf16 else nullcontext()


def make_schedule(config: TrainConfig, *, d_model: int, total_steps: int) -> schedule.Schedule:
    """The schedule that ``config`` names. "noam" is the paper's formula, which has its own peak."""
    if config.schedule == "noam":
        return schedule.CustomSchedule(d_model, config.warmup_steps)
    if config.schedule == "cosine":
        return schedule.cosine(config.learning_rate, config.warmup_steps, total_steps)
    if config.schedule == "constant":
        return schedule.constant(config.learning_rate, config.warmup_steps)
    return schedule.inverse_sqrt(config.learning_rate, config.warmup_steps)


def is_better(metric: str, new: float, old: float | None) -> bool:
    """Whether ``new`` beats ``old``: losses and perplexities fall, everything else rises."""
    if old is None:
        return not math.isnan(new)
    return new < old if metric.endswith(("loss", "perplexity")) else new > old


def _train_epoch(
    run: _Run, data: TrainingData, loss: LossFunction, stop_requested: Callable[[], bool]
) -> None:
    config, state, model = run.config, run.state, run.model
    plan = data.plan(state.epoch)
    if not plan:
        raise UserError("there is nothing to train on: the training data has no examples")
    steps = math.ceil(len(plan) / config.accumulate)
    rate = make_schedule(config, d_model=run.d_model, total_steps=steps * config.epochs)
    model.train()
    started = time.monotonic() - state.seconds
    label = f"epoch {state.epoch}/{config.epochs}"
    with Progress(len(plan), label, unit="batch", done=state.position) as progress:
        while state.position < len(plan):
            items = plan[state.position : state.position + config.accumulate]
            learning_rate = rate(state.step + 1)
            loss_sum, count = run.step((data.batch(item) for item in items), loss, learning_rate)
            state.position += len(items)
            state.seconds = time.monotonic() - started
            speed = state.count / state.seconds
            progress.advance(
                len(items),
                f"loss {loss_sum / count:.3f}, {speed:,.0f} tokens/s, lr {learning_rate:.2e}",
            )
            if stop_requested():
                run.save()
                raise Interrupted(
                    f"stopped at step {state.step}; the same command with --resume goes on from there"
                )
            if state.step % config.save_every == 0 and state.position < len(plan):
                run.save()
    run.learning_rate = learning_rate


class _Run:
    """A model in training with everything around it that changes, and the files it is kept in."""

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
        self.learning_rate = 0.0
        self.d_model = int(getattr(model, "config").d_model)
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(
            self.parameters,
            lr=0.0,
            betas=(0.9, config.adam_beta2),
            eps=1e-9,
            weight_decay=config.weight_decay,
            fused=True,
        )

    def step(
        self, batches: Iterator[Batch], loss: LossFunction, learning_rate: float
    ) -> tuple[float, int]:
        """One step of the optimizer over all of ``batches``, as if they were one.

        The gradient is that of the summed loss divided by the number of things summed over, so
        accumulating small batches equals one big batch. Returns that sum and that number.
        """
        total, count = torch.zeros((), device=self.device), 0
        for batch in batches:
            batch = tuple(x.to(self.device, non_blocking=True) for x in batch)
            with autocast(self.config.precision, self.device):
                loss_sum, n = loss(batch)
            loss_sum.backward()
            total += loss_sum.detach()
            count += n
        loss_sum = total.item()
        if not math.isfinite(loss_sum):
            raise UserError(
                f"the loss is {loss_sum} at step {self.state.step + 1} (epoch {self.state.epoch}, "
                f"batch {self.state.position + 1}); the last good checkpoint is kept. "
                "Lower train.learning_rate or raise train.warmup_steps"
            )
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients, foreach=True).item() / count
        factor = 1.0 / count
        if self.config.clip_norm > 0.0:
            factor *= min(1.0, self.config.clip_norm / (norm + 1e-6))
        torch._foreach_mul_(gradients, factor)
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.state.step += 1
        self.state.epoch_steps += 1
        self.state.norm_sum += norm
        self.state.loss_sum += loss_sum
        self.state.count += count
        return loss_sum, count

    def finish_epoch(self, metrics: Metrics) -> None:
        """Notes an epoch's result, keeps its weights if they are among the best, and saves."""
        state = self.state
        row: dict[str, float] = {
            "epoch": state.epoch,
            "step": state.step,
            "train_loss": state.loss_sum / state.count,
            **metrics,
            "learning_rate": self.learning_rate,
            "gradient_norm": state.norm_sum / state.epoch_steps,
            "tokens_per_second": state.count / state.seconds,
            "seconds": state.seconds,
        }
        state.history.append(row)
        value = metrics[self.metric]
        shown = ", ".join(f"{name} {number:.4g}" for name, number in metrics.items())
        say(
            f"epoch {state.epoch}: train_loss {row['train_loss']:.4f}, {shown}, "
            f"{row['tokens_per_second']:,.0f} tokens/s, {state.seconds:.0f} s"
        )
        weights = model_tensors(self.model)
        if is_better(self.metric, value, state.best):
            state.best, state.best_epoch = value, state.epoch
            save_weights(self.folder / WEIGHTS_FILE, weights, dtype=self._disk_dtype())
        self._keep_candidate(value, weights)
        write_text(self.folder / HISTORY_FILE, _as_csv(state.history))
        state.begin_epoch(state.epoch + 1)
        self.save()
        self._remove_old_candidates()

    def is_out_of_patience(self) -> bool:
        state, patience = self.state, self.config.patience
        return 0 < patience <= state.epoch - 1 - state.best_epoch

    def keep_average(self, validate: Callable[[], Metrics]) -> None:
        """Tries the mean of the best epochs' weights, and keeps it if it beats the best epoch."""
        state = self.state
        if self.config.average < 2 or len(state.candidates) < 2:
            return
        load_tensors_into(
            self.model, average_weights([self._candidate(epoch) for _, epoch in state.candidates])
        )
        self.model.eval()
        value = validate()[self.metric]
        epochs = ", ".join(str(epoch) for epoch in sorted(e for _, e in state.candidates))
        say(f"average of epochs {epochs}: {self.metric} {value:.4g} (best epoch: {state.best:.4g})")
        if is_better(self.metric, value, state.best):
            weights = model_tensors(self.model)
            save_weights(self.folder / WEIGHTS_FILE, weights, dtype=self._disk_dtype())

    def save(self) -> None:
        """Writes everything that decides how the run goes on, atomically."""
        tensors = {f"model.{name}": t for name, t in model_tensors(self.model).items()}
        names = {id(p): name for name, p in self.model.named_parameters()}
        for parameter, slots in self.optimizer.state.items():
            for slot, value in slots.items():
                tensors[f"optimizer.{names[id(parameter)]}.{slot}"] = value
        tensors["random.cpu"] = torch.get_rng_state()
        if self.device.type == "cuda":
            tensors["random.cuda"] = torch.cuda.get_rng_state(self.device)
        about = {"kind": "training state", "train": asdict(self.config), "state": asdict(self.state)}
        save_tensors(self.folder / STATE_FOLDER / STATE_FILE, tensors, about)

    def load(self) -> None:
        """Takes up the run that :meth:`save` wrote."""
        path = self.folder / STATE_FOLDER / STATE_FILE
        if not path.is_file():
            raise CheckpointError(f"{self.folder}: nothing to resume: there is no {path}")
        tensors, about = load_tensors(path)
        if about.get("kind") != "training state":
            raise CheckpointError(f"{path}: not a training state")
        state = about["state"]
        state["candidates"] = [tuple(pair) for pair in state["candidates"]]
        self.state = TrainingState(**state)
        weights = {n[6:]: t for n, t in tensors.items() if n.startswith("model.")}
        load_tensors_into(self.model, weights)
        for name, parameter in self.model.named_parameters():
            start = f"optimizer.{name}."
            slots = {n[len(start) :]: t for n, t in tensors.items() if n.startswith(start)}
            if slots:
                self.optimizer.state[parameter] = {n: t.to(self.device) for n, t in slots.items()}
        torch.set_rng_state(tensors["random.cpu"])
        if self.device.type == "cuda" and "random.cuda" in tensors:
            torch.cuda.set_rng_state(tensors["random.cuda"], self.device)

    def _candidate(self, epoch: int) -> Path:
        return self.folder / STATE_FOLDER / f"epoch-{epoch:03d}.safetensors"

    def _keep_candidate(self, value: float, weights: dict[str, Tensor]) -> None:
        if self.config.average < 2 or math.isnan(value):
            return
        state = self.state
        sign = 1.0 if is_better(self.metric, 0.0, 1.0) else -1.0
        ranked = sorted([*state.candidates, (value, state.epoch)], key=lambda c: sign * c[0])
        state.candidates = ranked[: self.config.average]
        if (value, state.epoch) in state.candidates:
            save_weights(self._candidate(state.epoch), weights)

    def _remove_old_candidates(self) -> None:
        """After the state that no longer names them is safe on disk, not before."""
        kept = {self._candidate(epoch) for _, epoch in self.state.candidates}
        for path in (self.folder / STATE_FOLDER).glob("epoch-*.safetensors"):
            if path not in kept:
                path.unlink()

    def _disk_dtype(self) -> torch.dtype | None:
        return torch.float16 if self.config.weights_on_disk == "fp16" else None


def average_weights(paths: Sequence[Path]) -> dict[str, Tensor]:
    """The mean of the weights in several files (Vaswani et al. 2017, section 6.1)."""
    total: dict[str, Tensor] = {}
    for path in paths:
        tensors, _ = load_tensors(path)
        for name, tensor in tensors.items():
            total[name] = total[name] + tensor.double() if name in total else tensor.double()
    return {name: (tensor / len(paths)).float() for name, tensor in total.items()}


def load_tensors_into(model: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Copies ``tensors`` over the weights of ``model``, name by name."""
    wanted = model_tensors(model)
    if wanted.keys() != tensors.keys():
        raise CheckpointError("the saved weights do not belong to this model")
    with torch.no_grad():
        for name, tensor in tensors.items():
            wanted[name].copy_(tensor)


@contextmanager
def _stop_requests() -> Iterator[Callable[[], bool]]:
    """Turns the first SIGINT or SIGTERM into a request; a second one acts as it always does."""
    received: list[int] = []
    signals = (signal.SIGINT, signal.SIGTERM)
    previous: dict[int, Any] = {}

    def remember(number: int, frame: Any) -> None:
        received.append(number)
        signal.signal(number, previous[number])
        say("stopping after this step ...")

    try:
        for number in signals:
            previous[number] = signal.signal(number, remember)
    except ValueError:  # not the main thread: nobody's signals come here
        pass
    try:
        yield lambda: bool(received)
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _as_csv(rows: Sequence[dict[str, float]]) -> str:
    text = io.StringIO()
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
