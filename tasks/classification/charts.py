"""The charts of a classifier's report: the page contains them, and ``plot`` draws them."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from core.errors import CheckpointError
from core.storage.files import is_file, is_folder, read_json
from tasks.pictures import picture
from tasks.runs.checkpoint_folder import METRICS_FILE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

REPORT_FILE = "report.json"
MAX_CELLS = 30
"""The most classes in a confusion matrix."""

_MAX_NAME = 18  # characters
_HINT = "`cli.py evaluate classification --report FOLDER` writes one"


def draw_chart(path: str | Path, run: Path, kind: str) -> None:
    """Draws the chart ``kind`` (one of ``CHARTS``) of a classifier's report, or raises a UserError.

    ``run`` is the folder of a classifier or of a report, or a report as JSON. In a folder it is
    ``report.json`` or, without it, the test results in ``metrics.json``.
    """
    file = run
    if is_folder(run):
        file = next((run / n for n in (REPORT_FILE, METRICS_FILE) if is_file(run / n)), run)
        if file == run:
            raise CheckpointError(f"{run}: there is no {REPORT_FILE} in it; {_HINT}")
    content = read_json(file)
    report = content.get("test", content) if isinstance(content, dict) else None
    if not isinstance(report, dict) or not isinstance(report.get("classes"), dict):
        raise CheckpointError(f"{file}: not the report of a classifier; {_HINT}")
    if kind not in report:
        reason = "there are too many classes" if kind == "confusion" else _HINT
        raise CheckpointError(f"{file}: it has no {kind}: {reason}")
    with picture(path) as figure:
        try:
            CHARTS[kind](figure, report)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"{file}: damaged: there is no chart of its {kind}") from error


def draw_confusion(figure: "Figure", report: Mapping[str, Any]) -> None:
    """Draws the confusion matrix of the ``MAX_CELLS`` classes with most texts.

    The color of a cell shows its share of the row.
    """
    from sklearn.metrics import ConfusionMatrixDisplay

    classes, counts = report["classes"], np.array(report["confusion"])
    texts = np.array([values["texts"] for values in classes.values()])
    if counts.shape != (len(texts), len(texts)):
        raise ValueError(f"a matrix {counts.shape} of {len(texts)} classes")
    shares = counts / counts.sum(axis=1, keepdims=True).clip(min=1)
    largest = np.sort(np.argsort(-texts, kind="stable")[:MAX_CELLS])
    counts, shares = (matrix[np.ix_(largest, largest)] for matrix in (counts, shares))
    names = [[*classes][i] for i in largest]
    names = [n if len(n) <= _MAX_NAME else f"{n[: _MAX_NAME - 1]}\u2026" for n in names]
    side = 2.5 + 0.5 * len(names)
    figure.set_size_inches(side, side)
    style = {"cmap": "Blues", "colorbar": False, "im_kw": {"vmin": 0, "vmax": 1}}
    display = ConfusionMatrixDisplay(shares, display_labels=names)
    display.plot(ax=figure.subplots(), xticks_rotation="vertical", **style)
    for cell, count in zip(display.text_.flat, counts.flat, strict=True):
        cell.set_text(str(count) if count else "")
    part = f" ({len(names)} largest of {len(classes):,} classes)" * (len(names) < len(classes))
    display.ax_.set_title(f"Confusion matrix: number of texts{part}")
    display.ax_.set(xlabel="prediction", ylabel="label")


def draw_reliability(figure: "Figure", report: Mapping[str, Any]) -> None:
    """Draws the reliability diagram (Guo et al. 2017) without and with temperature scaling.

    Below it are the numbers of texts in the bins.
    """
    from sklearn.calibration import CalibrationDisplay

    figure.set_size_inches(6, 7)
    curves, counts = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    for key, name in (("before", "without"), ("after", "with")):
        bins = report["reliability"][key]
        confidence, accuracy, texts = (
            np.array([values[column] for values in bins])
            for column in ("confidence", "accuracy", "texts")
        )
        display = CalibrationDisplay(accuracy, confidence, confidence)
        display.plot(ax=curves, name=f"{name} temperature scaling")
        counts.plot(confidence, texts, "s-")
    curves.set_title("Reliability diagram")
    curves.set(xlabel=None, ylabel="accuracy", xlim=(0, 1.02), ylim=(0, 1.02))
    counts.set(xlabel="confidence", ylabel="texts")
    for axes in (curves, counts):
        axes.grid()


CHARTS = {"confusion": draw_confusion, "reliability": draw_reliability}
