"""A couplet as it hangs beside a door: written downwards, the first line on the right."""

from __future__ import annotations

import unicodedata
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import UserError
from tasks.pictures import INSTALL_FONT, missing_characters, picture

if TYPE_CHECKING:
    from matplotlib.patches import Rectangle

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
    """Draws the couplet on red paper.

    Raises:
        ConfigError, UserError: ``path`` cannot be a picture or cannot be written, matplotlib is not
            installed, no font has a character, or a line is too long.
    """
    if len(first) > _LONGEST:
        raise UserError(f"{path}: a line of a picture has at most {_LONGEST} characters")
    if missing := missing_characters([first + second + (banner or "")])[0]:
        raise UserError(f"{path}: no font here has {missing!r}: {INSTALL_FONT}")
    length = max(len(first), len(second))
    columns, top = 6.0, 2.5 if banner else 1.0
    with picture(path) as figure:
        figure.set_layout_engine("none")
        figure.set_size_inches(0.55 * columns, 0.55 * (length + top + 1.5))
        axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
        axes.set_xlim(0, columns)
        axes.set_ylim(length + top + 1.5, 0)
        axes.axis("off")

        def strip(text: str, x: float, y: float, dx: float, dy: float) -> None:
            """Draws paper with ``text``; each character is ``(dx, dy)`` from the one before."""
            width, height = 1.4 + abs(dx) * (len(text) - 1), 1.4 + dy * (len(text) - 1)
            left = min(x, x + dx * (len(text) - 1)) - 0.7
            axes.add_patch(_paper(left, y - 0.7, width, height))
            for i, character in enumerate(text):
                place = x + i * dx, y + i * dy
                axes.text(*place, character, size=24, color=_INK, ha="center", va="center")

        strip(first, 4.9, top + 0.7, 0.0, 1.0)
        strip(second, 1.1, top + 0.7, 0.0, 1.0)
        if banner:
            strip(banner, 4.5, 1.1, -1.0, 0.0)


def _paper(x: float, y: float, width: float, height: float) -> Rectangle:
    from matplotlib import patches

    return patches.Rectangle((x, y), width, height, facecolor=_RED, edgecolor=_GOLD, linewidth=2)


def _wide(character: str) -> str:
    """Returns ``character`` as wide as a Chinese one."""
    if not character:
        return _SPACE
    return character if unicodedata.east_asian_width(character) in "WF" else f"{character} "
