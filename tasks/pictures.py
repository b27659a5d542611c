"""Pictures of what a model does. Their fonts come with the program; matplotlib draws them."""

from __future__ import annotations

import unicodedata
import warnings
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from html import escape
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import ConfigError, UserError
from core.progress import log
from core.storage.files import atomic_write

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage
    from numpy.typing import ArrayLike

FORMATS = (".png", ".svg", ".pdf")

# Can be told apart by color-blind readers (Okabe and Ito 2008).
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
BLUE, ORANGE, *_ = COLORS

FONTS = Path(__file__).with_name("fonts")
"""The folder of the fonts and their licenses."""
SANS = ("DejaVu Sans", "Plot Hei")  # the first is a part of matplotlib
BRUSH = ("Couplet Brush", "Couplet Kai", *SANS)

PAPERS = {"fit": None, "a4": (8.27, 11.69), "square": (8.0, 8.0)}
"""The sizes of the paper that a couplet is drawn on, in inches; None: that of the couplet."""

_PAD_INCHES = 0.1  # around every panel
_PIXELS_PER_INCH = 120
# Equal pictures are equal files.
_METADATA: dict[str, dict[str, Any]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}


def check_picture(path: Path) -> None:
    """Raises a ConfigError if no picture can have the name ``path``."""
    if path.suffix.lower() not in FORMATS:
        raise ConfigError(f"{path}: the picture's name must end in {', '.join(FORMATS)}")


@contextmanager
def picture(path: str | Path, *, fonts: Sequence[str] = SANS) -> Iterator[Figure]:
    """Yields an empty figure, and saves it to ``path`` after the body, or raises a UserError.

    The families ``fonts`` are searched for a character, in this order. If none has it, it is drawn
    as a box, which is logged; on red paper (``BRUSH``) it is an error.
    """
    path = Path(path)
    check_picture(path)
    with _empty_figure(fonts) as figure:
        yield figure
        with atomic_write(path) as temporary:
            _save(figure, temporary, path.suffix[1:].lower())
            if missing := _missing_character(figure, fonts):
                reason = f"no font of this program has {missing!r}"
                if fonts is BRUSH:
                    raise UserError(f"{path}: {reason}")
                log(f"{reason}, which is drawn as a box")


def embedded(draw: Callable[[Figure], None], title: str) -> str:
    """Returns what ``draw`` draws as an element of a page, which needs no other file."""
    with _empty_figure(SANS) as figure:
        draw(figure)
        _save(figure, stream := BytesIO(), "png")
    data = b64encode(stream.getvalue()).decode()
    return f'<img alt="{escape(title)}" src="data:image/png;base64,{data}">'


def draw_matrix(
    axes: Axes, values: ArrayLike, rows: Sequence[str], columns: Sequence[str], **options: Any
) -> AxesImage:
    """Draws a matrix as colored cells, with a token beside each row and under each column.

    Args:
        options: those of ``Axes.imshow``, and ``fontsize``, that of the tokens in points.
    """
    size = options.pop("fontsize", 9.0)
    axes.set_xticks(range(len(columns)), columns, fontsize=size)
    for label in axes.get_xticklabels():
        # Chinese is written downwards with upright characters, other scripts are turned.
        text = label.get_text()
        is_upright = unicodedata.east_asian_width(text[:1] or " ") in "WF"
        label.set(text="\n".join(text) if is_upright else text, rotation=0 if is_upright else 90)
    axes.set_yticks(range(len(rows)), rows, fontsize=size)
    return axes.imshow(values, **options)


@contextmanager
def _empty_figure(fonts: Sequence[str]) -> Iterator[Figure]:
    """Yields a figure whose style and fonts do not depend on the machine and its settings."""
    from matplotlib import font_manager, style
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine
    from matplotlib.rcsetup import cycler

    known = {font.fname for font in font_manager.fontManager.ttflist}
    for file in sorted(map(str, FONTS.glob("*.ttf"))):
        if file not in known:
            font_manager.fontManager.addfont(file)
    own = {
        "font.family": list(fonts),
        "axes.prop_cycle": cycler(color=COLORS),
        "axes.axisbelow": True,
        "axes.titlesize": "medium",
        "grid.alpha": 0.3,
        "legend.fontsize": "small",
        "text.parse_math": False,  # dollar signs in a text are no formula
        "svg.hashsalt": "transformer-suite",
    }
    with style.context(["default", own]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # picture() says it in one line
        yield Figure(layout=ConstrainedLayoutEngine(w_pad=_PAD_INCHES, h_pad=_PAD_INCHES))


def _save(figure: Figure, target: Path | BytesIO, kind: str) -> None:
    figure.savefig(target, format=kind, dpi=_PIXELS_PER_INCH, metadata=_METADATA.get(kind))


def _missing_character(figure: Figure, fonts: Sequence[str]) -> str:
    """Returns the first character of a figure that no font has, or ""."""
    from matplotlib import font_manager
    from matplotlib.text import Text

    files = (font_manager.findfont(font) for font in fonts)
    known = {ord("\n")}.union(*(font_manager.get_font(file).get_charmap() for file in files))
    texts = "".join(text.get_text() for text in figure.findobj(Text))
    return next((character for character in texts if ord(character) not in known), "")
