"""The report as a page: one HTML file that contains its pictures, without scripts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from html import escape
from typing import Any

from tasks.classification.charts import draw_confusion, draw_reliability
from tasks.pictures import embedded

_MAX_ROWS = 200  # classes in the table

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
  color: #1c1c1c; background: #fff; }
table { border-collapse: collapse; } th, td { padding: .2rem .7rem; border-bottom: 1px solid #ddd;
  text-align: right; vertical-align: top; }
th:first-child, td:first-child, .text { text-align: left; }
img { max-width: 100%; height: auto; } .note { color: #555; }
"""


def report_page(report: Mapping[str, Any]) -> str:
    """Returns the page. All texts, which may come from strangers, are escaped."""
    classes = report["classes"]
    largest = sorted(classes, key=lambda name: -classes[name]["texts"])[:_MAX_ROWS]
    mistakes = (
        (_percent(m["probability"]), m["predicted"], m["label"], m["text"])
        for m in report["mistakes"]
    )
    figures = (
        (name, *(_percent(classes[name][key]) for key in ("precision", "recall", "f1")),
         f"{classes[name]['texts']:,}")
        for name in largest
    )  # fmt: skip
    parts = [
        page_head(f"Classification report: {report['split']}"),
        f"<h1>Classification report</h1><p>{report['texts']:,} texts of the split "
        f"<b>{escape(report['split'])}</b>.</p>",
        _summary(report),
        "<h2>Classes</h2>",
        html_table(("class", "precision", "recall", "F1", "texts"), figures),
        f"<p class=note>The {_MAX_ROWS} largest of {len(classes):,} classes.</p>"
        * (len(classes) > _MAX_ROWS),
        "<h2>Confusion matrix</h2>",
        _confusion(report),
        "<h2>Reliability</h2>",
        embedded(partial(draw_reliability, report=report), "Reliability diagram"),
        "<p class=note>Above the dotted line the classifier is better than its probabilities say, "
        "below it is worse. The lower panel shows the number of texts.</p>",
        "<h2>Most confident mistakes</h2><p class=note>Some of these labels may be wrong.</p>",
        html_table(("probability", "predicted", "label", "text"), mistakes),
        "<h2>Words that speak for each class</h2><p class=note>Words that are much more frequent "
        "in the texts which the model put in the class than in all others.</p>",
        html_table(("class", "words"), ((c, ", ".join(w)) for c, w in report["words"].items())),
        "</body></html>\n",
    ]
    return "\n".join(parts)


def page_head(title: str, style: str = "") -> str:
    """Returns the beginning of a page. Its policy forbids scripts and other files."""
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
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


def _confusion(report: Mapping[str, Any]) -> str:
    if "confusion" not in report:
        mistakes = report["confused"][:_MAX_ROWS]
        rows = ((m["true"], m["predicted"], m["texts"]) for m in mistakes)
        return html_table(("label", "predicted", "texts"), rows)
    chart = embedded(partial(draw_confusion, report=report), "Confusion matrix")
    return f"{chart}<p class=note>Rows: labels; columns: predictions; color: share of the row.</p>"
