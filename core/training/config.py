"""The configuration of training."""

from dataclasses import dataclass
from types import MappingProxyType

from core.config import check, check_choice, check_range

SCHEDULES = ("noam", "inverse_sqrt", "cosine", "constant")
AVERAGES = ("best", "last")
PRECISIONS = ("auto", "fp32", "bf16", "fp16")
DISK_TYPES = ("fp32", "fp16", "int8")
_RETIRED = (
    *("r_drop", "optimizer", "tensorboard", "explosion", "compile"),
    *("first_step_timeout", "step_timeout", "main_process_timeout"),
)

MAX_COUNT = 1_000_000_000
"""The largest number of epochs, steps or tokens."""


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """The options of :func:`core.training.fit.fit`.

    Attributes:
        epochs: passes over the training data; 0, where a task allows it: as many as they need.
        batch_tokens: the largest number of tokens, with padding, in one side of a batch.
        accumulate: the number of batches in one step.
        learning_rate: the schedule's peak; "noam" has its own.
        schedule: "noam", "inverse_sqrt", "cosine" or "constant"; see :mod:`core.training.schedule`.
        warmup: the share of the steps of the run in which the learning rate rises.
        warmup_steps: the number of these steps, which counts instead of the share; None: the share.
        label_smoothing: the part of the target distribution that is spread over the vocabulary.
        weight_decay: a step with the learning rate r also reduces every weight w by r times this
            times w (AdamW). 0: the optimizer is Adam.
        adam_beta2: the decay of Adam's second moment.
        clip_norm: the largest gradient norm; longer gradients are scaled down to it. 0: no limit.
        patience: the run stops after this many epochs without a better metric; 0: never.
        ema: the decay of an exponential moving average of the weights, for example 0.999, which is
            validated and kept instead of the weights. 0: off.
        average: the number of epochs whose weights are kept; their mean is tried at the end.
        average_of: which epochs are averaged: the "best" or the "last".
        precision: "fp32", "bf16", "fp16", or "auto": bf16 on a GPU or a CPU that computes in it,
            fp16 on older GPUs (:mod:`core.training.gradient`).
        gradient_checkpointing: compute the layers again in the backward pass: a step takes less
            memory, and about a third more time.
        seed: decides everything random.
        save_every: the state is saved after this many steps, and after every epoch.
        timeout: with several processes, the seconds that they wait for one another, also while the
            main process prepares the data or measures the final model.
        log_every: ``steps.csv`` has a row for this many steps; 0: there is none.
        choose_search: a task that searches for its outputs chooses the beam size and the length
            penalty on the validation data, once the weights are final.
        weights_on_disk: "fp32"; "fp16" for a file of half the size; "int8" for a quarter, with a
            scale for each row of a matrix.
    """

    RETIRED = MappingProxyType(dict.fromkeys(_RETIRED))

    epochs: int = 20
    batch_tokens: int = 2500
    accumulate: int = 1
    learning_rate: float = 1e-3
    schedule: str = "inverse_sqrt"
    warmup: float = 0.1
    warmup_steps: int | None = None
    label_smoothing: float = 0.1
    weight_decay: float = 0.0
    adam_beta2: float = 0.98
    clip_norm: float = 1.0
    patience: int = 0
    ema: float = 0.0
    average: int = 5
    average_of: str = "best"
    precision: str = "auto"
    gradient_checkpointing: bool = False
    seed: int = 1
    save_every: int = 500
    timeout: float = 7200.0
    log_every: int = 100
    choose_search: bool = True
    weights_on_disk: str = "fp32"

    def __post_init__(self) -> None:
        check_range("train.epochs", self.epochs, 0, MAX_COUNT)
        for name in ("batch_tokens", "accumulate", "warmup_steps", "save_every"):
            if (count := getattr(self, name)) is not None:
                check_range(f"train.{name}", count, 1, MAX_COUNT)
        check_range("train.warmup", self.warmup, 0.0, 1.0)
        for name in ("patience", "average", "log_every", "weight_decay", "clip_norm"):
            check(getattr(self, name) >= 0, f"train.{name}", getattr(self, name), "0 or more")
        check(0 < self.timeout <= 2_592_000, "train.timeout", self.timeout, "from 0 to 30 days")
        check(0 <= self.seed < 1 << 32, "train.seed", self.seed, "from 0 to 2^32 - 1")
        check(self.learning_rate > 0, "train.learning_rate", self.learning_rate, "above 0")
        for name in ("label_smoothing", "adam_beta2", "ema"):
            value = getattr(self, name)
            check(0.0 <= value < 1.0, f"train.{name}", value, "at least 0 and below 1")
        check_choice("train.schedule", self.schedule, SCHEDULES)
        check_choice("train.average_of", self.average_of, AVERAGES)
        check_choice("train.precision", self.precision, PRECISIONS)
        check_choice("train.weights_on_disk", self.weights_on_disk, DISK_TYPES)
