"""Reads and draws training curves: the ``history.csv`` of runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from core.errors import CheckpointError
from core.storage.files import is_folder, read_text
from core.training.history import HISTORY_FILE
from tasks.pictures import check_picture, picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LOSSES = {"train_loss": "training", "val_loss": "validation"}
_STYLES: dict[str, dict[str, Any]] = {"train_loss": {"ls": "--", "mfc": "white"}}
_REQUIRED = ("epoch", "train_loss")
_NOT_DRAWN = ("epoch", "step", "seconds")
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
_PANEL_INCHES = (4.5, 3.0)


def read_history(run: Path) -> pd.DataFrame:
    """Returns the training curve in the folder or file ``run``; unknown values are NaN.

    Raises:
        UserError: there is none, or it is damaged.
    """
    path = run / HISTORY_FILE if is_folder(run) else run
    try:
        curve = pd.read_csv(StringIO(read_text(path)), dtype=float, index_col=False)
    except ValueError as error:
        reason = " ".join(str(error).split())
        raise CheckpointError(f"{path}: not a training curve: {reason}") from error
    for name in _REQUIRED:
        if name not in curve:
            raise CheckpointError(f"{path}: not a training curve: there is no column {name}")
    if curve.empty:
        raise CheckpointError(f"{path}: no epoch is finished")
    if not curve["epoch"].abs().lt(math.inf).all():
        raise CheckpointError(f"{path}: damaged: an epoch has no number")
    return curve


def draw_histories(runs: Sequence[Path], output: Path) -> None:
    """Draws the training curves of ``runs`` in one picture, with a panel for each metric.

    Raises:
        ConfigError: the suffix of ``output`` is not that of a picture.
        UserError: a training curve is missing or damaged, or ``output`` cannot be written.
    """
    check_picture(output)
    curves = [read_history(run) for run in runs]
    with picture(output) as figure:
        _draw_panels(figure, _names(runs), curves)


def _names(runs: Sequence[Path]) -> list[str]:
    """Returns labels for the runs: the names of their folders, or paths if two names are equal."""
    paths = [run.absolute() for run in runs]
    names = [(path.parent if path.name == HISTORY_FILE else path).name for path in paths]
    return names if len(set(names)) == len(names) else [str(run) for run in runs]


def _draw_panels(figure: Figure, names: Sequence[str], curves: Sequence[pd.DataFrame]) -> None:
    """Draws a grid of panels with a common axis of epochs and one legend."""
    from matplotlib import colormaps
    from matplotlib.lines import Line2D
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    count = len(curves)
    palette = colormaps["tab10"] if count <= 10 else colormaps["turbo"].resampled(count)
    panels = _panels(curves)
    columns = min(3, len(panels))
    rows = math.ceil(len(panels) / columns)
    width, height = _PANEL_INCHES
    legend_height = 0.25 * (math.ceil(count / columns) + 1)
    figure.set_size_inches(width * columns, height * rows + legend_height)
    grid = figure.subplots(rows, columns, sharex=True, squeeze=False).flatten().tolist()
    for axes, (title, lines) in zip(grid, panels.items(), strict=False):
        for number, curve in enumerate(curves):
            marks = _MARKS if len(curve) <= _MAX_MARKED_EPOCHS else {}
            for name in filter(curve.__contains__, lines):
                style = {"color": palette(number), **marks, **_STYLES.get(name, {})}
                axes.plot(curve["epoch"], curve[name], **style)
        axes.set_title(title)
        axes.grid()
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        if set(lines) & set(_SHARES):
            axes.yaxis.set_major_formatter(PercentFormatter(1.0))
        if len(lines) > 1:
            styles = (_MARKS | _STYLES.get(name, {}) for name in lines)
            keys = [Line2D([], [], color="grey", **style) for style in styles]
            axes.legend(keys, [_LOSSES[name] for name in lines])
    if len(epochs := set(pd.concat(curves)["epoch"])) == 1:
        grid[0].set_xlim(min(epochs) - 0.5, max(epochs) + 0.5)
    for axes in grid[len(panels) :]:
        axes.remove()
    for axes in grid[max(0, len(panels) - columns) : len(panels)]:
        axes.set_xlabel("epoch")
        axes.tick_params(labelbottom=True)
    keys = [Line2D([], [], color=palette(number), linewidth=2) for number in range(count)]
    figure.legend(keys, names, loc="outside upper center", ncols=columns, fontsize="medium")


def _panels(curves: Sequence[pd.DataFrame]) -> dict[str, list[str]]:
    """Returns the columns of each panel by its title. Every unknown column gets a panel, too."""
    names = dict.fromkeys(name for curve in curves for name in curve)
    rest = [name for name in names if name not in (*_LOSSES, *_NOT_DRAWN)]
    rest.sort(key=lambda name: not name.startswith("val_"))
    titles = {_TITLES.get(name, name.replace("_", " ")): [name] for name in rest}
    return {"loss": [name for name in _LOSSES if name in names], **titles}
