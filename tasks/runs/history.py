"""Reads and draws training curves: the ``history.csv`` of runs."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from core.errors import CheckpointError, CorpusError
from core.storage.files import is_folder
from core.training.history import HISTORY_FILE
from data.readers import csv_records
from tasks.pictures import check_picture, picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Lines = Mapping[str, Literal["-", "--"]]
"""The columns of one panel, and the style of their lines."""

_LOSSES: Lines = {"train_loss": "--", "val_loss": "-"}
_LOSS_NAMES = {"train_loss": "training", "val_loss": "validation"}
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

_MAX_MARKED_EPOCHS = 40
_PANEL_INCHES = (4.5, 3.0)


@dataclass(frozen=True)
class History:
    """The training curve of a run: its columns, all of equal length; unknown values are NaN."""

    path: Path
    columns: Mapping[str, Sequence[float]]

    @property
    def epochs(self) -> Sequence[float]:
        return self.columns["epoch"]


def read_history(run: Path) -> History:
    """Returns the training curve in the folder or file ``run``.

    Raises:
        CheckpointError: there is none, or it is damaged; names the line.
    """
    path = run / HISTORY_FILE if is_folder(run) else run
    records = _records(path)
    _, names = next(records, (1, []))
    if not names:
        raise CheckpointError(f"{path}: the file is empty")
    for name in _REQUIRED:
        if name not in names:
            raise CheckpointError(f"{path}:1: not a training curve: there is no column {name}")
    if len(set(names)) < len(names):
        raise CheckpointError(f"{path}:1: not a training curve: two columns have the same name")
    rows: list[list[float]] = []
    for line, fields in records:
        if len(fields) != len(names):
            raise CheckpointError(
                f"{path}:{line}: damaged: {len(fields)} fields under {len(names)} names"
            )
        rows.append([_number(path, line, *pair) for pair in zip(names, fields, strict=True)])
    if not rows:
        raise CheckpointError(f"{path}: no epoch is finished")
    columns = zip(*rows, strict=True)
    return History(path, {name: list(c) for name, c in zip(names, columns, strict=True)})


def draw_histories(runs: Sequence[Path], output: Path) -> None:
    """Draws the training curves of ``runs`` in one picture, with a panel for each metric.

    Raises:
        ConfigError: the suffix of ``output`` is not that of a picture.
        CheckpointError: a training curve is missing or damaged.
        UserError: ``output`` cannot be written.
    """
    check_picture(output)
    histories = [read_history(run) for run in runs]
    with picture(output) as figure:
        _draw_panels(figure, dict(zip(_unique(_names(histories)), histories, strict=True)))


def _records(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yields every record of a CSV file with the number of its first line."""
    try:
        yield from csv_records(path)
    except CorpusError as error:
        place = path if error.line is None else f"{path}:{error.line}: damaged"
        raise CheckpointError(f"{place}: {error.reason}") from error


def _number(path: Path, line: int, name: str, field: str) -> float:
    """Returns the number in a field; NaN for an empty one, in a column newer than the run."""
    try:
        number = float(field) if field else math.nan
    except ValueError:
        raise CheckpointError(
            f"{path}:{line}: damaged: {name} is {field[:40]!r}, not a number"
        ) from None
    if name == "epoch" and not math.isfinite(number):
        raise CheckpointError(f"{path}:{line}: damaged: the epoch is not a number")
    return number


def _names(histories: Sequence[History]) -> list[str]:
    """Returns labels for the runs: the names of their folders, or paths if two names are equal."""
    paths = [history.path.absolute() for history in histories]
    folders = [path.parent if path.name == HISTORY_FILE else path for path in paths]
    names = [folder.name for folder in folders]
    if len(set(names)) == len(names):
        return names
    common = os.path.commonpath([folder.parent for folder in folders])
    return [str(folder.relative_to(common)) for folder in folders]


def _unique(names: Sequence[str]) -> list[str]:
    """Returns ``names``, but a number for a name that occurs twice."""
    return [f"run {i + 1}" if name in names[:i] else name for i, name in enumerate(names)]


def _draw_panels(figure: Figure, histories: Mapping[str, History]) -> None:
    """Draws a grid of panels with a common axis of epochs and one legend."""
    from matplotlib import colormaps
    from matplotlib.lines import Line2D

    few, many = colormaps["tab10"], colormaps["turbo"]
    count = len(histories)
    colors = [few(i) if count <= 10 else many((i + 0.5) / count) for i in range(count)]
    panels = _panels(histories.values())
    columns = min(3, len(panels))
    rows = math.ceil(len(panels) / columns)
    width, height = _PANEL_INCHES
    legend_height = 0.25 * (math.ceil(count / columns) + 1)
    figure.set_size_inches(width * columns, height * rows + legend_height)
    grid = figure.subplots(rows, columns, sharex=True, squeeze=False).flatten().tolist()
    for axes, (title, lines) in zip(grid, panels.items(), strict=False):
        for history, color in zip(histories.values(), colors, strict=True):
            _draw(axes, history, lines, color)
        _finish(axes, title, lines)
    epochs = {epoch for history in histories.values() for epoch in history.epochs}
    if len(epochs) == 1:
        grid[0].set_xlim(min(epochs) - 0.5, max(epochs) + 0.5)
    for axes in grid[len(panels) :]:
        axes.remove()
    for axes in grid[max(0, len(panels) - columns) : len(panels)]:
        axes.set_xlabel("epoch")
        axes.tick_params(labelbottom=True)
    figure.legend(
        [Line2D([], [], color=color, linewidth=2) for color in colors],
        list(histories),
        loc="outside upper center",
        ncols=columns,
    )


def _panels(histories: Collection[History]) -> dict[str, Lines]:
    """Returns the lines of each panel by its title. Every unknown column gets a panel, too."""
    names = dict.fromkeys(name for history in histories for name in history.columns)
    panels: dict[str, Lines] = {
        "loss": {name: line for name, line in _LOSSES.items() if name in names}
    }
    rest = [name for name in names if name not in (*_LOSSES, *_NOT_DRAWN)]
    rest.sort(key=lambda name: not name.startswith("val_"))
    for name in rest:
        panels[_TITLES.get(name, name.replace("_", " "))] = {name: "-"}
    return panels


def _draw(axes: Axes, history: History, lines: Lines, color: Any) -> None:
    for name, line in lines.items():
        if name in history.columns:
            marks = _marks(name) if len(history.epochs) <= _MAX_MARKED_EPOCHS else {}
            axes.plot(history.epochs, history.columns[name], linestyle=line, color=color, **marks)


def _marks(name: str) -> dict[str, Any]:
    """Returns the style of the marks at every epoch; a single epoch has no line."""
    hollow = {"markerfacecolor": "white"} if name == "train_loss" else {}
    return {"marker": "o", "markersize": 4, **hollow}


def _finish(axes: Axes, title: str, lines: Lines) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    axes.set_title(title, fontsize="medium")
    axes.grid(alpha=0.3)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    if set(lines) & set(_SHARES):
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    if len(lines) > 1:
        keys = [
            Line2D([], [], color="grey", linestyle=line, **_marks(name))
            for name, line in lines.items()
        ]
        axes.legend(keys, [_LOSS_NAMES[name] for name in lines], fontsize="small")
