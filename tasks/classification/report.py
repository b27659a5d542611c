"""The report on a classifier: figures with intervals, reliability, mistakes, and telling words."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from core.storage.files import write_json, write_text
from tasks.classification.charts import REPORT_FILE
from tasks.classification.report_page import report_page
from tasks.reliability import binned, calibration_error, most_probable

PAGE_FILE = "report.html"

_RESAMPLES = 1000
_MISTAKES = 30
_SHOWN_TEXT = 500  # characters
_WORDS = 12  # of each class
_MAX_CLASSES = 100  # whose words are shown
_PRIOR_SHARE = 0.1  # of the words of all texts
# A word, or a character of a script without spaces.
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W_\u3040-\u30ff\u3400-\u9fff]+")


def write_report(
    folder: Path,
    figures: Mapping[str, Any],
    *,
    texts: Sequence[str],
    labels: Tensor,
    predicted: Tensor,
    probabilities: Tensor,
    uncalibrated: Tensor,
) -> None:
    """Writes ``report.json`` and ``report.html``, which needs no other file.

    Args:
        figures: what :func:`.evaluate.evaluate` measured.
        labels, predicted: ``[N]``, the true and the chosen classes.
        probabilities: ``[N, C]``. uncalibrated: the same at temperature 1.
    """
    classes = list(figures["classes"])
    report = {
        **figures,
        "reliability": {
            "before": reliability(uncalibrated, labels),
            "after": reliability(probabilities, labels),
        },
        "calibration_error_before": calibration_error(*most_probable(uncalibrated, labels)),
        "mistakes": confident_mistakes(texts, labels, predicted, probabilities, classes),
        "words": telling_words(texts, [classes[i] for i in predicted.tolist()]),
    }
    write_json(folder / REPORT_FILE, report)
    write_text(folder / PAGE_FILE, report_page(report))


def bootstrap_intervals(
    predicted: NDArray[np.int64], truth: NDArray[np.int64], *, seed: int = 1
) -> dict[str, list[float]]:
    """Returns 95% percentile intervals of accuracy and macro F1 (Efron and Tibshirani 1993, 13.3).

    Drawing texts with replacement is drawing from the cells of the confusion matrix with the
    probabilities of their counts, so a resample takes no longer for more texts.

    Args:
        predicted, truth: ``[N]``, class numbers.
    """
    cells, counts = np.unique(np.stack([truth, predicted]), axis=1, return_counts=True)
    used, numbers = np.unique(cells, return_inverse=True)
    (true, chosen), size = numbers.reshape(2, -1), len(used)
    is_right = true == chosen
    rng = np.random.default_rng(seed)
    accuracies, f1s = np.empty(_RESAMPLES), np.empty(_RESAMPLES)
    for i in range(_RESAMPLES):
        drawn = rng.multinomial(len(truth), counts / len(truth))
        right = np.bincount(true[is_right], drawn[is_right], minlength=size)
        total = np.bincount(true, drawn, minlength=size) + np.bincount(
            chosen, drawn, minlength=size
        )
        accuracies[i] = right.sum() / len(truth)
        f1s[i] = (2 * right[total > 0] / total[total > 0]).mean()
    bounds = (2.5, 97.5)
    return {
        "accuracy_interval": np.percentile(accuracies, bounds).tolist(),
        "macro_f1_interval": np.percentile(f1s, bounds).tolist(),
    }


def reliability(probabilities: Tensor, labels: Tensor) -> list[dict[str, float]]:
    """Returns mean confidence, accuracy and number of texts of each bin that has texts.

    The bins are those of :func:`tasks.reliability.binned`.
    """
    return [
        {"confidence": confidence / texts, "accuracy": right / texts, "texts": int(texts)}
        for confidence, right, texts in binned(*most_probable(probabilities, labels)).tolist()
        if texts
    ]


def confident_mistakes(
    texts: Sequence[str],
    labels: Tensor,
    predicted: Tensor,
    probabilities: Tensor,
    classes: Sequence[str],
) -> list[dict[str, Any]]:
    """Returns the mistakes of the highest probabilities: many of their labels are wrong."""
    wrong = (labels != predicted).nonzero()[:, 0]
    chosen = probabilities.gather(1, predicted.unsqueeze(1))[:, 0]
    order = wrong[chosen[wrong].argsort(descending=True, stable=True)][:_MISTAKES]
    return [
        {
            "text": texts[i] if len(texts[i]) <= _SHOWN_TEXT else f"{texts[i][:_SHOWN_TEXT]}...",
            "label": classes[int(labels[i])],
            "predicted": classes[int(predicted[i])],
            "probability": float(chosen[i]),
        }
        for i in order.tolist()
    ]


def telling_words(texts: Sequence[str], predicted: Sequence[str]) -> dict[str, list[str]]:
    """Returns, for each class, the words that are typical of the texts predicted as this class.

    They are sorted by the z-score of the log-odds ratio between these texts and all others, with
    the counts in all texts as the prior (Monroe, Colaresi and Quinn 2008, equations 15 to 22). Only
    words with a z-score above 1.96 are listed.
    """
    counts: dict[str, Counter[str]] = {}
    for text, name in zip(texts, predicted, strict=True):
        counts.setdefault(name, Counter()).update(set(_WORD.findall(text.lower())))
    total: Counter[str] = Counter()
    for counter in counts.values():
        total.update(counter)
    everything = total.total()
    prior_words = _PRIOR_SHARE * everything
    words: dict[str, list[str]] = {}
    for name in sorted(counts, key=lambda name: -counts[name].total())[:_MAX_CLASSES]:
        own = counts[name].total()
        scores = {}
        for word, count in counts[name].items():
            prior = _PRIOR_SHARE * total[word]
            inside, outside = count + prior, total[word] - count + prior
            odds = math.log(inside / (own + prior_words - inside)) - math.log(
                outside / (everything - own + prior_words - outside)
            )
            scores[word] = odds / math.sqrt(1 / inside + 1 / outside)
        best = sorted(scores, key=lambda word: (-scores[word], word))[:_WORDS]
        words[name] = [word for word in best if scores[word] > 1.96]
    return words
