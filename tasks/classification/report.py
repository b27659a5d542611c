"""The report on a classifier: figures with intervals, reliability, mistakes, and telling words.

The page is one HTML file that contains its pictures, without scripts.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor

from core.storage.files import write_json, write_text
from tasks.classification.charts import REPORT_FILE, draw_confusion, draw_reliability
from tasks.classification.decision import binned, calibration_error, most_probable, scaled
from tasks.pictures import embedded

PAGE_FILE = "report.html"

_RESAMPLES = 1000
_MISTAKES = 30
_SHOWN_TEXT = 500  # characters
_WORDS = 12  # of each class
_MAX_CLASSES = 100  # whose words are shown
_MAX_ROWS = 200  # classes in the table
_PRIOR_SHARE = 0.1  # of the words of all texts
# A word, or a character of a script without spaces.
_WORD = r"[\u3040-\u30ff\u3400-\u9fff]|[^\W_\u3040-\u30ff\u3400-\u9fff]+"

_HEAD = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta http-equiv="Content-Security-Policy"
  content="default-src 'none'; img-src data:; style-src 'unsafe-inline'"><style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
  color: #1c1c1c; background: #fff; }}
table {{ border-collapse: collapse; }} th, td {{ padding: .2rem .7rem;
  border-bottom: 1px solid #ddd; text-align: right; vertical-align: top; }}
th:first-child, td:first-child, th:last-child, td:last-child {{ text-align: left; }}
img {{ max-width: 100%; height: auto; }} .note {{ color: #555; }}
</style></head><body>
"""


def write_report(
    folder: Path,
    figures: Mapping[str, Any],
    *,
    texts: Sequence[str],
    labels: Tensor,
    predicted: Tensor,
    probabilities: Tensor,
    temperature: float,
) -> None:
    """Writes ``report.json`` and ``report.html``, which needs no other file.

    ``figures`` are what :func:`.evaluate.evaluate` measured, ``labels`` and ``predicted`` the true
    and the chosen classes ``[N]``, and ``probabilities`` ``[N, C]`` those at this ``temperature``.
    """
    uncalibrated = scaled(probabilities, 1.0 / temperature)
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
) -> dict[str, Any]:
    """Returns 95% percentile intervals of accuracy and macro F1 (Efron and Tibshirani 1993, 13.3).

    Drawing texts with replacement is drawing from the cells of the confusion matrix with the
    probabilities of their counts, so a resample takes no longer for more texts.
    """
    cells, counts = np.unique(np.stack([truth, predicted]), axis=1, return_counts=True)
    rng, total = np.random.default_rng(seed), len(truth)
    drawn = rng.multinomial(total, counts / total, size=_RESAMPLES)
    cell_numbers = np.tile(np.arange(len(counts)), 2)
    classes_of = csr_array((np.ones(cells.size), (cell_numbers, cells.ravel())))  # [cells, C]
    is_right = cells[0] == cells[1]
    accuracies = drawn[:, is_right].sum(axis=1) / len(truth)
    with np.errstate(invalid="ignore"):  # 0 / 0 for a class that was not drawn
        f1s = np.nanmean(drawn[:, is_right] @ classes_of[is_right] / (drawn @ classes_of), axis=1)
    return {
        f"{name}_interval": np.percentile(values, (2.5, 97.5)).tolist()
        for name, values in (("accuracy", accuracies), ("macro_f1", f1s))
    }


def reliability(probabilities: Tensor, labels: Tensor) -> list[dict[str, float]]:
    """Returns mean confidence, accuracy and number of texts of each bin that has texts."""
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
    from pandas import DataFrame

    rows = {
        "text": [t if len(t) <= _SHOWN_TEXT else f"{t[:_SHOWN_TEXT]}..." for t in texts],
        "label": [classes[i] for i in labels.tolist()],
        "predicted": [classes[i] for i in predicted.tolist()],
        "probability": probabilities.gather(1, predicted.unsqueeze(1))[:, 0].tolist(),
    }
    wrong = DataFrame(rows).query("label != predicted").nlargest(_MISTAKES, "probability")
    mistakes: list[dict[str, Any]] = wrong.to_dict("records")
    return mistakes


def telling_words(texts: Sequence[str], predicted: Sequence[str]) -> dict[str, list[str]]:
    """Returns, for each class, the words that are typical of the texts predicted as this class.

    They are sorted by the z-score of the log-odds ratio between these texts and all others, with
    the counts in all texts as the prior (Monroe, Colaresi and Quinn 2008, equations 15 to 22). Only
    words with a z-score above 1.96 are listed.
    """
    from sklearn.feature_extraction.text import CountVectorizer

    names = [name for name, _ in Counter(predicted).most_common(_MAX_CLASSES)]
    vectorizer = CountVectorizer(token_pattern=_WORD, binary=True)
    try:
        counts = vectorizer.fit_transform(texts)
    except ValueError:  # no text has a word
        return {name: [] for name in names}
    words, total = vectorizer.get_feature_names_out(), np.asarray(counts.sum(axis=0)).ravel()
    found = {}
    for name in names:
        own = np.asarray(counts[np.array(predicted) == name].sum(axis=0)).ravel()
        inside, outside = own + _PRIOR_SHARE * total, total - own + _PRIOR_SHARE * total
        with np.errstate(divide="ignore", invalid="ignore"):  # of a single word
            odds = np.log(inside / (inside.sum() - inside))
            odds -= np.log(outside / (outside.sum() - outside))
        scores = odds / np.sqrt(1 / inside + 1 / outside)
        best = np.argsort(-scores, kind="stable")[:_WORDS]
        found[name] = [str(words[i]) for i in best if scores[i] > 1.96]
    return found


def report_page(report: Mapping[str, Any]) -> str:
    """Returns the page. All texts, which may come from strangers, are escaped."""
    classes = report["classes"]
    largest = sorted(classes, key=lambda name: -classes[name]["texts"])[:_MAX_ROWS]
    mistakes = report["mistakes"]
    error = "expected calibration error"
    figures: list[tuple[object, ...]] = [
        (title, _percent(report[name]), " to ".join(map(_percent, report[f"{name}_interval"])))
        for name, title in (("accuracy", "accuracy"), ("macro_f1", "macro F1"))
    ]
    if "baseline_accuracy" in report:
        note = "logistic regression over TF-IDF of words and word pairs"
        figures.append(("a linear model", _percent(report["baseline_accuracy"]), note))
    figures += [
        (error, _percent(report["calibration_error"]), ""),
        (f"{error}, without temperature", _percent(report["calibration_error_before"]), ""),
    ]
    if "confusion" in report:
        confusion = embedded(partial(draw_confusion, report=report), "Confusion matrix")
        confusion += _note("Rows: labels; columns: predictions; color: share of the row.")
    else:
        confused = [tuple(each.values()) for each in report["confused"][:_MAX_ROWS]]
        confusion = _table(("label", "predicted", "texts"), confused)
    parts = [
        page_head(f"Classification report: {report['split']}"),
        f"<h1>Classification report</h1><p>{report['texts']:,} texts of the split "
        f"<b>{escape(report['split'])}</b>.</p>",
        _table(("figure", "value", "95% interval (bootstrap)"), figures),
        "<h2>Classes</h2>",
        _table(
            ("class", "precision", "recall", "F1", "texts"),
            (
                (
                    name,
                    *(_percent(classes[name][key]) for key in ("precision", "recall", "f1")),
                    f"{classes[name]['texts']:,}",
                )
                for name in largest
            ),
        ),
        _note(f"The {len(largest):,} largest of {len(classes):,} classes."),
        f"<h2>Confusion matrix</h2>{confusion}<h2>Reliability</h2>",
        embedded(partial(draw_reliability, report=report), "Reliability diagram"),
        _note(
            "Above the dotted line the classifier is better than its probabilities say, below it "
            "is worse. The lower panel shows the number of texts."
        ),
        f"<h2>Most confident mistakes</h2>{_note('Some of these labels may be wrong.')}",
        _table(
            ("probability", "predicted", "label", "text"),
            ((_percent(m["probability"]), m["predicted"], m["label"], m["text"]) for m in mistakes),
        ),
        "<h2>Words that speak for each class</h2>",
        _note("Words that are much more frequent in the texts of the class than in all others."),
        _table(("class", "words"), ((c, ", ".join(w)) for c, w in report["words"].items())),
        "</body></html>\n",
    ]
    return "\n".join(parts)


def page_head(title: str) -> str:
    """Returns the beginning of a page. Its policy forbids scripts and other files."""
    return _HEAD.format(title=escape(title))


def _table(names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [
        "".join(f"<{tag}>{escape(str(cell))}</{tag}>" for cell in row)
        for tag, row in [("th", names), *(("td", row) for row in rows)]
    ]
    return f"<table><tr>{'</tr><tr>'.join(lines)}</tr></table>"


def _note(text: str) -> str:
    return f"<p class=note>{escape(text)}</p>"


def _percent(share: float) -> str:
    return f"{100 * share:.2f}%"
