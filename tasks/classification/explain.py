"""What each word contributes to a classification: occlusion.

A word's contribution is the log-odds of the class for the text, minus the log-odds for the text
without the word (the weight of evidence of Robnik-Sikonja and Kononenko 2008, section 3.1, with the
word deleted). It needs no gradients and covers everything that decides the answer: tokenizer,
n-grams, pooling and temperature.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from typing import Any

import torch

from tasks.classification.dataset import as_read, cleaned
from tasks.classification.predict import Classifier
from tasks.classification.report import page_head
from tasks.texts import as_texts

MAX_WORDS = 400
"""Words after these are not read: a text of n words is classified n times."""

# A word with the white space after it; in scripts without spaces, a character.
_WORD = re.compile(r"(?:[\u3040-\u30ff\u3400-\u9fff]|[^\s\u3040-\u30ff\u3400-\u9fff]+)\s*")
_SMALLEST = 1e-7  # the least probability of which log-odds are taken
_STRONG = 2.0  # the log-odds that are shown in full color
_GREEN, _RED = (26, 127, 55), (198, 40, 40)


@dataclass(frozen=True)
class Contribution:
    """A word as written, with the space after it, and what it adds to the log-odds of the class."""

    word: str
    contribution: float

    @property
    def color(self) -> tuple[int, int, int]:
        """The background: green for a word that speaks for the class, red for one against it."""
        strength = min(1.0, abs(self.contribution) / _STRONG)
        full = _GREEN if self.contribution > 0 else _RED
        red, green, blue = (round(255 + (part - 255) * 0.7 * strength) for part in full)
        return red, green, blue


@dataclass(frozen=True)
class Explanation:
    """The class of a text, its probability, and the contributions of its words in their order."""

    label: str
    probability: float
    words: tuple[Contribution, ...]

    def record(self) -> list[dict[str, Any]]:
        """Returns the contributions as plain values for JSON."""
        return [{"word": w.word.strip(), "contribution": w.contribution} for w in self.words]

    def html(self) -> str:
        """Returns a paragraph with the words on colored backgrounds; every text is escaped."""
        spans = "".join(
            f'<span style="background:rgb{w.color}" title="{w.contribution:+.2f}">'
            f"{escape(w.word)}</span>"
            for w in self.words
        )
        return f"<p><b>{escape(self.label)}</b> {self.probability:.4f}: {spans}</p>"


def html_head() -> str:
    """Returns the beginning of a page of explanations, on one line."""
    note = "Green words speak for the class, red ones against it."
    return page_head("Explanations").replace("\n", " ") + f"<p class=note>{note}</p>"


def words_of(text: str) -> list[str]:
    """Returns the words of a cleaned text, each with the white space after it."""
    return _WORD.findall(text)


def explain(
    classifier: Classifier, texts: str | Iterable[str], **options: Any
) -> list[Explanation]:
    """Returns the explanation of each text; without words for an empty one. A string is one text.

    ``options`` are those of :meth:`Classifier.outputs`; the errors are those of
    :meth:`Classifier.classify`.
    """
    return [_explain(classifier, text, options) for text in as_texts(texts)]


def _explain(classifier: Classifier, text: str, options: dict[str, Any]) -> Explanation:
    config = classifier.config.data
    words = words_of(cleaned(text, config))[:MAX_WORDS]
    if not words:
        return Explanation("", 0.0, ())
    rests = ("".join(words[:i] + words[i + 1 :]) for i in range(len(words)))
    read = [as_read(part, config) for part in ("".join(words), *rests)]
    probabilities, _ = classifier.outputs(classifier.encode(read), **options)
    number = int(classifier.decide(probabilities[:1]))
    odds = torch.logit(probabilities[:, number].double(), eps=_SMALLEST)
    contributions = map(Contribution, words, (odds[0] - odds[1:]).tolist())
    return Explanation(
        classifier.classes[number], float(probabilities[0, number]), tuple(contributions)
    )
