"""Pictures of a classifier's report: cells and points against the report's numbers."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Rectangle

from tasks.classification.charts import MAX_CELLS, reliability_charts
from tasks.pictures import BLUE, ORANGE
from tasks.runs.checkpoint_folder import PRETRAINED
from tests.commands.command_line import error_of, run

Plot = Callable[..., Figure]

CONFUSION = [[8, 0, 2], [1, 20, 0], [0, 3, 4]]
NAMES = ["体育", "$oil$", "a class with a long name"]
BINS = [
    {"confidence": 0.45, "accuracy": 0.25, "texts": 4},
    {"confidence": 0.95, "accuracy": 1.0, "texts": 36},
]


def report_of(confusion: list[list[int]], names: list[str]) -> dict[str, Any]:
    classes = {name: {"texts": sum(row)} for name, row in zip(names, confusion, strict=True)}
    return {
        "classes": classes,
        "confusion": confusion,
        "reliability": {"before": BINS[:1], "after": BINS},
    }


def write(folder: Path, report: Any, name: str = "report.json") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(json.dumps(report), encoding="utf-8")
    return folder


def cells(figure: Figure) -> dict[tuple[int, int], Rectangle]:
    """The cells of a confusion matrix, by row and column."""
    found = [patch for patch in figure.axes[0].patches if isinstance(patch, Rectangle)]
    xs, ys = (sorted({getattr(cell, f"get_{axis}")() for cell in found}) for axis in "xy")
    return {(ys.index(cell.get_y()), xs.index(cell.get_x())): cell for cell in found}


def test_every_count_is_in_its_cell(plot: Plot, tmp_path: Path) -> None:
    figure = plot("confusion", write(tmp_path / "run", report_of(CONFUSION, NAMES)))
    (axes,) = figure.axes
    of_place = cells(figure)
    assert len(of_place) == 9
    texts = {text.get_text(): text for text in axes.texts}
    assert {"prediction", "label"} <= texts.keys()
    for (row, column), cell in of_place.items():
        count = CONFUSION[row][column]
        inside = [
            text.get_text()
            for text in axes.texts
            if cell.get_x() < text.get_position()[0] < cell.get_x() + cell.get_width()
            and cell.get_y() < text.get_position()[1] < cell.get_y() + cell.get_height()
        ]
        assert inside == ([str(count)] if count else [])
        *color, opacity = cell.get_facecolor()
        assert tuple(color) == pytest.approx(to_rgb(BLUE if row == column else ORANGE))
        assert opacity == pytest.approx(0.75 * np.sqrt(count / sum(CONFUSION[row])))
    for number, name in enumerate(("体育", "$oil$", "a class with a lo…")):
        horizontal, vertical = sorted(
            (text for text in axes.texts if text.get_text() == name),
            key=lambda text: text.get_rotation(),
        )
        row, column = of_place[number, 0], of_place[0, number]
        assert row.get_y() < horizontal.get_position()[1] < row.get_y() + row.get_height()
        assert horizontal.get_position()[0] < row.get_x()
        assert horizontal.get_horizontalalignment() == "right"
        x, y = vertical.get_position()
        assert column.get_x() < x < column.get_x() + column.get_width() and y < column.get_y()
        assert vertical.get_rotation() == 90 and not vertical.get_parse_math()
    assert axes.yaxis_inverted()


def test_the_shipped_model_has_a_matrix(plot: Plot) -> None:
    folder = PRETRAINED / "classification"
    expected = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))["test"]
    figure = plot("confusion", folder)
    shown = [text.get_text() for text in figure.axes[0].texts]
    counts = [str(count) for row in expected["confusion"] for count in row if count]
    assert sorted(text for text in shown if text.isdigit()) == sorted(counts)


@pytest.mark.filterwarnings("error")
def test_of_many_classes_the_largest_are_drawn(in_tmp: Path) -> None:
    count = MAX_CELLS + 1
    confusion = np.diag([1, *[2] * MAX_CELLS]).tolist()
    names = [f"class {i}" for i in range(count)]
    folder = write(in_tmp / "run", report_of(confusion, names))
    done = run("plot", "confusion", folder, "--output", "many.svg")
    assert done.exit_code == 0
    assert f"the {MAX_CELLS} largest of {count} classes" in done.stderr


def test_every_bin_is_at_its_confidence_and_accuracy(plot: Plot, tmp_path: Path) -> None:
    report = report_of(CONFUSION, NAMES)
    before, after = plot("reliability", write(tmp_path / "run", report)).axes
    assert before.get_title() == "Reliability diagram without temperature scaling"
    assert after.get_title() == "Reliability diagram with temperature scaling"
    for axes, bins in ((before, BINS[:1]), (after, BINS)):
        (frame,) = (patch for patch in axes.patches if isinstance(patch, Rectangle))
        circles = [patch for patch in axes.patches if isinstance(patch, Circle)]
        assert len(circles) == len(bins)
        for circle, expected in zip(circles, bins, strict=True):
            x, y = circle.center
            assert (x - frame.get_x()) / frame.get_width() == pytest.approx(expected["confidence"])
            height = (frame.get_y() + frame.get_height() - y) / frame.get_height()
            assert height == pytest.approx(expected["accuracy"])
        confidence = axes.get_title().replace("Reliability diagram", "confidence,")
        texts = {text.get_text() for text in axes.texts}
        assert texts == {"0%", "50%", "100%", confidence, "accuracy"}
    small, large = (patch.get_radius() for patch in after.patches if isinstance(patch, Circle))
    assert (small - 3) / (large - 3) == pytest.approx((4 / 36) ** 0.5)


def test_the_page_has_the_same_points() -> None:
    """The page and the picture are drawn from one list of shapes."""
    svg = reliability_charts(report_of(CONFUSION, NAMES))[1].svg()
    centers = re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)"', svg)
    left, top, side = 60, 14, 260
    assert np.array(centers, float) == pytest.approx(
        np.array([[left + side * b["confidence"], top + side * (1 - b["accuracy"])] for b in BINS])
    )


@pytest.mark.parametrize(
    ("kind", "content", "reason"),
    [
        ("confusion", [1], "not the report of a classifier"),
        ("confusion", {"classes": ["a"]}, "not the report of a classifier"),
        ("confusion", {"classes": {"a": {"texts": 1}}}, "too many classes"),
        ("confusion", report_of([[1]], ["a"]) | {"confusion": [[1, 2]]}, "not a matrix of counts"),
        ("confusion", report_of([[1]], ["a"]) | {"confusion": [["1"]]}, "not a matrix of counts"),
        ("confusion", {"classes": {"a": 1}, "confusion": [[1]]}, "not a matrix of counts"),
        ("reliability", {"classes": {}}, "has no reliability; `cli.py evaluate classification"),
        ("reliability", {"classes": {}, "reliability": {"before": []}}, "not a list of bins"),
        (
            "reliability",
            {"classes": {}, "reliability": {"before": [], "after": [{"texts": 3}]}},
            "not a list of bins",
        ),
    ],
)
def test_what_cannot_be_drawn_is_refused(
    kind: str, content: Any, reason: str, in_tmp: Path
) -> None:
    folder = write(in_tmp / "run", content)
    message = error_of(1, "plot", kind, folder)
    assert reason in message and "report.json" in message
    assert not Path(f"{kind}.png").exists()


def test_a_folder_without_a_report_is_named(in_tmp: Path) -> None:
    Path("empty").mkdir()
    assert "empty: there is no report.json in it" in error_of(1, "plot", "confusion", "empty")
    assert "none: cannot read: No such file" in error_of(1, "plot", "confusion", "none")
    write(in_tmp / "run", report_of(CONFUSION, NAMES))
    reason = "must end in .png, .svg, .pdf"
    assert reason in error_of(2, "plot", "confusion", "run", "--output", "a.jpg")
