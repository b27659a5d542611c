"""The report as a page: one HTML file with pictures as SVG, without scripts and other files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

_MAX_ROWS = 200  # classes in the table
_MAX_CELLS = 30  # classes in the picture of the confusion matrix
_CELL, _PLOT = 44, 260  # pixels
_MAX_NAME, _LETTER = 18, 8  # characters of a name, and pixels of one

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
  color: #1c1c1c; background: #fff; }
table { border-collapse: collapse; } th, td { padding: .2rem .7rem; border-bottom: 1px solid #ddd;
  text-align: right; vertical-align: top; }
th:first-child, td:first-child, .text { text-align: left; }
svg { max-width: 100%; height: auto; font: 12px system-ui, sans-serif; } .note { color: #555; }
.plots { display: flex; flex-wrap: wrap; gap: 2rem; }
"""


def report_page(report: Mapping[str, Any]) -> str:
    """Returns the page. All texts, which may come from strangers, are escaped."""
    classes = report["classes"]
    largest = sorted(classes, key=lambda name: -classes[name]["texts"])
    parts = [
        page_head(f"Classification report: {report['split']}"),
        f"<h1>Classification report</h1><p>{report['texts']:,} texts of the split "
        f"<b>{escape(report['split'])}</b>.</p>",
        _summary(report),
        "<h2>Classes</h2>",
        _class_table(classes, largest),
        _note(len(classes), _MAX_ROWS),
        "<h2>Confusion matrix</h2>",
        _confusion(report, largest),
        "<h2>Reliability</h2>",
        _reliability(report),
        "<h2>Most confident mistakes</h2><p class=note>Some of these labels may be wrong.</p>",
        html_table(
            ("probability", "predicted", "label", "text"),
            (
                (_percent(m["probability"]), m["predicted"], m["label"], m["text"])
                for m in report["mistakes"]
            ),
        ),
        "<h2>Words that speak for each class</h2><p class=note>Words that are much more frequent "
        "in the texts which the model put in the class than in all others.</p>",
        html_table(
            ("class", "words"),
            ((name, ", ".join(words)) for name, words in report["words"].items()),
        ),
    ]
    return "\n".join([*parts, "</body></html>\n"])


def page_head(title: str, style: str = "") -> str:
    """Returns the beginning of a page. Its policy forbids scripts and other files."""
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f"<style>{_STYLE}{style}</style></head><body>"
    )


def html_table(names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Returns a table; the last column is text."""
    head = "".join(f"<th>{escape(name)}</th>" for name in names[:-1])
    lines = [f"<table><tr>{head}<th class=text>{escape(names[-1])}</th></tr>"]
    for row in rows:
        cells = "".join(f"<td>{escape(str(cell))}</td>" for cell in row[:-1])
        lines.append(f"<tr>{cells}<td class=text>{escape(str(row[-1]))}</td></tr>")
    return "\n".join([*lines, "</table>"])


def _percent(share: float) -> str:
    return f"{100 * share:.2f}%"


def _summary(report: Mapping[str, Any]) -> str:
    rows = []
    for name, title in (("accuracy", "accuracy"), ("macro_f1", "macro F1")):
        low, high = report[f"{name}_interval"]
        rows.append((title, _percent(report[name]), f"{_percent(low)} to {_percent(high)}"))
    error = "expected calibration error"
    rows.append((error, _percent(report["calibration_error"]), ""))
    rows.append((f"{error}, without temperature", _percent(report["calibration_error_before"]), ""))
    return html_table(("figure", "value", "95% interval (bootstrap)"), rows)


def _class_table(classes: Mapping[str, Any], largest: Sequence[str]) -> str:
    rows = (
        (name, *(_percent(classes[name][key]) for key in ("precision", "recall", "f1")),
         f"{classes[name]['texts']:,}")
        for name in largest[:_MAX_ROWS]
    )  # fmt: skip
    return html_table(("class", "precision", "recall", "F1", "texts"), rows)


def _note(count: int, most: int) -> str:
    if count <= most:
        return ""
    return f"<p class=note>The {most} largest of {count:,} classes.</p>"


def _confusion(report: Mapping[str, Any], largest: Sequence[str]) -> str:
    if "confusion" not in report:
        mistakes = report["confused"]
        return html_table(
            ("label", "predicted", "texts"),
            ((m["true"], m["predicted"], m["texts"]) for m in mistakes[:_MAX_ROWS]),
        )
    names = list(report["classes"])
    chosen = [name for name in names if name in set(largest[:_MAX_CELLS])]
    numbers = [names.index(name) for name in chosen]
    chosen = [_shortened(name) for name in chosen]
    margin = 20 + _LETTER * max(map(len, chosen))
    side = margin + _CELL * len(chosen)
    parts = [f'<svg viewBox="0 0 {side} {side}" width="{side}" role="img">']
    parts.append("<title>Confusion matrix: rows are labels, columns are predictions</title>")
    for row, i in enumerate(numbers):
        y, total = margin + row * _CELL, max(1, sum(report["confusion"][i]))
        parts.append(_svg_text(margin - 6, y + 26, chosen[row], "end"))
        x = margin + row * _CELL + 26
        parts.append(_svg_text(x, margin - 6, chosen[row], "start", turned=True))
        for column, j in enumerate(numbers):
            count = report["confusion"][i][j]
            share, color = count / total, "#1a7f37" if i == j else "#c62828"
            x = margin + column * _CELL
            parts.append(
                f'<rect x="{x}" y="{y}" width="{_CELL}" height="{_CELL}" fill="{color}" '
                f'fill-opacity="{0.75 * share**0.5:.3f}" stroke="#ddd"/>'
            )
            if count:
                parts.append(_svg_text(x + _CELL / 2, y + 26, str(count), "middle"))
    note = "<p class=note>Rows: labels; columns: predictions; color: share of the row.</p>"
    return "\n".join([*parts, "</svg>", note, _note(len(names), _MAX_CELLS)])


def _reliability(report: Mapping[str, Any]) -> str:
    titles = {"before": "without temperature scaling", "after": "with temperature scaling"}
    plots = (_reliability_plot(report["reliability"][key], titles[key]) for key in titles)
    note = (
        "Above the line the classifier is better than its probabilities say, below it is worse; "
        "the size of a point shows the number of texts."
    )
    return f"<div class=plots>{''.join(plots)}</div><p class=note>{note}</p>"


def _reliability_plot(bins: Sequence[Mapping[str, float]], title: str) -> str:
    left, side, most = 40, _PLOT, max((b["texts"] for b in bins), default=1)

    def place(confidence: float, accuracy: float) -> tuple[float, float]:
        return left + side * confidence, 10 + side * (1 - accuracy)

    (x0, y0), (x1, y1) = place(0, 0), place(1, 1)
    parts = [
        f'<svg viewBox="0 0 {side + 60} {side + 60}" width="{side + 60}" role="img">'
        f"<title>Reliability diagram {escape(title)}</title>"
        f'<rect x="{left}" y="10" width="{side}" height="{side}" fill="none" stroke="#999"/>'
        f'<line x1="{x0}" y1="{y0}" x2="{x1}" y2="{y1}" stroke="#999" stroke-dasharray="4"/>'
    ]
    for b in bins:
        x, y = place(b["confidence"], b["accuracy"])
        radius = 3 + 9 * (b["texts"] / most) ** 0.5
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="#1f5fa8" '
            f'fill-opacity="0.7"><title>{int(b["texts"])} texts</title></circle>'
        )
    for tick in (0.0, 0.5, 1.0):
        x, y = place(tick, tick)
        parts.append(_svg_text(x, side + 26, f"{100 * tick:.0f}%", "middle"))
        parts.append(_svg_text(left - 4, y + 4, f"{100 * tick:.0f}%", "end"))
    parts.append(_svg_text(left + side / 2, side + 46, f"confidence, {title}", "middle"))
    return "\n".join([*parts, "</svg>"])


def _shortened(name: str) -> str:
    return name if len(name) <= _MAX_NAME else f"{name[: _MAX_NAME - 1]}\u2026"


def _svg_text(x: float, y: float, text: str, anchor: str, *, turned: bool = False) -> str:
    turn = f' transform="rotate(-90 {x} {y})"' if turned else ""
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}"{turn}>{escape(text)}</text>'
