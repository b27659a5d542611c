"""``translate``: German texts into English, or whatever pair of languages a model has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from tasks.commands.answering import search_and_answer
from tasks.commands.options import (
    engine_options,
    length_options,
    models_option,
    options_from,
    output_options,
    search_options,
    text_options,
)
from tasks.seq2seq.request import GenerationRequest

if TYPE_CHECKING:
    from tasks.translation.predict import Translation


@click.command()
@text_options
@models_option
@output_options
@search_options
@length_options
@engine_options
@options_from(GenerationRequest, "translation")
def translate(**options: Any) -> None:
    """Translate each TEXT; the shipped model translates German into English.

    Without TEXT, or with "-", every line of standard input is a text. The results are printed one
    per line, in the order of the input; an empty line stays empty. Put "--" before a text that
    begins with a dash. With --n-best N, each text has up to N lines: its number (from 1), the score
    and the translation, separated by tabs. Texts are translated sentence by sentence; limits on the
    length hold for each sentence.

    With --json, "confidence" is the probability that the translation is good, and "familiarity"
    says how like the training data the text is (0 to 1; below 0.05 it is unlike them), if the model
    has been calibrated (models calibrate). Standard error says how many lines are unlike them.

    \b
        translate "Ein Hund rennt." "Zwei Kinder lachen."
        translate --input german.txt --output english.txt
        translate --n-best 3 --diverse 0.5 "Ein Hund rennt."
        translate --sample --top-p 0.9 --seed 7 "Ein Hund rennt."
    """
    counts = search_and_answer(
        "translation", lambda line, result: [result.text], options, categories=categories
    )
    from core.progress import log

    for note in notes(counts):
        log(note)


def categories(line: str, result: Translation) -> Iterator[str]:
    """Yields what a line counts as in :func:`notes`."""
    from tasks.familiarity import is_unfamiliar

    if line.strip():
        yield "lines"
    if is_unfamiliar(result.familiarity):
        yield "unfamiliar"
    if result.segments == 0 and any(map(str.isalpha, result.text)):
        yield "kept"


def notes(counts: Mapping[str, int]) -> Iterator[str]:
    """Yields what a user should know of the lines of a run, whose numbers are ``counts``."""
    from tasks.familiarity import UNFAMILIAR

    total, unlike, kept = counts["lines"], counts["unfamiliar"], counts["kept"]
    if unlike > UNFAMILIAR * total:  # this share of texts like the training data is below, too
        yield f"{unlike:,} of {total:,} lines look unlike anything that the model was trained on"
    if kept:
        yield (
            f"{kept:,} of {total:,} lines stay as they are: in the target language already "
            "(--no-pass-through translates them), or in letters that the model does not know"
        )
