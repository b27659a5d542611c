"""``couplet``: the second line of a Chinese couplet for a first line."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import click

from transformer_suite.tasks.commands.answering import search_and_answer
from transformer_suite.tasks.commands.options import (
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
@click.option(
    "--candidates",
    type=click.IntRange(min=1),
    metavar="N",
    help="Print the N best of a larger number of answers: number of the text, score, answer.",
)
def couplet(**options: Any) -> None:
    """Answer each TEXT, the first line of a Chinese couplet, with a second line.

    Without TEXT, or with "-", every line of standard input is a text. The results are printed one
    per line, in the order of the input; an empty line stays empty. An input line without a Chinese
    character is refused: its result is empty, and the exit code is 1 at the end.
    With --n-best N, each text has up to N lines: its number (from 1), the score and the answer,
    separated by tabs.

    With --candidates N, the N lines differ clearly. They are ranked by more than the probability of
    the answer: by parts of speech, by how rare their characters are, and by the probability of TEXT
    if it were the answer. The options of a search do not combine with it.

    \b
        couplet 晚风摇树树还挺
        couplet --candidates 5 晚风摇树树还挺
        couplet --n-best 3 --prefix 秋 晚风摇树树还挺
    """
    search_and_answer("couplet", attrgetter("second"), options)
