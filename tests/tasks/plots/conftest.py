"""Pictures as the objects that they are drawn from."""

from collections.abc import Callable
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from tests.commands.command_line import lines_of


@pytest.fixture
def plot(monkeypatch: pytest.MonkeyPatch, in_tmp: Path) -> Callable[..., Figure]:
    """Runs ``plot KIND ...``, and gives back the figure that would have been saved."""
    saved: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, path, **options: saved.append(figure))

    def plot(kind: str, *arguments: object) -> Figure:
        assert lines_of("plot", kind, *arguments)[-1] == f"{kind}.png"
        (figure,) = saved
        saved.clear()
        return figure

    return plot
