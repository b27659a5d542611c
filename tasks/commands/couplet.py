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
def couplet(**options: Any) -> None:
    """Answer each TEXT, the first line of a Chinese couplet, with a second line.

    Without TEXT, or with "-", every line of standard input is a text. The results are printed one
    per line, in the order of the input; an empty line stays empty. With --n-best N, each text has
    up to N lines: its number (from 1), the score and the answer, separated by tabs.

    \b
        couplet 晚风摇树树还挺
        couplet --n-best 3 --prefix 秋 晚风摇树树还挺
    """
    search_and_answer("couplet", attrgetter("second"), options)
