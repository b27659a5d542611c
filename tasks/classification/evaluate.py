"""Measuring a classifier: accuracy, precision, recall, F1 and the confusion matrix."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from core.progress import Progress, log
from tasks.classification.dataset import LoadSentenceClassificationDataset
from tasks.classification.decision import BINS, calibration_error, most_probable
from tasks.classification.predict import Classifier
from tasks.classification.report import bootstrap_intervals, write_report
from tasks.classification.sources import class_count
from tasks.task import Report

MAX_MATRIX = 100  # classes; the size of the confusion matrix grows with the square


@dataclass(frozen=True, kw_only=True)
class Scores:
    """How well classes are predicted.

    Attributes:
        macro_f1: the mean over classes that are true or predicted somewhere, as in scikit-learn.
        classes: precision, recall, f1 and the number of texts of each class.
        confusion: ``confusion[i][j]`` counts the texts of class i that were predicted as class j.
            None for more than ``MAX_MATRIX`` classes; ``confused`` has the most frequent mistakes.
    """

    accuracy: float
    macro_f1: float
    classes: dict[str, dict[str, float]]
    confusion: list[list[int]] | None = None
    confused: list[dict[str, Any]] | None = None


@dataclass(frozen=True, kw_only=True)
class ClassificationReport(Scores, Report):
    """The figures of a classifier, with 95% intervals.

    Attributes:
        sha256: the digest of the table that was measured, if it was one.
        baseline_accuracy: that of a linear model of the same training rows (:mod:`.linear`).
        baseline_gap_error: the standard error of the difference to it.
    """

    texts: int
    calibration_error: float
    accuracy_interval: list[float]
    macro_f1_interval: list[float]
    sha256: str | None = None
    baseline_accuracy: float | None = None
    baseline_gap_error: float | None = None

    @property
    def headline(self) -> str:
        baseline = ""
        if self.baseline_accuracy is not None:
            baseline = f" (a linear model: {100 * self.baseline_accuracy:.2f}%)"
        return f"accuracy {100 * self.accuracy:.2f}% on {self.split}{baseline}"

    def table(self) -> str:
        from pandas import DataFrame

        figures = DataFrame.from_dict(self.classes, orient="index")
        figures[["precision", "recall", "f1"]] *= 100.0
        lines = [f"split     {self.split} ({self.texts:,} texts)"]
        for name in ("accuracy", "macro_f1"):
            low, high = (f"{100 * end:.2f}%" for end in getattr(self, f"{name}_interval"))
            title, figure = name.replace("f1", "F1").replace("_", " "), 100 * getattr(self, name)
            lines.append(f"{title}  {figure:.2f}%  (95% interval {low} to {high})")
        lines.append(f"calibration error ({BINS} bins)  {100 * self.calibration_error:.2f}%\n")
        formats = {"texts": "{:,}".format}
        lines.append(figures.to_string(float_format="{:.2f}%".format, formatters=formats))
        if self.confusion is not None:
            lines.append("\nconfusion (rows: true, columns: predicted)")
            lines.append(DataFrame(self.confusion, [*self.classes], [*self.classes]).to_string())
        else:
            lines.append("\nthe most frequent mistakes")
            mistakes = DataFrame(self.confused)
            lines.append("none" if mistakes.empty else mistakes.to_string(index=False))
        return "\n".join(lines)


def evaluate(
    classifier: Classifier,
    dataset: LoadSentenceClassificationDataset,
    split: str,
    *,
    report_in: Path | None = None,
    baseline_is_right: NDArray[np.bool_] | None = None,
    **options: Any,
) -> ClassificationReport:
    """Returns the report on one split; classes without any row in it are reported on stderr.

    Args:
        report_in: a folder for ``report.html`` and ``report.json`` (:mod:`.report`).
        baseline_is_right: for each row, whether a linear model is right.
        options: those of :meth:`Classifier.outputs`.
    """
    examples = dataset.encoded(split)
    with Progress(len(examples), split, unit="text") as bar:
        probabilities, _ = classifier.outputs(examples.texts, **options, on_batch=bar.advance)
    predicted, truth = classifier.decide(probabilities), examples.labels
    names = dataset.classes
    scores = score([names[i] for i in predicted.tolist()], [names[i] for i in truth], names)
    missing = [name for name, figures in scores.classes.items() if not figures["texts"]]
    if missing:
        log(f"{split}: no row has {class_count(missing, names)}")
    baseline: dict[str, Any] = {}
    if baseline_is_right is not None:
        gap = (predicted.numpy() == truth).astype(float) - baseline_is_right
        baseline["baseline_accuracy"] = float(baseline_is_right.mean())
        baseline["baseline_gap_error"] = float(gap.std() / len(gap) ** 0.5)
    report = ClassificationReport(
        split=split,
        texts=len(examples),
        calibration_error=calibration_error(*most_probable(probabilities, torch.from_numpy(truth))),
        **vars(scores),
        **bootstrap_intervals(predicted.numpy(), truth),
        sha256=dataset.splits.digest(),
        **baseline,
    )
    if report_in is not None:
        write_report(
            report_in,
            report.record(),
            texts=[dataset.text_of(row) for row in dataset.read(split)],
            labels=torch.from_numpy(truth),
            predicted=predicted,
            probabilities=probabilities,
            temperature=classifier.config.prediction.temperature,
        )
    return report


def score(predicted: Sequence[str], truth: Sequence[str], classes: Sequence[str]) -> Scores:
    """Returns how well the names of classes are predicted."""
    from sklearn.metrics import accuracy_score, confusion_matrix, precision_recall_fscore_support

    names = list(classes)
    figures = precision_recall_fscore_support(truth, predicted, labels=names, zero_division=0.0)
    keys = ("precision", "recall", "f1", "texts")
    rows = zip(*(column.tolist() for column in figures), strict=True)
    occurring = {*truth, *predicted}
    matrix = mistakes = None
    if len(names) <= MAX_MATRIX:
        matrix = confusion_matrix(truth, predicted, labels=names).tolist()
    else:
        pairs = Counter(pair for pair in zip(truth, predicted, strict=True) if pair[0] != pair[1])
        mistakes = [
            {"true": true, "predicted": other, "texts": texts}
            for (true, other), texts in pairs.most_common(MAX_MATRIX)
        ]
    return Scores(
        accuracy=float(accuracy_score(truth, predicted)),
        macro_f1=float(figures[2][[name in occurring for name in names]].mean()),
        classes={
            name: dict(zip(keys, row, strict=True)) for name, row in zip(names, rows, strict=True)
        },
        confusion=matrix,
        confused=mistakes,
    )
