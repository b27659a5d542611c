"""Pictures of a classifier's report: cells and points against the report's numbers."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from tasks.classification.charts import MAX_CELLS
from tasks.runs.checkpoint_folder import PRETRAINED
from tests.commands.command_line import error_of

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


def write(folder: Path, report: Any) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "report.json").write_text(json.dumps(report), encoding="utf-8")
    return folder


def test_every_count_is_in_its_cell(plot: Plot, tmp_path: Path) -> None:
    (axes,) = plot("confusion", write(tmp_path / "run", report_of(CONFUSION, NAMES))).axes
    shown = {text.get_position(): text.get_text() for text in axes.texts}
    for row, counts in enumerate(CONFUSION):
        for column, count in enumerate(counts):
            assert shown[column, row] == (str(count) if count else "")
    shares = np.array(CONFUSION) / np.sum(CONFUSION, axis=1, keepdims=True)
    assert np.allclose(axes.images[0].get_array(), shares)
    for labels in (axes.get_xticklabels(), axes.get_yticklabels()):
        assert [label.get_text() for label in labels] == ["体育", "$oil$", "a class with a lo…"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("prediction", "label")


def test_the_shipped_model_has_a_matrix(plot: Plot) -> None:
    folder = PRETRAINED / "classification"
    expected = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))["test"]
    shown = [text.get_text() for text in plot("confusion", folder).axes[0].texts]
    counts = [str(count) for row in expected["confusion"] for count in row if count]
    assert sorted(filter(None, shown)) == sorted(counts)


def test_of_many_classes_the_largest_are_drawn(plot: Plot, tmp_path: Path) -> None:
    count = MAX_CELLS + 1
    confusion = np.diag([1, *[2] * MAX_CELLS]).tolist()
    names = [f"class {i}" for i in range(count)]
    (axes,) = plot("confusion", write(tmp_path / "run", report_of(confusion, names))).axes
    assert f"({MAX_CELLS} largest of {count} classes)" in axes.get_title()
    assert [label.get_text() for label in axes.get_xticklabels()] == names[1:]


def test_every_bin_is_at_its_confidence_and_accuracy(plot: Plot, tmp_path: Path) -> None:
    figure = plot("reliability", write(tmp_path / "run", report_of(CONFUSION, NAMES)))
    curves, counts = figure.axes
    perfect = curves.get_lines()[0]
    assert np.array_equal(*perfect.get_data())
    of_name = {line.get_label(): line.get_xydata().tolist() for line in curves.get_lines()}
    points = [[b["confidence"], b["accuracy"]] for b in BINS]
    assert of_name["without temperature scaling"] == points[:1]
    assert of_name["with temperature scaling"] == points
    texts = [line.get_xydata().tolist() for line in counts.get_lines()]
    assert texts == [[[0.45, 4]], [[0.45, 4], [0.95, 36]]]


@pytest.mark.parametrize(
    ("kind", "content", "reason"),
    [
        ("confusion", [1], "not the report of a classifier"),
        ("confusion", {"classes": {"a": {"texts": 1}}}, "too many classes"),
        ("confusion", report_of([[1]], ["a"]) | {"confusion": [[1, 2]]}, "damaged"),
        ("confusion", report_of([[1]], ["a"]) | {"confusion": [["1"]]}, "damaged"),
        ("reliability", {"classes": {}}, "has no reliability: `cli.py evaluate classification"),
        ("reliability", {"classes": {}, "reliability": {"before": [{}]}}, "damaged"),
    ],
)
def test_what_cannot_be_drawn_is_refused(
    kind: str, content: Any, reason: str, in_tmp: Path
) -> None:
    message = error_of(1, "plot", kind, write(in_tmp / "run", content))
    assert reason in message and "report.json" in message
    assert not Path(f"{kind}.png").exists()


def test_a_folder_without_a_report_is_named(in_tmp: Path) -> None:
    Path("empty").mkdir()
    assert "empty: there is no report.json in it" in error_of(1, "plot", "confusion", "empty")
    assert "none: cannot read: No such file" in error_of(1, "plot", "confusion", "none")
