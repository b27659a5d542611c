"""A couplet as it hangs beside a door: written downwards, the first line on the right."""

from __future__ import annotations

import unicodedata
from itertools import zip_longest
from pathlib import Path

from core.errors import UserError
from tasks.pictures import BRUSH, picture

_SPACE = "\N{IDEOGRAPHIC SPACE}"
_LONGEST = 60
_RED, _GOLD, _INK = "#c3272b", "#f3c969", "#1b1410"


def vertical(first: str, second: str, banner: str | None = None) -> str:
    """Returns the couplet in two columns, each line of text with its end.

    The banner above them is read from right to left, as the columns are.
    """
    rows = [
        f"{_wide(s)}{_SPACE * 2}{_wide(f)}" for f, s in zip_longest(first, second, fillvalue="")
    ]
    top = [banner[::-1], ""] if banner else []
    return "".join(f"{row.rstrip()}\n" for row in [*top, *rows])


def draw_couplet(path: Path, first: str, second: str, banner: str | None = None) -> None:
    """Draws the couplet on red paper, with a brush.

    Raises:
        ConfigError, UserError: ``path`` cannot be a picture or cannot be written, no font has a
            character, or a line is too long.
    """
    if len(first) > _LONGEST:
        raise UserError(f"{path}: a line of a picture has at most {_LONGEST} characters")
    length = max(len(first), len(second))
    width, top = 6.0, 2.5 if banner else 1.0
    height = length + top + 1.5
    with picture(path, fonts=BRUSH) as figure:
        from matplotlib.patches import Rectangle

        figure.set_layout_engine("none")
        figure.set_size_inches(0.55 * width, 0.55 * height)
        axes = figure.add_axes((0.0, 0.0, 1.0, 1.0), xlim=(0, width), ylim=(height, 0))
        axes.axis("off")

        def strip(text: str, x: float, y: float, dx: float, dy: float) -> None:
            """Draws paper with ``text``; each character is ``(dx, dy)`` from the one before."""
            end = x + dx * (len(text) - 1)
            sides = 1.4 + abs(end - x), 1.4 + dy * (len(text) - 1)
            corner = min(x, end) - 0.7, y - 0.7
            axes.add_patch(Rectangle(corner, *sides, facecolor=_RED, edgecolor=_GOLD, linewidth=2))
            for i, character in enumerate(text):
                place = x + i * dx, y + i * dy
                axes.text(*place, character, size=32, color=_INK, ha="center", va="center")

        strip(first, 4.9, top + 0.7, 0.0, 1.0)
        strip(second, 1.1, top + 0.7, 0.0, 1.0)
        if banner:
            strip(banner, 4.5, 1.1, -1.0, 0.0)


def _wide(character: str) -> str:
    """Returns ``character`` as wide as a Chinese one."""
    if not character:
        return _SPACE
    return character if unicodedata.east_asian_width(character) in "WF" else f"{character} "
