"""``classify``: the topic of a news text."""

from __future__ import annotations

from itertools import islice
from typing import Any

import click

from transformer_suite.core.errors import ConfigError
from transformer_suite.tasks.commands.answering import opened, text_input
from transformer_suite.tasks.commands.options import (
    LineOptions,
    given,
    int8_option,
    model_option,
    take,
    text_options,
)
from transformer_suite.tasks.streaming.lines import as_json


@click.command()
@text_options
@model_option
@int8_option
@click.option("--top", type=click.IntRange(min=1), help="Show this many classes.")
def classify(texts: tuple[str, ...], int8: bool | None, top: int | None, **options: Any) -> None:
    """Classify each TEXT: print its class, a tab, and the probability.

    Without TEXT, or with "-", every line of standard input is a text. With --top K, each line has
    the K most probable classes and their probabilities, separated by tabs. The results are printed
    in the order of the input; an empty line stays empty.

    \b
        classify "Stocks fell on Monday after the bank raised its rates."
        classify --top 3 --input headlines.txt
    """
    line_options = take(LineOptions, options)
    open_input = text_input(texts, line_options)
    is_file = not texts and line_options.input_path is not None
    with opened(open_input, line_options, is_file=is_file) as (work, device):
        from transformer_suite.tasks.classification.predict import Classifier

        classifier = Classifier.load(line_options.model, device=device, int8=bool(int8))
        count = len(classifier.classes)
        if top is not None and top > count:
            raise ConfigError(f"--top must be from 1 to {count}, the number of classes, not {top}")
        settings = given({"batch_tokens": line_options.batch_tokens})
        for chunk in work.chunks():
            results = classifier.classify_scored(chunk.texts, on_batch=work.on_batch, **settings)
            rows = zip(chunk.lines, results, strict=True)
            show = _as_json if line_options.is_json else _as_row
            work.write(show(line, result, top) for line, result in rows)


def _as_row(line: str, result: Any, top: int | None) -> str:
    best = islice(result.probabilities.items(), top or 1)
    return "\t".join(f"{label}\t{probability:.4f}" for label, probability in best)


def _as_json(line: str, result: Any, top: int | None) -> str:
    best = dict(islice(result.probabilities.items(), top))
    return as_json(line, {**result.record(), "probabilities": best})
