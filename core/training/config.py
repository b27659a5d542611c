"""How a model is trained, as configuration."""

from __future__ import annotations

from dataclasses import dataclass

from ..config import check, check_choice


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """How a model is trained; see :func:`core.training.fit.fit`.

    Attributes:
        epochs: passes over the training data.
        batch_tokens: the most tokens, padding included, that one side of a batch holds.
        accumulate: so many batches make one step.
        optimizer: "adamw" or "adam", which has no weight decay; see :mod:`core.training.optimizer`.
        learning_rate: the schedule's peak; "noam" has its own.
        schedule: "noam", "inverse_sqrt", "cosine" or "constant"; see :mod:`core.training.schedule`.
        warmup_steps: the steps in which the learning rate rises.
        label_smoothing: the part of a target's probability that all words share.
        r_drop: R-Drop's alpha: every example is read twice, and its two outputs are pulled together
            (:mod:`core.training.loss`); about twice the time and memory. 0: off.
        weight_decay: what a weight loses in a step, in learning rates ("adamw" only).
        adam_beta2: how slowly the optimizer forgets the gradients' sizes.
        clip_norm: gradients beyond this length are cut to it; 0: never.
        explosion: the run stops when the mean loss of the last steps is so many times the lowest
            that this mean has been, or that of the gradients' lengths the square of it
            (:mod:`core.training.divergence`); 0: never. A loss that is no number always stops it.
        patience: so many epochs without a better metric end the run early; 0: never.
        ema: the decay of an exponential moving average of the weights, 0.999 say, which is
            validated and kept in their place; see :mod:`core.training.ema`. 0: off.
        average: so many epochs are kept, and the mean of their weights is tried at the end.
        average_of: "best" or "last": which epochs those are.
        precision: "fp32", "bf16", or "auto": bf16 on a GPU that has it.
        compile: training runs layers that ``torch.compile`` has made; it takes a compiler, and a
            minute or more to begin with. Resumed runs then differ in rounding.
        seed: decides all that is random.
        save_every: the state is saved after so many steps, and after every epoch.
        log_every: ``steps.csv`` gets a row every so many steps; 0: never.
        tensorboard: the curve goes to event files in ``tensorboard/`` as well.
        weights_on_disk: "fp32", or "fp16" for a model of half the size.
    """

    epochs: int = 20
    batch_tokens: int = 2500
    accumulate: int = 1
    optimizer: str = "adamw"
    learning_rate: float = 1e-3
    schedule: str = "inverse_sqrt"
    warmup_steps: int = 1200
    label_smoothing: float = 0.1
    r_drop: float = 0.0
    weight_decay: float = 0.0
    adam_beta2: float = 0.98
    clip_norm: float = 1.0
    explosion: float = 10.0
    patience: int = 0
    ema: float = 0.0
    average: int = 5
    average_of: str = "best"
    precision: str = "auto"
    compile: bool = False
    seed: int = 1
    save_every: int = 500
    log_every: int = 100
    tensorboard: bool = False
    weights_on_disk: str = "fp32"

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_tokens", "accumulate", "warmup_steps", "save_every"):
            check(getattr(self, name) >= 1, f"train.{name}", getattr(self, name), "at least 1")
        for name in ("patience", "average", "log_every", "r_drop", "weight_decay", "clip_norm"):
            check(getattr(self, name) >= 0, f"train.{name}", getattr(self, name), "0 or more")
        factor = self.explosion
        check(factor == 0.0 or factor > 1.0, "train.explosion", factor, "0 or above 1")
        check(0 <= self.seed < 1 << 32, "train.seed", self.seed, "from 0 to 2^32 - 1")
        check(self.learning_rate > 0, "train.learning_rate", self.learning_rate, "above 0")
        for name in ("label_smoothing", "adam_beta2", "ema"):
            value = getattr(self, name)
            check(0.0 <= value < 1.0, f"train.{name}", value, "at least 0 and below 1")
        check_choice("train.optimizer", self.optimizer, ("adamw", "adam"))
        check(
            self.optimizer == "adamw" or self.weight_decay == 0.0,
            "train.weight_decay",
            self.weight_decay,
            f"0 with train.optimizer={self.optimizer}; adamw has weight decay",
        )
        check_choice(
            "train.schedule", self.schedule, ("noam", "inverse_sqrt", "cosine", "constant")
        )
        check_choice("train.average_of", self.average_of, ("best", "last"))
        check_choice("train.precision", self.precision, ("auto", "fp32", "bf16"))
        check_choice("train.weights_on_disk", self.weights_on_disk, ("fp32", "fp16"))
