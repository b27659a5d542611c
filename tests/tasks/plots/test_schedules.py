"""The picture of the learning-rate schedules: every line against its formula."""

from collections.abc import Callable

import numpy as np
import pytest
from matplotlib.figure import Figure

from tests.commands.command_line import error_of

Plot = Callable[..., Figure]


def lines_of_panel(axes) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    return {line.get_label(): line.get_data() for line in axes.get_lines()}


def noam(steps: np.ndarray, d_model: int, warmup: int) -> np.ndarray:
    return d_model**-0.5 * np.minimum(steps**-0.5, steps * warmup**-1.5)


def test_every_line_is_its_schedule(plot: Plot) -> None:
    figure = plot(
        *("schedule", "--d-model", "64", "--d-model", "16", "--warmup-steps", "100"),
        *("--steps", "2500", "--learning-rate", "0.5"),
    )
    paper, kinds = map(lines_of_panel, figure.axes)
    assert list(paper) == ["d_model = 64, 100 warmup steps", "d_model = 16, 100 warmup steps"]
    for d_model, (steps, rates) in zip((64, 16), paper.values(), strict=True):
        assert (min(steps), max(steps)) == (1, 2500)
        assert np.allclose(rates, noam(np.array(steps, float), d_model, 100))
    t = np.array(kinds["noam"][0], float)
    warm = np.minimum(1, t / 100)
    falling = 0.5 + 0.5 * np.cos(np.pi * np.clip((t - 100) / 2400, 0, 1))
    expected = {
        "noam": noam(t, 64, 100),
        "inverse_sqrt": 0.5 * np.where(t < 100, t / 100, np.sqrt(100 / t)),
        "cosine": 0.5 * np.where(t < 100, t / 100, falling),
        "constant": 0.5 * warm,
    }
    assert list(kinds) == list(expected)
    for name, rates in expected.items():
        assert np.allclose(kinds[name][1], rates), name
    for axes in figure.axes:
        assert (axes.get_xlabel(), axes.get_ylabel()) == ("step", "learning rate")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ("--d-model 0", "1<=x"),
        ("--learning-rate 0", "0<x"),
        ("--steps 1", "2<=x"),
        (" ".join(["--warmup-steps 5"] * 7), "at most 6 values"),
        ("--d-model 1 --d-model 2 --d-model 3 --warmup-steps 4 --warmup-steps 5 --warmup-steps 6",
         "9 lines"),
    ],
)  # fmt: skip
def test_what_cannot_be_drawn_is_refused(arguments: str, reason: str) -> None:
    assert reason in error_of(2, "plot", "schedule", *arguments.split())
