"""Reads and draws training curves: the ``history.csv`` of runs."""

import math
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import pandas as pd

from core.errors import CheckpointError
from core.storage.files import is_folder, read_text
from core.training.state import HISTORY_FILE
from tasks.pictures import picture

_LOSSES = {"train_loss": "training", "val_loss": "validation"}
_STYLES: dict[str, dict[str, Any]] = {"train_loss": {"ls": "--", "mfc": "white"}}
_NOT_DRAWN = ("epoch", "step", "seconds", *_LOSSES)
_SHARES = ("val_accuracy", "padding_share")
_TITLES = {
    "val_bleu": "BLEU (validation)",
    "val_accuracy": "accuracy (validation)",
    "val_perplexity": "perplexity (validation)",
    "learning_rate": "learning rate (last step)",
    "gradient_norm": "gradient norm (mean of the steps)",
    "tokens_per_second": "tokens per second",
    "padding_share": "padding (share of all positions)",
}

_MARKS: dict[str, Any] = {"marker": "o", "ms": 4}  # a single epoch has no line
_MAX_MARKED_EPOCHS = 40
_LARGEST = 1e300  # matplotlib cannot draw much larger numbers


def read_history(run: Path) -> pd.DataFrame:
    """Returns the curve of ``run``, a folder or file. Raises a UserError if missing or damaged."""
    path = run / HISTORY_FILE if is_folder(run) else run
    try:
        curve = pd.read_csv(StringIO(read_text(path)), dtype=float, index_col=False)
    except ValueError as error:
        reason = " ".join(str(error).split())
        raise CheckpointError(f"{path}: not a training curve: {reason}") from error
    for name in ("epoch", "train_loss"):
        if name not in curve:
            raise CheckpointError(f"{path}: not a training curve: there is no column {name}")
    if curve.empty:
        raise CheckpointError(f"{path}: no epoch is finished")
    is_large = curve.abs().gt(_LARGEST) & curve.abs().lt(math.inf)
    if is_large.any(axis=None) or not curve["epoch"].abs().lt(math.inf).all():
        raise CheckpointError(f"{path}: damaged: an epoch has no number, or one is too large")
    return curve


def draw_histories(output: Path, runs: Sequence[Path]) -> None:
    """Draws the training curves of ``runs``: a panel for each metric, a color for each run.

    Raises:
        ConfigError: the suffix of ``output`` is not that of a picture.
        UserError: a training curve is missing or damaged, or ``output`` cannot be written.
    """
    curves = [read_history(run) for run in runs]
    names = list(dict.fromkeys(name for curve in curves for name in curve))
    rest = sorted(set(names) - set(_NOT_DRAWN), key=names.index)
    rest.sort(key=lambda name: not name.startswith("val_"))
    panels = {"loss": [name for name in _LOSSES if name in names]}
    panels |= {_TITLES.get(name, name.replace("_", " ")): [name] for name in rest}
    count, columns = len(curves), min(3, len(panels))
    rows = math.ceil(len(panels) / columns)
    with picture(output) as figure:
        from matplotlib import colormaps
        from matplotlib.lines import Line2D
        from matplotlib.ticker import MaxNLocator, PercentFormatter

        colors = colormaps["tab10"] if count <= 10 else colormaps["turbo"].resampled(count)
        legend_height = 0.25 * (math.ceil(count / columns) + 1)
        figure.set_size_inches(4.5 * columns, 3.0 * rows + legend_height)
        grid = figure.subplots(rows, columns, squeeze=False).flatten().tolist()
        epochs = pd.concat(curves)["epoch"]
        for axes, (title, lines) in zip(grid, panels.items(), strict=False):
            for number, curve in enumerate(curves):
                marks = _MARKS if len(curve) <= _MAX_MARKED_EPOCHS else {}
                for name in filter(curve.__contains__, lines):
                    style = {"color": colors(number), **marks, **_STYLES.get(name, {})}
                    axes.plot(curve["epoch"], curve[name], **style)
            axes.set(title=title, xlabel="epoch")
            axes.grid()
            axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
            if epochs.nunique() == 1:
                axes.set_xlim(epochs.min() - 0.5, epochs.max() + 0.5)
            if set(lines) & set(_SHARES):
                axes.yaxis.set_major_formatter(PercentFormatter(1.0))
            if len(lines) > 1:
                styles = (_MARKS | _STYLES.get(name, {}) for name in lines)
                keys = [Line2D([], [], color="grey", **style) for style in styles]
                axes.legend(keys, [_LOSSES[name] for name in lines])
        for axes in grid[len(panels) :]:
            axes.remove()
        keys = [Line2D([], [], color=colors(number), linewidth=2) for number in range(count)]
        names = _names(runs)
        figure.legend(keys, names, loc="outside upper center", ncols=columns, fontsize="medium")


def _names(runs: Sequence[Path]) -> list[str]:
    """Returns labels for the runs: the names of their folders, or paths if two names are equal."""
    paths = [run.absolute() for run in runs]
    names = [(path.parent if path.name == HISTORY_FILE else path).name for path in paths]
    return names if len(set(names)) == len(names) else [str(run) for run in runs]
