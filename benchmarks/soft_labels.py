"""Soft labels for a classifier: what other models say about texts that they were not trained on.

    python -m benchmarks.soft_labels linear --data ag_news --out linear.jsonl
    python -m benchmarks.soft_labels encoder --data ag_news --out encoder.jsonl
    python cli.py train classification --data ag_news \\
        --set data.soft_labels=linear.jsonl,encoder.jsonl

The training rows are divided into folds. For each of them, a model is trained on the other folds
and gives the rows of this fold their probabilities (cross-fitting). "linear" is a linear SVM on
TF-IDF features of words and characters, "encoder" a classifier of this project. A run that was
stopped goes on with the first fold that is not finished.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import click
import numpy as np
import torch
from torch import Tensor

from benchmarks.classification import baselines
from core.config import override
from core.progress import log
from tasks.classification.calibration import fit_temperature, scaled
from tasks.classification.config import PRESETS, ClassificationConfig
from tasks.classification.dataset import text_of
from tasks.classification.predict import Classifier
from tasks.classification.sources import open_source
from tasks.runs.checkpoint_folder import read_metrics
from tasks.runs.run import train

Rows = tuple[list[str], list[str]]
"""Texts and their labels."""

Teacher = Callable[[Rows, Rows, Path], Tensor]
"""From training rows, the rows of a fold and a folder for files to the probabilities of the fold,
``[N, C]``, with the classes in the order of their names."""


def linear_teacher(training: Rows, fold: Rows, folder: Path) -> Tensor:
    """Returns what a linear SVM says; its temperature suits the labels of the fold."""
    model = baselines()["TF-IDF of words, pairs and characters, linear SVM"]()
    model.fit(*training)
    margins = model.decision_function(fold[0])
    if margins.ndim == 1:  # two classes
        margins = np.stack([-margins, margins], axis=1)
    log_probabilities = torch.from_numpy(margins).log_softmax(dim=1)
    labels = torch.from_numpy(np.searchsorted(model.classes_, fold[1]))
    return scaled(log_probabilities, fit_temperature(log_probabilities.exp(), labels))


def encoder_teacher(config: ClassificationConfig) -> Teacher:
    """Returns a function that trains a classifier with ``config``, unless it is trained already."""
    table = ["data.text=text", "data.label=label", "data.test_share=0"]
    config = override(config, table)

    def predict(training: Rows, fold: Rows, folder: Path) -> Tensor:
        corpus, out = folder / "corpus", folder / "model"
        if "validation" not in read_metrics(out):
            corpus.mkdir(parents=True, exist_ok=True)
            write_table(corpus / "train.csv", training)
            write_table(corpus / "val.csv", fold)
            is_begun = (out / "config.json").exists()
            train("classification", config, data=corpus, out=out, device="cpu", resume=is_begun)
        classifier = Classifier.load(out, device="cpu")
        order = np.argsort(classifier.classes).tolist()
        found = classifier.classify_scored(fold[0])
        names = [classifier.classes[number] for number in order]
        return torch.tensor([[f.probabilities.get(name, 1.0) for name in names] for f in found])

    return predict


def write_table(path: Path, rows: Rows) -> None:
    """Writes a CSV file with the columns ``text`` and ``label``."""
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *zip(*rows, strict=True)])


def cross_fitted(
    teacher: Teacher, rows: Rows, selected: Sequence[int], *, folds: int, seed: int, work: Path
) -> Tensor:
    """Returns the probabilities ``[N, C]`` of all rows, each from a model that has not seen it.

    Args:
        rows: the N rows of a file.
        selected: those that models are trained on; the others belong to the validation split.
    """
    names = sorted(set(rows[1]))
    total = torch.zeros(len(rows[0]), len(names))
    shuffled = np.random.default_rng(seed).permutation(np.array(selected))
    others = np.setdiff1d(np.arange(len(total)), shuffled)
    for number in range(folds):
        held = np.sort(shuffled[number::folds])
        training = np.sort(np.setdiff1d(shuffled, held))
        asked = np.concatenate([held, others]) if number == 0 else held
        found = teacher(_take(rows, training), _take(rows, asked), work / f"fold{number + 1}")
        total[asked] = found.to(total)
        truth = torch.from_numpy(np.searchsorted(names, _take(rows, held)[1]))
        accuracy = (total[held].argmax(dim=1) == truth).float().mean().item()
        log(f"fold {number + 1} of {folds}: {100 * accuracy:.2f}% of {len(held):,} rows are right")
    return total


def _take(rows: Rows, numbers: np.ndarray) -> Rows:
    texts, labels = rows
    return [texts[i] for i in numbers], [labels[i] for i in numbers]


@click.command()
@click.argument("teacher", type=click.Choice(["linear", "encoder"]))
@click.option("--data", type=click.Path(path_type=Path), required=True)
@click.option("--out", type=click.Path(path_type=Path), required=True)
@click.option("--folds", type=click.IntRange(min=2), default=3, show_default=True)
@click.option("--preset", type=click.Choice(list(PRESETS)), default="small", show_default=True)
@click.option("--set", "assignments", multiple=True, metavar="SECTION.KEY=VALUE")
def main(
    teacher: str, data: Path, out: Path, folds: int, preset: str, assignments: tuple[str, ...]
) -> None:
    """Write the probabilities of all rows of the training file, as JSON Lines."""
    config = override(PRESETS[preset](), assignments)
    seed = config.train.seed
    source = open_source(data, config.data, seed=seed)
    rows_read = list(source.rows("train"))
    texts = [text_of(row, config.data) for row in rows_read]
    rows = texts, [source.classes[row.label] for row in rows_read]
    found = cross_fitted(
        linear_teacher if teacher == "linear" else encoder_teacher(config),
        rows,
        source.selected("train", len(texts)),
        folds=folds,
        seed=seed,
        work=out.with_suffix(""),
    )
    names = sorted(set(rows[1]))
    with out.open("w", encoding="utf-8") as file:
        for values in found.tolist():
            probabilities = {name: round(v, 4) for name, v in zip(names, values, strict=True)}
            file.write(json.dumps({"probabilities": probabilities}, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
