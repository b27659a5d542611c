"""The picture of the masks: cells against the definition, and the tokens beside them."""

from collections.abc import Callable

import numpy as np
import pytest
from matplotlib.figure import Figure

from tests.commands.command_line import error_of

Plot = Callable[..., Figure]


def test_every_cell_is_as_defined(plot: Plot) -> None:
    figure = plot("masks", "春 dog $x", "--padding", "1")
    causal, padding, union = figure.axes
    t, s = np.indices((5, 5))
    assert np.array_equal(causal.images[0].get_array(), s > t)
    assert np.array_equal(padding.images[0].get_array(), s == 4)
    assert np.array_equal(union.images[0].get_array(), (s > t) | (s == 4))
    assert [axes.get_title() for axes in figure.axes] == [
        "causal mask: later positions",
        "padding mask",
        "union: blocked by either mask",
    ]
    for axes in figure.axes:
        for labels in (axes.get_xticklabels(), axes.get_yticklabels()):
            shown = [label.get_text() for label in labels]
            assert shown == ["<bos>", "春", "dog", "$x", "<pad>"]
            assert not any(label.get_parse_math() for label in labels)
        # Chinese characters lay on their sides.
        turned = [label.get_rotation() for label in axes.get_xticklabels()]
        assert turned == [90, 0, 90, 90, 90]
        assert (axes.get_xlabel(), axes.get_ylabel()) == ("key", "query")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("",), "the example must be a text of at least one word"),
        (("a " * 48,), "the example must be at most 50 tokens long, not 51"),
        (("a", "--padding", "-1"), "0<=x<=50"),
        (("a", "--output", "masks.gif"), "must end in .png, .svg, .pdf"),
    ],
)
def test_what_cannot_be_drawn_is_refused(arguments: tuple[str, ...], reason: str) -> None:
    assert reason in error_of(2, "plot", "masks", *arguments)
