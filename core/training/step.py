"""One step of the optimizer: the gradient of some batches, its length, and the new weights."""

import math
import random
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from core.distributed.data_parallel import DataParallel
from core.distributed.process_group import ALONE, ProcessGroup
from core.errors import UserError
from core.special_ids import PAD_ID
from core.storage.checkpoint import model_tensors
from core.training.config import TrainConfig
from core.training.gradient import (
    Batch,
    LossFunction,
    accumulate_gradients,
    autocast,
    microbatch_count,
    precision_for,
)
from core.training.state import Sums, TrainingState

BETA1 = 0.9
EPSILON = 1e-9  # Vaswani et al. (2017), section 5.3, like beta1

_STEPS_OF_A_SCALE = 2000

# Some of torch's functions below are private. They change many tensors at once, which saves
# hundreds of kernels per step on a GPU.


class AdamW:
    """AdamW (Loshchilov and Hutter 2019, algorithm 2) over ``parameters``.

    Without weight decay, it is the Adam of the paper (Kingma and Ba 2015). ``torch.optim`` would
    import torch's compiler, which takes more than a second; this calls its kernel for all
    parameters at once. The whole state exists from the beginning, so that the tensors of a
    run always have the same names and sizes.
    """

    def __init__(self, config: TrainConfig, parameters: Iterable[nn.Parameter]) -> None:
        self._beta2, self._decay = config.adam_beta2, config.weight_decay
        self.state: dict[Tensor, dict[str, Tensor]] = {}
        for parameter in parameters:
            step = torch.zeros((), dtype=torch.float32, device=parameter.device)
            moments = {name: torch.zeros_like(parameter) for name in ("exp_avg", "exp_avg_sq")}
            self.state[parameter] = {"step": step, **moments}

    @torch.no_grad()
    def step(self, learning_rate: float) -> None:
        """Changes the parameters that have a gradient."""
        parameters: list[Tensor] = [p for p in self.state if p.grad is not None]
        gradients = [p.grad for p in parameters if p.grad is not None]
        steps, means, squares = (
            [self.state[parameter][name] for parameter in parameters]
            for name in ("step", "exp_avg", "exp_avg_sq")
        )
        torch._foreach_add_(steps, 1)
        torch._fused_adamw_(
            *(parameters, gradients, means, squares, [], steps),
            lr=learning_rate,
            beta1=BETA1,
            beta2=self._beta2,
            weight_decay=self._decay,
            eps=EPSILON,
            amsgrad=False,
            maximize=False,
        )


def make_ema(model: nn.Module, decay: float) -> AveragedModel:
    """Returns the moving average of the weights of ``model``, for ``update_parameters``.

        average <- d * average + (1 - d) * weight,    d = min(decay, (1 + t) / (10 + t))

    after step t + 1; the average of the first step is its weights. In the first steps d is small,
    as in TensorFlow's ``ExponentialMovingAverage``, so that the average soon forgets them.
    """

    def update(averages: Sequence[Tensor], weights: Sequence[Tensor], steps: Tensor | int) -> None:
        warm_up = (1 + int(steps)) / (10 + int(steps))
        get_ema_multi_avg_fn(min(decay, warm_up))(averages, weights, steps)

    return AveragedModel(model, multi_avg_fn=update)


class TrainingStep:
    """A model on ``device``, its optimizer and its moving average, which change in every step."""

    def __init__(
        self,
        model: nn.Module,
        config: TrainConfig,
        device: torch.device,
        group: ProcessGroup = ALONE,
    ) -> None:
        self._model = model
        self._config = config
        self._device = device
        self._group = group
        self._precision = precision_for(device, config.precision)
        model.zero_grad(set_to_none=True)  # a run that failed may have left gradients
        self._names = [name for name, p in model.named_parameters() if p.requires_grad]
        self._parameters = [p for p in model.parameters() if p.requires_grad]
        self._data_parallel = DataParallel(model) if self._group.size > 1 else None
        self._optimizer = AdamW(config, self._parameters)
        self._ema = make_ema(model, config.ema) if config.ema > 0.0 else None

    def tensors(self) -> dict[str, Tensor]:
        """Returns everything that steps change, by its name in :mod:`.state`."""
        tensors = {f"model.{name}": tensor for name, tensor in model_tensors(self._model).items()}
        for name, parameter in zip(self._names, self._parameters, strict=True):
            slots = self._optimizer.state[parameter].items()
            tensors |= {f"optimizer.{name}.{slot}": tensor for slot, tensor in slots}
        if self._ema is not None:
            averages = self._ema.module.named_parameters()
            tensors |= {f"ema.{name}": average.detach() for name, average in averages}
            tensors["ema.n_averaged"] = self._ema.n_averaged
        return tensors

    @contextmanager
    def averages_in_place(self) -> Iterator[None]:
        """Exchanges the weights and their moving averages, if there are any, inside the block."""

        def exchange() -> None:
            if self._ema is not None:
                averages = self._ema.module.parameters()
                for weight, average in zip(self._model.parameters(), averages, strict=True):
                    weight.data, average.data = average.data, weight.data

        exchange()
        try:
            yield
        finally:
            exchange()

    def take(
        self,
        state: TrainingState,
        batches: Sequence[Batch | None],
        loss: LossFunction,
        learning_rate: float,
    ) -> float:
        """Takes one step over all of ``batches``, adds it to ``state`` and returns the mean loss.

        The gradient is that of the summed loss divided by the number of targets. So accumulating
        small batches equals one large batch, and so does sharding a batch over processes. The seed
        of its random numbers follows from the seed of the run, the step and the rank alone.

        ``batches`` are this process's shards, None for an empty one. Raises a UserError, and leaves
        the weights unchanged, if the loss or its gradient is not finite.
        """
        name = f"{self._config.seed} {state.step} {self._group.rank}"
        torch.manual_seed(random.Random(name).getrandbits(63))
        loss_scale = state.loss_scale if self._precision == "fp16" else 1.0
        sums = self._backward(batches, loss, loss_scale)
        mean_loss = sums.loss / sums.targets
        gradients = [p.grad for p in self._parameters if p.grad is not None]
        norm = total_norm(gradients) / sums.targets / loss_scale
        if self._precision == "fp16" and _has_overflowed(state, mean_loss, norm):
            norm = 0.0  # the step is left out
        else:
            _check_finite(state, mean_loss, norm, len(batches))
            factor = 1.0 / sums.targets / loss_scale
            if self._config.clip_norm > 0.0:
                factor *= min(1.0, self._config.clip_norm / (norm + 1e-6))
            torch._foreach_mul_(gradients, factor)
            self._optimizer.step(learning_rate)
            if self._ema is not None:
                self._ema.update_parameters(self._model)
        self._model.zero_grad(set_to_none=True)
        state.step += 1
        state.position += len(batches)
        state.learning_rate = learning_rate
        state.sums += replace(sums, steps=1, norm=norm)
        return mean_loss

    def _backward(
        self, batches: Sequence[Batch | None], loss: LossFunction, loss_scale: float
    ) -> Sums:
        """Gives the parameters the gradients of ``loss_scale`` times the summed loss, and returns
        the sums of the loss, its targets, tokens and positions, all over all processes."""

        def loss_in_precision(batch: Batch) -> tuple[Tensor, int]:
            with autocast(self._precision, self._device):
                total, count = loss(batch)
            return (total if loss_scale == 1.0 else total * loss_scale), count

        total = torch.zeros((), device=self._device)
        targets = tokens = positions = 0
        for number, batch in enumerate(batches, start=1):
            if batch is not None:
                sequences = [ids for ids in batch if ids.dim() == 2]
                tokens += sum(int((ids != PAD_ID).sum()) for ids in sequences)
                positions += sum(ids.numel() for ids in sequences)
                batch = tuple(x.to(self._device, non_blocking=True) for x in batch)
            batch_loss, count = self._backward_batch(
                batch, loss_in_precision, is_last=number == len(batches)
            )
            total += batch_loss.detach()
            targets += count
        loss_sum, *counts = self._group.sum([total.item(), targets, tokens, positions])
        targets, tokens, positions = map(int, counts)
        return Sums(loss=loss_sum / loss_scale, targets=targets, tokens=tokens, positions=positions)

    def _backward_batch(
        self, batch: Batch | None, loss: LossFunction, *, is_last: bool
    ) -> tuple[Tensor, int]:
        """Adds the gradients of one batch. Returns its summed loss and number of targets."""
        if self._data_parallel is not None:
            return self._data_parallel.backward(loss, batch, is_last=is_last)
        if batch is None:
            raise ValueError("only a process of several has empty shards")
        # The layers of a microbatch would draw other random numbers the second time.
        count = 1 if self._config.gradient_checkpointing else microbatch_count(batch)
        if count > 1:
            return accumulate_gradients(batch, loss, self._parameters, count)
        total, targets = loss(batch)
        total.backward()
        return total, targets


def _check_finite(state: TrainingState, loss: float, norm: float, batches: int) -> None:
    if not (math.isfinite(loss) and math.isfinite(norm)):
        first, last = state.position + 1, state.position + batches
        place = f"batch {first}" if first == last else f"batches {first} to {last}"
        raise UserError(
            f"the loss is {loss:.4g} and the gradient norm {norm:.4g}, at step {state.step + 1} "
            f"(epoch {state.epoch}, {place}); the last good checkpoint is kept. Lower "
            "train.learning_rate or raise train.warmup"
        )


def _has_overflowed(state: TrainingState, loss: float, norm: float) -> bool:
    """Returns whether gradients were beyond the range of fp16, and adapts the scale of the loss.

    The scale is halved then, and doubled after 2,000 steps without that, as by
    ``torch.amp.GradScaler`` (Micikevicius et al. 2018, section 3.2).
    """
    if math.isfinite(loss) and not math.isfinite(norm) and state.loss_scale >= 1.0:
        state.loss_scale, state.scaled_steps = state.loss_scale / 2, 0
        return True
    state.scaled_steps += 1
    if state.scaled_steps == _STEPS_OF_A_SCALE:
        state.loss_scale, state.scaled_steps = min(2 * state.loss_scale, 2.0**60), 0
    return False


def total_norm(tensors: list[Tensor]) -> float:
    """Returns the norm of all numbers in ``tensors``."""
    return torch.stack(list(torch._foreach_norm(tensors))).norm().item()
