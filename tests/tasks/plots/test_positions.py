"""The picture of positions: every panel against the formulas of the papers."""

import math
from collections.abc import Callable

import numpy as np
from matplotlib.figure import Figure

from tests.commands.command_line import error_of

Plot = Callable[..., Figure]

D, K, L = 12, 8, 40


def panels(figure: Figure) -> list:
    """The four panels, without the bars of colors."""
    return [axes for axes in figure.axes if axes.get_title()]


def points(axes, number: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The x and y of one line."""
    return tuple(np.asarray(data) for data in axes.get_lines()[number].get_data())


def cosine(distance: np.ndarray, width: int) -> np.ndarray:
    """The mean of cos(distance / 10000^(2i / width))."""
    rates = 10000.0 ** (-np.arange(0, width, 2) / width)
    return np.cos(np.outer(distance, rates)).mean(axis=1)


def test_the_sinusoids_and_their_products(plot: Plot) -> None:
    figure = plot("positions", "--d-model", D, "--head-dim", K, "--length", L)
    table, products, by_distance, *_ = panels(figure)
    expected = [
        [
            (math.cos if d % 2 else math.sin)(pos / 10000 ** (d // 2 * 2 / D))
            for d in range(D)
        ]
        for pos in range(L)
    ]  # fmt: skip
    assert np.allclose(table.images[0].get_array(), expected, atol=1e-5)
    assert table.get_ylabel() == "position"
    pos = np.arange(L)
    matrix = cosine((pos[:, None] - pos).flatten(), D).reshape(L, L)
    assert np.allclose(products.images[0].get_array(), matrix, atol=1e-5)
    for number, width in enumerate((D, 4 * D)):
        distances, shown = points(by_distance, number)
        assert distances.tolist() == list(range(1 - L, L))
        assert np.allclose(shown, cosine(distances, width), atol=1e-5)
    legend = [text.get_text() for text in by_distance.get_legend().get_texts()]
    assert legend == [f"d_model = {D}", f"d_model = {4 * D}"]


def test_rotary_scores_and_the_bound_of_the_paper(plot: Plot) -> None:
    rotary = panels(plot("positions", "--d-model", D, "--head-dim", K, "--length", L))[3]
    distances, scores = points(rotary)
    assert distances.tolist() == list(range(L))
    assert np.allclose(scores, cosine(distances, K), atol=1e-5)
    turned = [[np.exp(1j * d * 10000 ** (-2 * i / K)) for i in range(K // 2)] for d in range(L)]
    bound = np.abs(np.cumsum(turned, axis=1)).mean(axis=1)
    assert np.allclose(points(rotary, 1)[1], bound / bound[0], atol=1e-5)


def test_an_odd_width_is_refused() -> None:
    assert "d_model must be even, not 7" in error_of(2, "plot", "positions", "--d-model", "7")
    assert "head_dim must be even, not 5" in error_of(2, "plot", "positions", "--head-dim", "5")
