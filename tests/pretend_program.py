"""Trains, resumes and predicts with every task on a pretend GPU (:mod:`tests.pretend_device`).

    python -m tests.pretend_program FOLDER TRANSLATION CLASSIFICATION COUPLET

The other arguments are tiny corpora. It prints, as JSON, the operators and synchronizations of a
training step and of a step of a search; it fails where results differ from those of the CPU.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import torch

from core.errors import Interrupted
from core.inference.incremental_model import IncrementalModel
from core.training.fit import Trainer
from core.training.step import TrainingStep
from tasks.classification import predict as classification
from tasks.classification import report
from tasks.runs.training import RunOptions
from tasks.seq2seq import predictor as seq2seq
from tasks.task import task_named
from tests import pretend_device
from tests.pretend_device import DEVICE, Pretending, counts, synchronizations
from tests.tasks.tiny_models import tiny_config

SEARCHES: dict[str, dict[str, Any]] = {
    "greedy": {"beam_size": 1},
    "beam": {"beam_size": 4, "n_best": 2},
    "diverse": {"beam_size": 4, "n_best": 2, "diversity": 0.5},
    "sampling": {"sample": True, "seed": 3},
}
OF_TASK: dict[str, dict[str, Any]] = {
    "translation": {"beam_size": 3, "no_repeat_ngram": 2, "prefix": "ein"},
    "couplet": {"beam_size": 3, "rhyme": "pingshui", "avoid": ("风云",)},
}
SETTINGS = {"translation": ("generation.max_length_ratio=0.25",)}
"""A model that has learned nothing writes up to the greatest length."""
steps: Counter[str] = Counter()

TEXTS = {
    "translation": ["der Hund sieht das Haus", "ein Hund rennt ."],
    "classification": ["shares fall at the bank", "the cup final"],
    "couplet": ["春风送暖", "山高水远"],
}


def choose(name: str) -> torch.device:
    """Stands for ``choose_device``."""
    return DEVICE if name == pretend_device.NAME else torch.device(name)


def trained(task: str, data: Path, out: Path, *devices: torch.device) -> float:
    """Trains three epochs, some on each of ``devices``; returns the loss of validation."""
    settings = ("train.epochs=3", "train.precision=fp32", "train.average=0")
    config = tiny_config(task, *settings, *SETTINGS.get(task, ()))
    finish, metrics = Trainer.finish_epoch, {}

    def stop(trainer: Trainer) -> None:
        finish(trainer)
        raise Interrupted("after an epoch")

    for number, device in enumerate(devices):
        is_last = number == len(devices) - 1
        Trainer.finish_epoch = finish if is_last else stop  # type: ignore[method-assign]
        options = RunOptions(
            data=data, out=out, device=device, resume=number > 0, accept_changes=number > 0
        )
        try:
            metrics = task_named(task).train(config, options)
        except Interrupted:
            if is_last:
                raise
    loss: float = metrics["validation"]["val_loss"]
    return loss


def count_in_steps(owner: type, method: str, name: str) -> None:
    """Counts operators and synchronizations inside (``inside``) and outside of a method's calls."""
    call = getattr(owner, method)

    def counted(*args: Any, **options: Any) -> Any:
        operators, waits = counts["operators"], synchronizations()
        result = call(*args, **options)
        steps[name] += counts["operators"] > operators  # else it ran on the CPU
        steps[f"{name}: operators"] += counts["operators"] - operators
        steps[f"{name}: synchronizations"] += synchronizations() - waits
        return result

    setattr(owner, method, counted)


def per_step(name: str) -> dict[str, float]:
    """Returns the mean operators and synchronizations inside of one call of a counted method."""
    counted = ("operators", "synchronizations")
    return {what: steps[f"{name}: {what}"] / steps[name] for what in counted}


def main() -> None:
    folder, *paths = map(Path, sys.argv[1:])
    seq2seq.choose_device = classification.choose_device = choose  # type: ignore[attr-defined]
    report.embedded = lambda draw, title: ""  # type: ignore[attr-defined]
    count_in_steps(TrainingStep, "take", "training")
    count_in_steps(IncrementalModel, "step", "search")
    found: dict[str, Any] = {}
    cpu = torch.device("cpu")
    for (task, texts), data in zip(TEXTS.items(), paths, strict=True):
        expected = trained(task, data, folder / f"{task}-cpu", cpu)
        steps.clear()
        with Pretending():
            loss = trained(task, data, folder / task, DEVICE, cpu, DEVICE)
        assert abs(loss - expected) < 1e-3, (task, loss, expected)
        found[task] = {"training": per_step("training")}
        found[task] |= predicted(task, folder / task, texts, data)
    print(json.dumps(found))


def predicted(task: str, model: Path, texts: list[str], data: Path) -> dict[str, Any]:
    """Predicts on both devices; returns the steps and synchronizations of each search."""
    right: Any = task_named(task).load(model, device="cpu")
    with Pretending():
        ours: Any = task_named(task).load(model, device=pretend_device.NAME)
        assert all(p.device == DEVICE for each in models_of(ours) for p in each.parameters())
    found: dict[str, Any] = {}
    if task == "classification":
        expected = right.classify_scored(texts), right.explain(texts[0])
        with Pretending():
            results = ours.classify_scored(texts), ours.explain(texts[0])
            ours.trace(texts[0])
        assert [one.label for one in results[0]] == [one.label for one in expected[0]]
        for one, other in zip(results[1][0].words, expected[1][0].words, strict=True):
            assert one.word == other.word
            assert abs(one.contribution - other.contribution) < 1e-4
    else:
        for name, options in {**SEARCHES, "constrained": OF_TASK[task]}.items():
            expected = [words_of(one) for one in right.predict(texts, **options)]
            steps.clear()
            counts.clear()
            with Pretending():
                results = ours.predict(texts, **options)
            assert [words_of(one) for one in results] == expected, name
            found[name] = {"steps": steps["search"], "synchronizations": synchronizations()}
        both = [model, model]
        right_pair = task_named(task).load(both, device="cpu")
        with Pretending():
            pair = task_named(task).load(both, device=pretend_device.NAME)
            results = pair.predict(texts, beam_size=2)
        expected = [words_of(one) for one in right_pair.predict(texts, beam_size=2)]
        assert [words_of(one) for one in results] == expected, "ensemble"
        targets = [words_of(each) for each in right.predict(texts)]
        expected = right.score(texts, targets)
        with Pretending():
            scores = ours.score(texts, targets)
            trace, maps = ours.trace(texts[0]), ours.attention(texts[0])
        for one, other in zip(scores, expected, strict=True):
            assert abs(one.log_prob - other.log_prob) < 1e-3
        assert trace.searches
        assert str(maps[0].target) == str(right.attention(texts[0])[0].target)
    with Pretending():
        task_named(task).evaluate(model, data, split="val", device=pretend_device.NAME)
    return found


def models_of(predictor: Any) -> list[torch.nn.Module]:
    """Returns the models of a predictor."""
    return getattr(predictor, "models", None) or [predictor.model]


def words_of(result: Any) -> str:
    """Returns a translation or a second line."""
    text: str = getattr(result, "text", None) or result.second
    return text


if __name__ == "__main__":
    main()
