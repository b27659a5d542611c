"""The charts of a classifier's report: the page shows them as SVG, and files have them as pictures.

A chart is a list of shapes, so that both have the same drawing. Coordinates are pixels, from the
upper left corner.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.pictures import BLUE, ORANGE, picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_CELLS = 30
"""The most classes in a confusion matrix."""

_CELL, _PLOT = 44, 260
_MAX_NAME, _LETTER = 18, 8  # characters of a name, and pixels of one
_FONT_SIZE = 12
_PER_INCH = 80  # pixels
_ALIGNMENTS = {"start": "left", "middle": "center", "end": "right"}


@dataclass(frozen=True, kw_only=True)
class Rectangle:
    """A rectangle; ``opacity`` is that of the fill."""

    x: float
    y: float
    width: float
    height: float
    fill: str = "none"
    opacity: float = 1.0
    stroke: str = "#999"

    def svg(self) -> str:
        return (
            f'<rect x="{self.x}" y="{self.y}" width="{self.width}" height="{self.height}" '
            f'fill="{self.fill}" fill-opacity="{self.opacity:.3f}" stroke="{self.stroke}"/>'
        )

    def draw(self, axes: Axes) -> None:
        from matplotlib import colors, patches

        fill = "none" if self.fill == "none" else colors.to_rgba(self.fill, self.opacity)
        place = (self.x, self.y)
        axes.add_patch(patches.Rectangle(place, self.width, self.height, fc=fill, ec=self.stroke))


@dataclass(frozen=True, kw_only=True)
class Circle:
    """A circle with a text that the page shows under the mouse."""

    x: float
    y: float
    radius: float
    title: str

    def svg(self) -> str:
        return (
            f'<circle cx="{self.x:.1f}" cy="{self.y:.1f}" r="{self.radius:.1f}" fill="{BLUE}" '
            f'fill-opacity="0.7"><title>{escape(self.title)}</title></circle>'
        )

    def draw(self, axes: Axes) -> None:
        from matplotlib import patches

        axes.add_patch(patches.Circle((self.x, self.y), self.radius, fc=BLUE, alpha=0.7))


@dataclass(frozen=True, kw_only=True)
class Line:
    """A dashed line from (x0, y0) to (x1, y1)."""

    x0: float
    y0: float
    x1: float
    y1: float

    def svg(self) -> str:
        ends = f'x1="{self.x0}" y1="{self.y0}" x2="{self.x1}" y2="{self.y1}"'
        return f'<line {ends} stroke="#999" stroke-dasharray="4"/>'

    def draw(self, axes: Axes) -> None:
        axes.plot([self.x0, self.x1], [self.y0, self.y1], color="#999", linestyle="--")


@dataclass(frozen=True, kw_only=True)
class Text:
    """A text that begins, ends or has its middle at (x, y); ``turned``: written upward."""

    x: float
    y: float
    text: str
    anchor: str
    turned: bool = False

    def svg(self) -> str:
        turn = f' transform="rotate(-90 {self.x} {self.y})"' if self.turned else ""
        place = f'x="{self.x}" y="{self.y}" text-anchor="{self.anchor}"'
        return f"<text {place}{turn}>{escape(self.text)}</text>"

    def draw(self, axes: Axes) -> None:
        axes.text(
            self.x,
            self.y,
            self.text,
            ha=_ALIGNMENTS[self.anchor],
            va="baseline",
            rotation=90 if self.turned else 0,
            rotation_mode="anchor",
            fontsize=_FONT_SIZE * 72 / _PER_INCH,
        )


@dataclass(frozen=True)
class Chart:
    """Shapes on an area of ``width`` times ``height``."""

    title: str
    width: int
    height: int
    shapes: Sequence[Rectangle | Circle | Line | Text]

    def svg(self) -> str:
        """Returns the chart as an element of a page."""
        size = f'viewBox="0 0 {self.width} {self.height}" width="{self.width}"'
        head = f'<svg {size} role="img"><title>{escape(self.title)}</title>'
        return "\n".join([head, *(shape.svg() for shape in self.shapes), "</svg>"])


def draw_charts(path: str | Path, charts: Sequence[Chart]) -> None:
    """Draws charts side by side.

    Args:
        path: the picture; its suffix is .png, .svg or .pdf.

    Raises:
        ConfigError: another suffix.
        UserError: the picture cannot be written.
    """
    with picture(Path(path)) as figure:
        width, height = sum(chart.width for chart in charts), max(c.height for c in charts)
        top = 30  # for the titles
        figure.set_layout_engine("none")  # the places below are exact
        figure.set_size_inches(width / _PER_INCH, (height + top) / _PER_INCH)
        left = 0
        for chart in charts:
            share = height / (height + top)
            axes = figure.add_axes((left / width, 0, chart.width / width, share))
            left += chart.width
            axes.set_xlim(0, chart.width)
            axes.set_ylim(height, 0)  # y points downward
            axes.set_axis_off()
            axes.set_title(chart.title, fontsize="medium")
            for shape in chart.shapes:
                shape.draw(axes)


def confusion_chart(report: Mapping[str, Any]) -> Chart:
    """Returns the confusion matrix of the ``MAX_CELLS`` classes with most texts.

    The color of a cell shows its share of the row: blue for right answers, orange for mistakes.
    """
    classes, confusion = report["classes"], report["confusion"]
    names = list(classes)
    largest = sorted(names, key=lambda name: -classes[name]["texts"])[:MAX_CELLS]
    numbers = sorted(map(names.index, largest))
    shown = [_shortened(names[i]) for i in numbers]
    margin = 44 + _LETTER * max(map(len, shown))
    side = margin + _CELL * len(shown) + 10
    center = margin + _CELL * len(shown) / 2
    shapes: list[Rectangle | Circle | Line | Text] = [
        Text(x=center, y=16, text="prediction", anchor="middle"),
        Text(x=16, y=center, text="label", anchor="middle", turned=True),
    ]
    for row, i in enumerate(numbers):
        y, total = margin + row * _CELL, max(1, sum(confusion[i]))
        x = margin + row * _CELL + 26
        shapes.append(Text(x=margin - 6, y=y + 26, text=shown[row], anchor="end"))
        shapes.append(Text(x=x, y=margin - 6, text=shown[row], anchor="start", turned=True))
        for column, j in enumerate(numbers):
            count, x = confusion[i][j], margin + column * _CELL
            cell = Rectangle(
                x=x, y=y, width=_CELL, height=_CELL,
                fill=BLUE if i == j else ORANGE, opacity=0.75 * (count / total) ** 0.5,
                stroke="#ddd",
            )  # fmt: skip
            shapes.append(cell)
            if count:
                text = Text(x=x + _CELL / 2, y=y + 26, text=str(count), anchor="middle")
                shapes.append(text)
    return Chart("Confusion matrix: number of texts", side, side, shapes)


def reliability_chart(bins: Sequence[Mapping[str, float]], title: str) -> Chart:
    """Returns a reliability diagram (Guo et al. 2017, figure 1) with a point for each bin.

    The area of a point grows with the number of its texts.
    """
    left, top, most = 60, 14, max((b["texts"] for b in bins), default=1)

    def place(confidence: float, accuracy: float) -> dict[str, float]:
        return {"x": left + _PLOT * confidence, "y": top + _PLOT * (1 - accuracy)}

    bottom = top + _PLOT
    shapes: list[Rectangle | Circle | Line | Text] = [
        Rectangle(x=left, y=top, width=_PLOT, height=_PLOT),
        Line(x0=left, y0=bottom, x1=left + _PLOT, y1=top),
    ]
    for b in bins:
        radius = 3 + 9 * (b["texts"] / most) ** 0.5
        title_of_bin = f"{int(b['texts'])} texts"
        where = place(b["confidence"], b["accuracy"])
        shapes.append(Circle(**where, radius=radius, title=title_of_bin))
    for tick in (0.0, 0.5, 1.0):
        x, y = place(tick, tick).values()
        text = f"{100 * tick:.0f}%"
        shapes.append(Text(x=x, y=bottom + 16, text=text, anchor="middle"))
        shapes.append(Text(x=left - 4, y=y + 4, text=text, anchor="end"))
    middle = place(0.5, 0.5)
    shapes.append(Text(x=middle["x"], y=bottom + 36, text=f"confidence, {title}", anchor="middle"))
    shapes.append(Text(x=14, y=middle["y"], text="accuracy", anchor="middle", turned=True))
    return Chart(f"Reliability diagram {title}", left + _PLOT + 30, bottom + 50, shapes)


def reliability_charts(report: Mapping[str, Any]) -> list[Chart]:
    """Returns the diagrams without and with temperature scaling."""
    titles = {"before": "without temperature scaling", "after": "with temperature scaling"}
    return [reliability_chart(report["reliability"][key], titles[key]) for key in titles]


def _shortened(name: str) -> str:
    return name if len(name) <= _MAX_NAME else f"{name[: _MAX_NAME - 1]}\u2026"
