"""The confusion matrix and the reliability diagram of a classifier, from a run's measurements."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from core.errors import CheckpointError, UserError
from core.progress import log
from core.storage.files import is_file, is_folder, read_json
from tasks.classification.charts import (
    MAX_CELLS,
    confusion_chart,
    draw_charts,
    reliability_charts,
)
from tasks.classification.report import REPORT_FILE
from tasks.pictures import check_picture
from tasks.runs.checkpoint_folder import METRICS_FILE

_HINT = "`cli.py evaluate classification --report FOLDER` writes one"


def draw_confusion(path: str | Path, run: Path) -> None:
    """Draws the confusion matrix of the classes with most texts, at most ``MAX_CELLS``.

    Args:
        path: the picture; its suffix is .png, .svg or .pdf.
        run: the folder of a classifier or of a report, or a report as JSON.

    Raises:
        ConfigError: another suffix.
        CheckpointError: there is no report, or it is damaged or has no matrix.
        UserError: the picture cannot be written.
    """
    check_picture(Path(path))
    place, report = read_report(run)
    if "confusion" not in report:
        raise CheckpointError(f"{place}: it has no confusion matrix: there are too many classes")
    if not _is_matrix(report):
        raise CheckpointError(f"{place}: damaged: confusion is not a matrix of counts of classes")
    if (count := len(report["classes"])) > MAX_CELLS:
        log(f"the picture has the {MAX_CELLS} largest of {count:,} classes")
    draw_charts(path, [confusion_chart(report)])


def draw_reliability(path: str | Path, run: Path) -> None:
    """Draws the reliability diagrams without and with temperature scaling.

    Arguments and errors are those of :func:`draw_confusion`.
    """
    check_picture(Path(path))
    place, report = read_report(run)
    if "reliability" not in report:
        raise CheckpointError(f"{place}: it has no reliability; {_HINT}")
    if not _has_bins(report["reliability"]):
        raise CheckpointError(f"{place}: damaged: reliability is not a list of bins")
    draw_charts(path, reliability_charts(report))


def read_report(run: Path) -> tuple[Path, Mapping[str, Any]]:
    """Returns the file of a report and its content.

    In a folder it is ``report.json`` or, without it, the test results in ``metrics.json``.

    Raises:
        CheckpointError: there is none, or it is damaged.
    """
    path = run
    if is_folder(run):
        path = next((run / n for n in (REPORT_FILE, METRICS_FILE) if is_file(run / n)), run)
        if path == run:
            raise CheckpointError(f"{run}: there is no {REPORT_FILE} in it; {_HINT}")
    try:
        content = read_json(path)
    except UserError as error:
        raise CheckpointError(str(error)) from error
    report = content.get("test", content) if isinstance(content, dict) else None
    if not isinstance(report, dict) or not isinstance(report.get("classes"), dict):
        raise CheckpointError(f"{path}: not the report of a classifier; {_HINT}")
    return path, report


def _is_matrix(report: Mapping[str, Any]) -> bool:
    classes, rows = report["classes"], report["confusion"]
    return (
        len(classes) > 0
        and all(isinstance(c, dict) and _is_count(c.get("texts")) for c in classes.values())
        and isinstance(rows, list)
        and len(rows) == len(classes)
        and all(isinstance(row, list) and len(row) == len(classes) for row in rows)
        and all(_is_count(count) for row in rows for count in row)
    )


def _has_bins(reliability: Any) -> bool:
    if not isinstance(reliability, dict):
        return False
    bins = [reliability.get(key) for key in ("before", "after")]
    return all(isinstance(part, list) and all(map(_is_bin, part)) for part in bins)


def _is_bin(values: Any) -> bool:
    return (
        isinstance(values, dict)
        and _is_count(values.get("texts"))
        and values["texts"] > 0
        and all(
            isinstance(values.get(key), int | float) and 0 <= values[key] <= 1
            for key in ("confidence", "accuracy")
        )
    )


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0
