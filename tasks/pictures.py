"""Pictures of what a model does, with fonts that have Chinese characters; matplotlib draws them."""

from __future__ import annotations

import importlib.util
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
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

_PAD_INCHES = 0.1  # around every panel

INSTALL_FONT = "install a font that has it, for example the package fonts-noto-cjk"

# Most systems have one of these; matplotlib's own font has no Chinese characters.
_CHINESE_FONTS = (
    *("Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans SC"),
    *("Source Han Sans SC", "Source Han Sans CN", "Droid Sans Fallback"),
    *("WenQuanYi Micro Hei", "WenQuanYi Zen Hei", "Microsoft YaHei", "SimHei"),
    *("PingFang SC", "Heiti SC", "Hiragino Sans GB", "Arial Unicode MS"),
)


def check_picture(path: Path) -> None:
    """Checks that a picture can be drawn under the name ``path``.

    Raises:
        ConfigError: its suffix is not in ``FORMATS``.
        UserError: matplotlib is not installed.
    """
    if path.suffix.lower() not in FORMATS:
        raise ConfigError(f"{path}: the picture's name must end in {', '.join(FORMATS)}")
    if importlib.util.find_spec("matplotlib") is None:
        raise UserError("the package matplotlib is needed: pip install 'transformer-suite[plot]'")


@contextmanager
def picture(path: Path) -> Iterator[Figure]:
    """Yields an empty figure, and saves it to ``path`` after the body.

    Raises:
        ConfigError, UserError: as :func:`check_picture`; or ``path`` cannot be written.
    """
    check_picture(path)
    from matplotlib import style
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine
    from matplotlib.rcsetup import cycler

    # The default style makes the picture independent of the user's settings.
    own = {"font.family": fonts(), "axes.prop_cycle": cycler(color=COLORS)}
    with style.context(["default", own]):
        figure = Figure(layout=ConstrainedLayoutEngine(w_pad=_PAD_INCHES, h_pad=_PAD_INCHES))
        yield figure
        with atomic_write(path) as temporary:
            figure.savefig(temporary, format=path.suffix[1:].lower(), dpi=120)


def draw_matrix(
    axes: Axes,
    values: ArrayLike,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    font_size: float = 9.0,
    **options: Any,
) -> AxesImage:
    """Draws a matrix as colored cells, with a token beside each row and under each column.

    Args:
        font_size: of the tokens, in points.
        options: those of ``Axes.imshow``.
    """
    # Dollar signs in a token are no formula.
    labels: dict[str, Any] = {"parse_math": False, "fontsize": font_size}
    # Chinese is written downwards with upright characters, other scripts are turned.
    is_upright = [unicodedata.east_asian_width(text[:1] or " ") in "WF" for text in columns]
    shown = ["\n".join(t) if is_so else t for t, is_so in zip(columns, is_upright, strict=True)]
    axes.set_xticks(range(len(columns)), shown, **labels)
    for label, is_so in zip(axes.get_xticklabels(), is_upright, strict=True):
        label.set_rotation(0 if is_so else 90)
    axes.set_yticks(range(len(rows)), rows, **labels)
    return axes.imshow(values, **options)


def fonts() -> list[str]:
    """Returns the installed fonts, in the order in which they are searched for a character."""
    from matplotlib import font_manager

    if not set(_CHINESE_FONTS) & set(font_manager.get_font_names()):
        _add_new_fonts()
    installed = set(font_manager.get_font_names())
    return ["DejaVu Sans", *(name for name in _CHINESE_FONTS if name in installed)]


@cache
def _add_new_fonts() -> None:
    """Adds the fonts that were installed after matplotlib saved its list of fonts."""
    from matplotlib import font_manager

    known = {font.fname for font in font_manager.fontManager.ttflist}
    for path in set(font_manager.findSystemFonts()) - known:
        with suppress(OSError, RuntimeError):  # no font that matplotlib can read
            font_manager.fontManager.addfont(path)


def missing_characters(texts: Sequence[str]) -> list[str]:
    """Returns for each text its first character that no font has; "" if the fonts have all."""
    from matplotlib import font_manager

    known: set[int] = set()
    for font in fonts():
        known.update(font_manager.get_font(font_manager.findfont(font)).get_charmap())
    return [next((c for c in text if ord(c) not in known), "") for text in texts]


def warn_about_boxes(texts: Sequence[str]) -> None:
    """Logs one line if a character of ``texts`` will be drawn as an empty box."""
    if missing := "".join(missing_characters(texts)):
        log(f"no font here has {missing[0]!r}, which is drawn as a box: {INSTALL_FONT}")
