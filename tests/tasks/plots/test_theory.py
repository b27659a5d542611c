"""Pictures of the theory: every cell and every line against the formulas of the papers."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from tests.commands.command_line import error_of

Plot = Callable[..., Figure]

D, K, L = 12, 8, 40


def points(axes: Any, number: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The x and y of one line."""
    return tuple(np.asarray(data) for data in axes.get_lines()[number].get_data())


def test_every_cell_of_a_mask_is_as_defined(plot: Plot) -> None:
    figure = plot("masks", "春 dog $x", "--padding", "1")
    t, s = np.indices((5, 5))
    for axes, expected in zip(figure.axes, (s > t, s == 4, (s > t) | (s == 4)), strict=True):
        assert np.array_equal(axes.images[0].get_array(), expected)
        for labels in (axes.get_xticklabels(), axes.get_yticklabels()):
            shown = [label.get_text() for label in labels]
            assert shown == ["<bos>", "春", "dog", "$x", "<pad>"]
            assert not any(label.get_parse_math() for label in labels)
        # Chinese characters lay on their sides.
        turned = [label.get_rotation() for label in axes.get_xticklabels()]
        assert turned == [90, 0, 90, 90, 90]
        assert (axes.get_xlabel(), axes.get_ylabel()) == ("key", "query")


def cosine(distance: np.ndarray, width: int) -> np.ndarray:
    """The mean of cos(distance / 10000^(2i / width))."""
    rates = 10000.0 ** (-np.arange(0, width, 2) / width)
    return np.cos(np.outer(distance, rates)).mean(axis=1)


def test_positions_and_their_products(plot: Plot) -> None:
    figure = plot("positions", "--d-model", D, "--head-dim", K, "--length", L)
    table, products, by_distance, rotary = [axes for axes in figure.axes if axes.get_title()]
    expected = [
        [(math.cos if d % 2 else math.sin)(pos / 10000 ** (d // 2 * 2 / D)) for d in range(D)]
        for pos in range(L)
    ]
    assert np.allclose(table.images[0].get_array(), expected, atol=1e-5)
    pos = np.arange(L)
    matrix = cosine((pos[:, None] - pos).flatten(), D).reshape(L, L)
    assert np.allclose(products.images[0].get_array(), matrix, atol=1e-5)
    for number, width in enumerate((D, 4 * D)):
        distances, shown = points(by_distance, number)
        assert distances.tolist() == list(range(1 - L, L))
        assert np.allclose(shown, cosine(distances, width), atol=1e-5)
    distances, scores = points(rotary)
    assert distances.tolist() == list(range(L))
    assert np.allclose(scores, cosine(distances, K), atol=1e-5)
    turned = [[np.exp(1j * d * 10000 ** (-2 * i / K)) for i in range(K // 2)] for d in range(L)]
    bound = np.abs(np.cumsum(turned, axis=1)).mean(axis=1)
    assert np.allclose(points(rotary, 1)[1], bound / bound[0], atol=1e-5)


def noam(steps: np.ndarray, d_model: int, warmup: int) -> np.ndarray:
    return d_model**-0.5 * np.minimum(steps**-0.5, steps * warmup**-1.5)


def test_every_line_is_its_schedule(plot: Plot) -> None:
    figure = plot(
        *("schedule", "--d-model", "64", "--d-model", "16", "--warmup-steps", "100"),
        *("--steps", "2500", "--learning-rate", "0.5"),
    )
    paper, kinds = ({x.get_label(): x.get_data() for x in a.get_lines()} for a in figure.axes)
    assert list(paper) == ["d_model = 64, 100 warmup steps", "d_model = 16, 100 warmup steps"]
    for d_model, (steps, rates) in zip((64, 16), paper.values(), strict=True):
        assert (min(steps), max(steps)) == (1, 2500)
        assert np.allclose(rates, noam(np.array(steps, float), d_model, 100))
    t = np.array(kinds["noam"][0], float)
    falling = 0.5 + 0.5 * np.cos(np.pi * np.clip((t - 100) / 2400, 0, 1))
    expected = {
        "noam": noam(t, 64, 100),
        "inverse_sqrt": 0.5 * np.where(t < 100, t / 100, np.sqrt(100 / t)),
        "cosine": 0.5 * np.where(t < 100, t / 100, falling),
        "constant": 0.5 * np.minimum(1, t / 100),
    }
    assert list(kinds) == list(expected)
    for name, rates in expected.items():
        assert np.allclose(kinds[name][1], rates), name


def test_smoothed_targets_and_losses(plot: Plot) -> None:
    v, values = 4, (0.0, 0.2)
    command = ("label-smoothing", "--vocab-size", v, *(f"--smoothing={e}" for e in values))
    left, right = plot(*command).axes
    for e, bars in zip(values, left.containers, strict=True):
        heights = [bar.get_height() for bar in bars]
        assert np.allclose(heights, [1 - e + e / v, *[e / v] * (v - 1)], atol=1e-6)
    lines = [line for line in right.get_lines() if line.get_marker() == "None"]
    for e, line in zip(values, lines, strict=True):
        p, loss = map(np.asarray, line.get_data())
        expected = -(1 - e + e / v) * np.log(p) - (v - 1) * e / v * np.log((1 - p) / (v - 1))
        assert np.allclose(loss, expected, rtol=1e-4, atol=1e-5)
    (dot,) = (line for line in right.get_lines() if line.get_marker() == "o")
    x, y = (float(data[0]) for data in dot.get_data())
    assert abs(x - (1 - 0.2 + 0.2 / v)) < 1e-6
    assert abs(y - lines[1].get_ydata().min()) < 1e-3


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("masks", ""), "the example must be a text of at least one word"),
        (("masks", "a " * 48), "the example must be at most 50 tokens long, not 51"),
        (("masks", "a", "--padding", "-1"), "0<=x<=50"),
        (("masks", "a", "--output", "masks.gif"), "must end in .png, .svg, .pdf"),
        (("masks", "a", "--output", "none/masks.png"), "there is no folder none"),
        (("positions", "--d-model", 7), "d_model must be even, not 7"),
        (("positions", "--head-dim", 5), "head_dim must be even, not 5"),
        (("schedule", "--d-model", 0), "1<=x"),
        (("schedule", "--learning-rate", 0), "0<x"),
        (("schedule", "--steps", 1), "2<=x"),
        (("schedule", *["--warmup-steps", 5] * 7), "at most 7 lines"),
        (("schedule", *["--d-model", 1] * 3, *["--warmup-steps", 4] * 3), "9 lines"),
        (("label-smoothing", "--smoothing", 1), "0<=x<1"),
    ],
)
def test_what_cannot_be_drawn_is_refused(arguments: tuple[object, ...], reason: str) -> None:
    assert reason in error_of(2, "plot", *arguments)
