"""Training runs of a second or less, for the tests of ``fit``."""

import random
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from core.model.sequence_to_sequence import SequenceToSequence
from core.special_ids import SPECIAL_IDS
from core.training.config import TrainConfig
from core.training.fit import FitOptions, Objective, fit
from core.training.gradient import Batch, LossFunction
from core.training.loss import label_smoothed_cross_entropy, linear_cross_entropy
from core.training.state import Metrics, TrainingState
from core.training.step import TrainingStep
from tests.core.small_models import sizes

CPU = torch.device("cpu")
WORDS = 14
_, PAD, BOS, EOS = SPECIAL_IDS

Pair = tuple[list[int], list[int]]


def pairs_of(seed: int, count: int) -> list[Pair]:
    """Sources of 1 to 6 words, and the same backwards, from ``<bos>`` to ``<eos>``."""
    rng = random.Random(seed)
    sources = [rng.choices(range(4, WORDS), k=rng.randint(1, 6)) for _ in range(count)]
    return [(source, [BOS, *reversed(source), EOS]) for source in sources]


def padded(sequences: Sequence[Sequence[int]]) -> Tensor:
    longest = max(map(len, sequences))
    return torch.tensor([[*s, *[PAD] * (longest - len(s))] for s in sequences]).t()


class Pairs:
    """Random pairs in ``batches`` batches of ``size``, shuffled anew every epoch."""

    def __init__(self, *, seed: int = 1, batches: int = 8, size: int = 4) -> None:
        self._pairs = pairs_of(7, batches * size)
        self._seed = seed
        self._size = size

    def plan(self, epoch: int) -> list[list[Pair]]:
        shuffled = self._pairs.copy()
        random.Random(self._seed * 1000 + epoch).shuffle(shuffled)
        return [shuffled[i : i + self._size] for i in range(0, len(shuffled), self._size)]

    def batch(self, item: list[Pair]) -> Batch:
        return padded([source for source, _ in item]), padded([target for _, target in item])


class Crash(Exception):
    """The process dies: nothing of it is saved."""


def crash() -> None:
    raise Crash


class Disturbed(Pairs):
    """Does ``act`` while it makes the batch of the step numbered ``at``, counted from here."""

    def __init__(self, at: int, act: Callable[[], object], **options: Any) -> None:
        super().__init__(**options)
        self._left = at
        self._act = act

    def batch(self, item: list[Pair]) -> Batch:
        self._left -= 1
        if self._left == 0:
            self._act()
        return super().batch(item)


def tiny_model(seed: int = 1, *, dropout: float = 0.3) -> SequenceToSequence:
    torch.manual_seed(seed)
    config = sizes(dropout=dropout, max_len=20)
    return SequenceToSequence(WORDS, WORDS, config, share_embeddings=True)


def tiny_config(**changes: Any) -> TrainConfig:
    """Three epochs, of eight steps with :class:`Pairs` as it is, saved at every third step."""
    settings: dict[str, Any] = {
        "epochs": 3,
        "learning_rate": 0.01,
        "warmup_steps": 5,
        "save_every": 3,
        "average": 2,
        "precision": "fp32",
    }
    return TrainConfig(**{**settings, **changes})


def loss_of(model: SequenceToSequence, label_smoothing: float = 0.0) -> LossFunction:
    def loss(batch: Batch) -> tuple[Tensor, int]:
        src, tgt = batch
        is_word = tgt[1:] != PAD
        hidden = model.decode(tgt[:-1], model.encode(src))[is_word]
        words = tgt[1:][is_word]
        weight, bias = model.generator.weight, model.generator.bias
        total = linear_cross_entropy(hidden, weight, bias, words, label_smoothing=label_smoothing)
        return total, len(words)

    return loss


def mean_loss(model: SequenceToSequence, pairs: Sequence[Pair]) -> float:
    """The loss by the word, by other means than training takes: each pair by itself."""
    total = count = 0.0
    with torch.no_grad():
        for source, target in pairs:
            src, tgt = padded([source]), padded([target])
            logits = model(src, tgt[:-1])
            total += label_smoothed_cross_entropy(logits, tgt[1:]).item()
            count += len(tgt) - 1
    return total / count


def validation_of(model: SequenceToSequence) -> Callable[[], Metrics]:
    return lambda: {"val_loss": mean_loss(model, pairs_of(8, 5))}


class Scripted:
    """A validation with results known beforehand; it notes the weights that it was asked about."""

    def __init__(self, model: SequenceToSequence, values: Sequence[float], name: str) -> None:
        self._model = model
        self._values = list(values)
        self._name = name
        self.seen: list[dict[str, Tensor]] = []

    def __call__(self) -> Metrics:
        assert not self._model.training
        self.seen.append(weights_of(self._model))
        return {self._name: self._values[len(self.seen) - 1]}


_OBJECTIVE = {field.name for field in fields(Objective)}
_OPTIONS = {field.name for field in fields(FitOptions)}


def run_fit(model: SequenceToSequence, folder: Path, **changes: Any) -> TrainingState:
    """``fit`` with what the tests have in common, and ``changes`` to all that it takes."""
    own = {name: changes.pop(name) for name in [*changes] if name in _OBJECTIVE}
    options = {name: changes.pop(name) for name in [*changes] if name in _OPTIONS}
    config = changes.pop("config", None) or tiny_config(**changes)
    usual: dict[str, Any] = {
        "data": Pairs(seed=config.seed),
        "loss": loss_of(model, config.label_smoothing),
        "validate": validation_of(model),
        "metric": "val_loss",
    }
    own = {**usual, **own}
    validate = own.pop("validate")
    objective = Objective(**own, validate=lambda group: validate())
    return fit(model, config, objective, FitOptions(out=folder, device=CPU, **options))


def weights_of(model: SequenceToSequence) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    """Whether two models' weights are equal to the bit."""
    assert one.keys() == other.keys()
    return all(torch.equal(one[name], other[name]) for name in one)


def assert_alike(
    ours: dict[str, Tensor], theirs: dict[str, Tensor], *, atol: float = 1e-4, rtol: float = 0.0
) -> None:
    """Whether two tiny models were moved alike, but for the biases of the keys.

    Such a bias shifts all scores alike: its gradient is zero, and Adam follows rounding errors.
    """
    assert ours.keys() == theirs.keys()
    for name, tensor in theirs.items():
        is_moved = torch.ones(len(tensor), dtype=torch.bool)
        is_moved[8:16] = not name.endswith("in_proj_bias")
        torch.testing.assert_close(ours[name][is_moved], tensor[is_moved], atol=atol, rtol=rtol)


def without_times(state: TrainingState) -> list[Metrics]:
    """The history without what no two runs share."""
    times = ("seconds", "tokens_per_second")
    rows = (row.columns().items() for row in state.history)
    return [{name: value for name, value in row if name not in times} for row in rows]


def gradients_of(model: nn.Module) -> Tensor:
    return torch.cat([p.grad.flatten() for p in model.parameters()])


def gradient_of_one_step(clip_norm: float, items: Sequence[list[Pair]]) -> Tensor:
    """What the optimizer is given for one step over ``items``, all parameters in one vector."""
    model = tiny_model(dropout=0.0)
    step = TrainingStep(model, tiny_config(clip_norm=clip_norm), CPU)
    seen = []
    step._optimizer.step = lambda learning_rate: seen.append(gradients_of(model))
    step.take(TrainingState(), [Pairs().batch(item) for item in items], loss_of(model), 0.1)
    (gradient,) = seen
    return gradient
