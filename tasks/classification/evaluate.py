"""Measuring a classifier: accuracy, precision, recall, F1 and the confusion matrix."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from core.config import override
from core.progress import log
from tasks.classification.calibration import BINS, expected_calibration_error
from tasks.classification.classes import class_count
from tasks.classification.dataset import LoadSentenceClassificationDataset
from tasks.classification.predict import Classifier
from tasks.classification.report import bootstrap_intervals, write_report
from tasks.classification.sources import ALL, TableSource
from tasks.runs.checkpoint_folder import model_folder, read_metrics

MAX_MATRIX = 100  # classes; the size of the confusion matrix grows with the square


def evaluate(
    classifier: Classifier,
    dataset: LoadSentenceClassificationDataset,
    split: str,
    *,
    report_in: Path | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Returns the report on one split.

    Classes without any row in the split are reported on stderr.

    Args:
        report_in: a folder for ``report.html`` and ``report.json`` (:mod:`.report`).
        options: those of :meth:`Classifier.probabilities`.
    """
    examples = dataset.encoded(split)
    (probabilities, uncalibrated), _ = classifier.probabilities_and_states(
        [ids for ids, _ in examples], temperatures=(None, 1.0), **options
    )
    predicted, truth = classifier.decide(probabilities), [label for _, label in examples]
    names = dataset.classes
    report = score([names[i] for i in predicted.tolist()], [names[i] for i in truth], names)
    missing = [name for name, figures in report["classes"].items() if not figures["texts"]]
    if missing:
        log(f"{split}: no row has {class_count(missing, names)}")
    report = {
        "split": split,
        "texts": len(examples),
        "calibration_error": expected_calibration_error(probabilities, torch.tensor(truth)),
        **report,
        **bootstrap_intervals(predicted.numpy(), np.array(truth)),
        **({"sha256": dataset.source.digest()} if isinstance(dataset.source, TableSource) else {}),
        "headline": f"accuracy {100 * report['accuracy']:.2f}% on {split}",
    }
    if report_in is not None:
        write_report(
            report_in,
            report,
            texts=[dataset.text_of(row) for row in dataset.read(split)],
            labels=torch.tensor(truth),
            predicted=predicted,
            probabilities=probabilities,
            uncalibrated=uncalibrated,
        )
    return report


def score(predicted: Sequence[str], truth: Sequence[str], classes: Sequence[str]) -> dict[str, Any]:
    """Returns the accuracy, the figures of each class, macro F1 and the confusions.

    ``macro_f1`` is the mean over the classes that occur in ``truth`` or ``predicted``, as in
    scikit-learn. ``confusion[i][j]`` counts the texts of class i that were predicted as class j.
    With more than ``MAX_MATRIX`` classes it is left out, and ``confused`` lists the most frequent
    mistakes instead.
    """
    from sklearn.metrics import accuracy_score, confusion_matrix, precision_recall_fscore_support

    names = list(classes)
    figures = precision_recall_fscore_support(truth, predicted, labels=names, zero_division=0.0)
    keys = ("precision", "recall", "f1", "texts")
    of_class = zip(*(column.tolist() for column in figures), strict=True)
    occurring = {*truth, *predicted}
    report = {
        "accuracy": float(accuracy_score(truth, predicted)),
        "macro_f1": float(figures[2][[name in occurring for name in names]].mean()),
        "classes": {
            name: dict(zip(keys, values, strict=True))
            for name, values in zip(names, of_class, strict=True)
        },
    }
    if len(names) <= MAX_MATRIX:
        return report | {"confusion": confusion_matrix(truth, predicted, labels=names).tolist()}
    mistakes = Counter(pair for pair in zip(truth, predicted, strict=True) if pair[0] != pair[1])
    return report | {
        "confused": [
            {"true": true, "predicted": other, "texts": texts}
            for (true, other), texts in mistakes.most_common(MAX_MATRIX)
        ]
    }


def run(
    model: str | Path | None,
    data: str | Path,
    *,
    split: str | None = None,
    device: str = "auto",
    report_in: Path | None = None,
    assignments: Sequence[str] = (),
    **options: Any,
) -> dict[str, Any]:
    """Measures a model (None: the pretrained one) on a split of the corpus ``data``.

    Args:
        split: train, val, test, or all for every row of a table. The default is test, but all for
            a table that the model was not trained on.
        report_in: as for :func:`evaluate`.
        assignments: changes of the model's configuration, such as ``data.label=topic``.
        options: those of :meth:`Classifier.probabilities`.

    Raises:
        CorpusError: the corpus is not valid, or its classes differ from the model's.
    """
    classifier = Classifier.load(model, device=device)
    config = classifier.config = override(classifier.config, assignments)
    classifier.check_thresholds()
    dataset = LoadSentenceClassificationDataset(
        data,
        config.data,
        seed=config.train.seed,
        codec=classifier.codec,
        classes=classifier.classes,
    )
    if split is None:
        split = default_split(dataset, read_metrics(model_folder("classification", model)))
    dataset.source.check_split(split)
    return evaluate(classifier, dataset, split, report_in=report_in, **options)


def default_split(dataset: LoadSentenceClassificationDataset, metrics: Mapping[str, Any]) -> str:
    """Returns the split to measure a model on, given its ``metrics.json``."""
    source = dataset.source
    if not isinstance(source, TableSource) or source.has_table("test"):
        return "test"
    return "test" if (metrics.get("test") or {}).get("sha256") == source.digest() else ALL


def as_table(report: Mapping[str, Any]) -> str:
    """Returns the report as text."""
    from pandas import DataFrame

    figures = DataFrame.from_dict(report["classes"], orient="index")
    figures[["precision", "recall", "f1"]] *= 100.0
    if "confusion" in report:
        names = list(report["classes"])
        title = "confusion (rows: true, columns: predicted)"
        confusion = DataFrame(report["confusion"], index=names, columns=names).to_string()
    else:
        title = "the most frequent mistakes"
        mistakes = report["confused"]
        confusion = DataFrame(mistakes).to_string(index=False) if mistakes else "none"
    return "\n".join(
        (
            f"split     {report['split']} ({report['texts']:,} texts)",
            f"accuracy  {100 * report['accuracy']:.2f}%{_interval(report, 'accuracy')}",
            f"macro F1  {100 * report['macro_f1']:.2f}%{_interval(report, 'macro_f1')}",
            f"calibration error ({BINS} bins)  {100 * report['calibration_error']:.2f}%",
            "",
            figures.to_string(float_format="{:.2f}%".format, formatters={"texts": "{:,}".format}),
            "",
            title,
            confusion,
        )
    )


def _interval(report: Mapping[str, Any], name: str) -> str:
    """Returns the 95% interval of a figure, for the table."""
    if f"{name}_interval" not in report:
        return ""
    low, high = report[f"{name}_interval"]
    return f"  (95% interval {100 * low:.2f}% to {100 * high:.2f}%)"
