"""Measuring a classifier: accuracy, precision, recall, F1 and the confusion matrix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from transformer_suite.tasks.classification.dataset import LoadSentenceClassificationDataset
from transformer_suite.tasks.classification.predict import Classifier


def evaluate(
    classifier: Classifier, dataset: LoadSentenceClassificationDataset, split: str, **options: Any
) -> dict[str, Any]:
    """The report on one split; ``options`` are those of :meth:`Classifier.probabilities`."""
    examples = dataset.encoded(split)
    given = classifier.probabilities([ids for ids, _ in examples], **options).argmax(dim=1)
    names = dataset.classes
    report = score([names[i] for i in given.tolist()], [names[i] for _, i in examples], names)
    return {
        "split": split,
        "texts": len(examples),
        **report,
        "headline": f"accuracy {100 * report['accuracy']:.2f}% on {split}",
    }


def score(predicted: Sequence[str], truth: Sequence[str], classes: Sequence[str]) -> dict[str, Any]:
    """Accuracy, the figures of each class, their plain mean, and who is taken for whom.

    ``confusion[i][j]`` counts the texts of class i that were given class j.
    """
    from sklearn.metrics import accuracy_score, confusion_matrix, precision_recall_fscore_support

    names = list(classes)
    precision, recall, f1, support = precision_recall_fscore_support(
        truth, predicted, labels=names, zero_division=0.0
    )
    per_class = {
        name: {
            "precision": float(precision[i]),
            "recall": float(recall[i]),
            "f1": float(f1[i]),
            "texts": int(support[i]),
        }
        for i, name in enumerate(names)
    }
    return {
        "accuracy": float(accuracy_score(truth, predicted)),
        "macro_f1": float(f1.mean()),
        "classes": per_class,
        "confusion": confusion_matrix(truth, predicted, labels=names).tolist(),
    }


def run(
    model: Path | None,
    data: Path,
    *,
    split: str | None = None,
    device: str = "auto",
    **options: Any,
) -> dict[str, Any]:
    """Measures the model in ``model`` (None: the one that ships) on a split of the corpus ``data``.

    Args:
        split: test (the default), val or train.
        options: those of :meth:`Classifier.probabilities`.

    Raises:
        CorpusError: among others, the corpus has other classes than the model.
    """
    classifier = Classifier.load(model, device=device)
    config = classifier.config
    dataset = LoadSentenceClassificationDataset(
        data,
        config.data,
        seed=config.train.seed,
        codec=classifier.codec,
        classes=classifier.classes,
    )
    return evaluate(classifier, dataset, split or "test", **options)


def as_table(report: Mapping[str, Any]) -> str:
    """The report for people."""
    from pandas import DataFrame

    names = list(report["classes"])
    figures = DataFrame.from_dict(report["classes"], orient="index")
    figures[["precision", "recall", "f1"]] *= 100.0
    confusion = DataFrame(report["confusion"], index=names, columns=names)
    return "\n".join(
        (
            f"split     {report['split']} ({report['texts']:,} texts)",
            f"accuracy  {100 * report['accuracy']:.2f}%",
            f"macro F1  {100 * report['macro_f1']:.2f}%",
            "",
            figures.to_string(float_format="{:.2f}%".format, formatters={"texts": "{:,}".format}),
            "",
            "confusion (rows: true, columns: given)",
            confusion.to_string(),
        )
    )
