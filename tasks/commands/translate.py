"""``translate``: German texts into English, or whatever pair of languages a model has."""

from __future__ import annotations

from typing import Any

import click

from transformer_suite.tasks.commands.answering import search_and_answer
from transformer_suite.tasks.commands.options import (
    length_options,
    models_option,
    output_options,
    search_options,
    text_options,
)


@click.command()
@text_options
@models_option
@output_options
@search_options
@length_options
def translate(**options: Any) -> None:
    """Translate each TEXT; the shipped model translates German into English.

    Without TEXT, or with "-", every line of standard input is a text. The results are printed one
    per line, in the order of the input; an empty line stays empty. Put "--" before a text that
    begins with a dash. With --n-best N, each text has up to N lines: its number (from 1), the score
    and the translation, separated by tabs. Texts are translated sentence by sentence; limits on the
    length hold for each sentence.

    \b
        translate "Ein Hund rennt." "Zwei Kinder lachen."
        translate --input german.txt --output english.txt
        translate --n-best 3 --diverse 0.5 "Ein Hund rennt."
        translate --sample --top-p 0.9 --seed 7 "Ein Hund rennt."
    """
    search_and_answer("translation", lambda line, result: [result.text], options)
