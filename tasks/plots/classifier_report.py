"""The confusion matrix and the reliability diagram of a classifier, from a run's measurements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from core.errors import CheckpointError, UserError
from core.progress import log
from core.storage.files import is_file, is_folder, read_json
from tasks.classification import charts
from tasks.classification.report import REPORT_FILE
from tasks.pictures import check_picture, picture
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
    if (count := len(report["classes"])) > charts.MAX_CELLS:
        log(f"the picture has the {charts.MAX_CELLS} largest of {count:,} classes")
    with picture(path) as figure, _damage_named(place, "confusion is not a matrix of counts"):
        charts.draw_confusion(figure, report)


def draw_reliability(path: str | Path, run: Path) -> None:
    """Draws the reliability diagram without and with temperature scaling.

    Arguments and errors are those of :func:`draw_confusion`.
    """
    check_picture(Path(path))
    place, report = read_report(run)
    if "reliability" not in report:
        raise CheckpointError(f"{place}: it has no reliability; {_HINT}")
    with picture(path) as figure, _damage_named(place, "reliability is not a list of bins"):
        charts.draw_reliability(figure, report)


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


@contextmanager
def _damage_named(path: Path, damage: str) -> Iterator[None]:
    try:
        yield
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path}: damaged: {damage}") from error
