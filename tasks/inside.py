"""Looking inside: one prediction as an object, as JSON, and as a page (``web/static/inside.*``)."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.decoding.recording import TEMPERATURES, SearchTree

_STATIC = Path(__file__).parent / "web" / "static"
_PAGE, _STYLE, _SCRIPT = (_STATIC / f"inside.{kind}" for kind in ("html", "css", "js"))


@dataclass(frozen=True)
class Place:
    """How many characters each rule forbids ("": none does), and what forbids the likely ones."""

    counts: Mapping[str, int]
    forbidden: Mapping[int, str]


@dataclass(frozen=True)
class Decision:
    """The class ``scores`` of each part of a model, and of all ``together``. Those are divided by
    the ``temperature``. ``words`` have what each adds to the log-odds of the class."""

    scores: Mapping[str, Sequence[float]]
    temperature: float
    probabilities: Mapping[str, float]
    words: Sequence[tuple[str, float]]


@dataclass(frozen=True, kw_only=True)
class Trace:
    """One prediction, step by step; in a notebook it shows itself.

    ``model`` has the sizes and properties of the model. ``source`` has the tokens and ids that the
    encoder reads, ``target`` those that the decoder reads, from ``<bos>`` on. ``weights`` are those
    of attention: "encoder" ``[L, H, S, S]``, "decoder" ``[L, H, T, T]`` and "cross" ``[L, H, T,
    S]``; an ensemble has none. ``hidden`` says which of them a mask has hidden, ``[T, T]``. The
    first of ``searches`` has found the ``output``.
    """

    task: str
    text: str
    output: str
    model: Mapping[str, Any]
    source: Sequence[tuple[str, int]]
    target: Sequence[tuple[str, int]] = ()
    weights: Mapping[str, NDArray[np.float32]] = field(default_factory=dict, repr=False)
    hidden: Mapping[str, Sequence[Sequence[bool]]] = field(default_factory=dict, repr=False)
    searches: Sequence[SearchTree] = field(default=(), repr=False)
    words: Mapping[int, str] = field(default_factory=dict, repr=False)  # of the searches' tokens
    places: Sequence[Place] = field(default=(), repr=False)
    decision: Decision | None = None
    temperatures: Sequence[float] = TEMPERATURES

    def beside(self, *others: "Trace") -> "Trace":
        """Returns this trace with the searches of others, for a comparison."""
        traces = (self, *others)
        searches = [search for trace in traces for search in trace.searches]
        words = {token: word for trace in traces for token, word in trace.words.items()}
        return replace(self, searches=searches, words=words)

    def to_json(self) -> str:
        """Returns everything as JSON in ASCII; weights of attention are in thousandths."""
        return json.dumps(self, default=_plain, separators=(",", ":"))

    def html(self, *, guide: str = "") -> str:
        """Returns a page that needs no other file; ``guide`` leads from it to that of the guide."""
        page, style, script = (path.read_text("utf-8") for path in (_PAGE, _STYLE, _SCRIPT))
        page = page.replace("@STYLE@", style).replace("@SCRIPT@", script)
        data = self.to_json().replace("<", "\\u003c")  # no text can end the script
        return page.replace("@GUIDE@", escape(guide)).replace("@TRACE@", data)

    def _repr_html_(self) -> str:
        style = 'style="width: 100%; height: 50rem; border: 0" sandbox="allow-scripts"'
        return f'<iframe title="{self.task}" {style} srcdoc="{escape(self.html())}"></iframe>'


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return (1000 * value).round().astype(int).tolist()
    return {name: own for name, own in vars(value).items() if not name.startswith("_")}
