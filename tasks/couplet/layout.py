"""A couplet as it hangs beside a door: written downwards, the first line right, under a banner."""

import unicodedata
from collections import Counter
from functools import cache
from itertools import chain, zip_longest
from math import log
from pathlib import Path

from core.errors import UserError
from tasks.couplet.script import is_traditional, simplified, traditional
from tasks.couplet.tones import read_words
from tasks.pictures import BRUSH, PAPERS, picture

_SPACE = "\N{IDEOGRAPHIC SPACE}"
_LONGEST = 60
_FEWEST_SHARED = 2
_RED, _GOLD, _INK = "#c3272b", "#f3c969", "#1b1410"
_CELL = 0.55  # inches of a character on paper that has the size of the couplet


def banner(first: str, second: str) -> str | None:
    """Returns the banner (横批) whose subject has most in common with the couplet.

    It is a customary phrase of four characters. Subjects are lists of characters
    (``words/banners.txt``). A character that they share counts as much as it is rare in subjects
    (its inverse document frequency), and one that the banner repeats counts against it. Returns
    None if no subject shares two characters, and more than its banner repeats.
    """
    characters, rarity = set(simplified(first + second)), _rarity()
    scores = [
        (sum(rarity[c] for c in shared) - sum(rarity.get(c, 0.0) for c in repeated), phrase)
        for phrase, subject in _banners()
        if len(shared := characters & subject) >= _FEWEST_SHARED
        and len(shared) > len(repeated := characters & set(phrase))
    ]
    _, phrase = max(scores, key=lambda scored: scored[0], default=(0.0, None))
    return traditional(phrase) if phrase and is_traditional(first + second) else phrase


@cache
def _banners() -> list[tuple[str, frozenset[str]]]:
    rows = (line.split(" ") for line in read_words("banners.txt"))
    return [(phrase, frozenset(subject)) for phrase, subject in rows]


@cache
def _rarity() -> dict[str, float]:
    """The logarithm of how many times fewer subjects have a character than there are."""
    subjects = [subject for _, subject in _banners()]
    counts = Counter(chain.from_iterable(subjects))
    return {character: log(len(subjects) / count) for character, count in counts.items()}


def vertical(first: str, second: str, banner: str | None = None) -> str:
    """Returns the couplet in two columns, each line of text with its end.

    The banner above them is read from right to left, as the columns are.
    """
    both = zip_longest(first, second, fillvalue="")
    rows = [f"{_wide(s)}{_SPACE * 2}{_wide(f)}" for f, s in both]
    top = [banner[::-1], ""] if banner else []
    return "".join(f"{row.rstrip()}\n" for row in [*top, *rows])


def draw_couplet(
    path: Path, first: str, second: str, banner: str | None = None, *, paper: str = "fit"
) -> None:
    """Draws the couplet with a brush on red strips, in the middle of a paper of ``PAPERS``.

    Raises a UserError if a line is too long, if no font has a character, or for a wrong ``path``.
    """
    if len(first) > _LONGEST:
        raise UserError(f"{path}: a line of a picture has at most {_LONGEST} characters")
    length = max(len(first), len(second))
    width, top = 6.0, 2.5 if banner else 1.0
    height = length + top + 1.5
    sheet = PAPERS[paper] or (_CELL * width, _CELL * height)
    cell = min(sheet[0] / width, sheet[1] / height)
    left, above = (sheet[0] / cell - width) / 2, (sheet[1] / cell - height) / 2
    with picture(path, fonts=BRUSH) as figure:
        from matplotlib.patches import Rectangle

        figure.set_layout_engine("none")
        figure.set_size_inches(*sheet)
        axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
        axes.set(xlim=(-left, width + left), ylim=(height + above, -above))
        axes.axis("off")

        def strip(text: str, x: float, y: float, dx: float, dy: float) -> None:
            """Draws paper with ``text``; each character is ``(dx, dy)`` from the one before."""
            end = x + dx * (len(text) - 1)
            sides = 1.4 + abs(end - x), 1.4 + dy * (len(text) - 1)
            corner = min(x, end) - 0.7, y - 0.7
            axes.add_patch(Rectangle(corner, *sides, facecolor=_RED, edgecolor=_GOLD, linewidth=2))
            size = 32 * cell / _CELL
            for i, character in enumerate(text):
                place = x + i * dx, y + i * dy
                axes.text(*place, character, size=size, color=_INK, ha="center", va="center")

        strip(first, 4.9, top + 0.7, 0.0, 1.0)
        strip(second, 1.1, top + 0.7, 0.0, 1.0)
        if banner:
            strip(banner, 4.5, 1.1, -1.0, 0.0)


def _wide(character: str) -> str:
    """Returns ``character`` as wide as a Chinese one."""
    if not character:
        return _SPACE
    return character if unicodedata.east_asian_width(character) in "WF" else f"{character} "
