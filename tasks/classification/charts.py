"""The charts of a classifier's report, for its page and for ``plot``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_CELLS = 30
"""The most classes in a confusion matrix."""

_MAX_NAME = 18  # characters


def draw_confusion(figure: Figure, report: Mapping[str, Any]) -> None:
    """Draws the confusion matrix of the ``MAX_CELLS`` classes with most texts.

    The color of a cell shows its share of the row.
    """
    from sklearn.metrics import ConfusionMatrixDisplay

    classes, counts = report["classes"], np.array(report["confusion"])
    texts = np.array([values["texts"] for values in classes.values()])
    if counts.shape != (len(texts), len(texts)):
        raise ValueError(f"a matrix {counts.shape} of {len(texts)} classes")
    largest = np.sort(np.argsort(-texts, kind="stable")[:MAX_CELLS])
    names = [_shortened([*classes][i]) for i in largest]
    shares = counts / counts.sum(axis=1, keepdims=True).clip(min=1)
    side = 2.5 + 0.5 * len(names)
    figure.set_size_inches(side, side)
    display = ConfusionMatrixDisplay(shares[np.ix_(largest, largest)], display_labels=names)
    display.plot(
        ax=figure.subplots(), cmap="Blues", colorbar=False, xticks_rotation="vertical",
        im_kw={"vmin": 0, "vmax": 1},
    )  # fmt: skip
    for cell, count in zip(display.text_.flat, counts[np.ix_(largest, largest)].flat, strict=True):
        cell.set_text(str(count) if count else "")
    display.ax_.set_title("Confusion matrix: number of texts")
    display.ax_.set(xlabel="prediction", ylabel="label")


def draw_reliability(figure: Figure, report: Mapping[str, Any]) -> None:
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


def _shortened(name: str) -> str:
    return name if len(name) <= _MAX_NAME else f"{name[: _MAX_NAME - 1]}\u2026"
