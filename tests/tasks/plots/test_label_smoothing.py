"""The picture of label smoothing: targets and losses against the formulas of the paper."""

from collections.abc import Callable

import numpy as np
from matplotlib.figure import Figure

from tests.commands.command_line import error_of

Plot = Callable[..., Figure]


def test_targets_and_losses_are_those_of_the_formulas(plot: Plot) -> None:
    v, values = 4, (0.0, 0.2)
    left, right = plot(
        "label-smoothing", "--vocab-size", v, *(f"--smoothing={e}" for e in values)
    ).axes
    assert len(left.containers) == 2
    for e, bars in zip(values, left.containers, strict=True):
        heights = [bar.get_height() for bar in bars]
        assert np.allclose(heights, [1 - e + e / v, *[e / v] * (v - 1)], atol=1e-6)
        assert bars.get_label() == f"e = {e:g}"
    lines = [line for line in right.get_lines() if line.get_marker() == "None"]
    for e, line in zip(values, lines, strict=True):
        p, loss = map(np.asarray, line.get_data())
        expected = -(1 - e + e / v) * np.log(p) - (v - 1) * e / v * np.log((1 - p) / (v - 1))
        assert np.allclose(loss, expected, rtol=1e-4, atol=1e-5)
    (dot,) = (line for line in right.get_lines() if line.get_marker() == "o")
    x, y = (float(data[0]) for data in dot.get_data())
    assert abs(x - (1 - 0.2 + 0.2 / v)) < 1e-6
    assert abs(y - lines[1].get_ydata().min()) < 1e-3
    assert dot.get_color() == lines[1].get_color()
    assert right.get_ylabel() == "loss (nats)"


def test_a_smoothing_of_one_is_refused() -> None:
    assert "0<=x<1" in error_of(2, "plot", "label-smoothing", "--smoothing", "1")
