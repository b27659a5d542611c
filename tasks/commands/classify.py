"""``classify``: the class of a text, such as the topic of news."""

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, zip_longest
from typing import Any

import click

from core.errors import ConfigError, shorten
from tasks.commands import parameters
from tasks.commands.answering import opened_input
from tasks.commands.options import LineOptions, given, layout_of, option_names, take
from tasks.streaming.lines import as_json


@dataclass(frozen=True, kw_only=True)
class ClassifyOptions:
    """The options of ``classify`` alone."""

    early_exit: float | None
    top: int | None
    thresholds: tuple[str, ...]
    is_explained: bool
    is_html: bool


@click.command()
@parameters.texts
@parameters.text
@parameters.layout
@parameters.model
@click.option(
    "--early-exit",
    type=click.FloatRange(0.0, 1.0, min_open=True),
    metavar="PROBABILITY",
    help="Where the n-grams are this certain of a class, leave out the encoder: faster.",
)
@click.option("--top", type=click.IntRange(min=1), help="Show this many classes.")
@click.option(
    "--threshold",
    "thresholds",
    multiple=True,
    metavar="LABEL=PROBABILITY",
    help="Choose this class exactly when its probability is at least this. May be repeated.",
)
@click.option(
    "--explain",
    "is_explained",
    is_flag=True,
    help="Show what each word adds to the log-odds of the class.",
)
@click.option("--html", "is_html", is_flag=True, help="With --explain: print a page.")
def classify(texts: tuple[str, ...], **options: Any) -> None:
    """Classify each TEXT: print its class, a tab, and the probability.

    Without TEXT, or with "-", every line of standard input is a text. With --top K, each line has
    the K most probable classes and their probabilities, separated by tabs. The results are printed
    in the order of the input; an empty line stays empty.

    With --text, --input is a table (CSV, TSV, JSON Lines or .xlsx). The output is the same table
    with the columns "label" and "probability".

    \b
        classify "Stocks fell on Monday after the bank raised its rates."
        classify --top 3 --input headlines.txt
        classify --model runs/topics --input my.csv --text title,body --output out.csv
        classify --explain --html --input headlines.txt > why.html
    """
    from core.progress import log
    from tasks.familiarity import is_unfamiliar, unfamiliar_note

    own = take(ClassifyOptions, options)
    line_options = take(LineOptions, options)
    text, layout = options.pop("text"), layout_of(options)
    _check(own, line_options, is_table=text is not None)
    added = {"label": str, "probability": float}
    with opened_input(texts, line_options, text, layout, added) as work:
        classifier = _classifier(own, line_options)
        settings = given({"batch_tokens": line_options.batch_tokens})
        for chunk in work.chunks():
            explanations: list[Any] = []
            if own.is_explained:
                explanations = classifier.explain(chunk.texts, **settings)
            if own.is_explained and not line_options.is_json:
                work.write(_explained(explanations, own.is_html, is_first=chunk.first == 0))
                continue
            results = classifier.classify_scored(chunk.texts, on_batch=work.on_batch, **settings)
            work.tally["lines"] += sum(bool(result.label) for result in results)
            work.tally["unlike"] += sum(is_unfamiliar(result.familiarity) for result in results)
            if line_options.is_json:
                rows = zip_longest(chunk.lines, results, explanations)
                work.write(_as_json(*row, own.top) for row in rows)
            else:
                work.write(_as_row(result, own.top) for result in results)
    if note := unfamiliar_note(work.tally["unlike"], work.tally["lines"]):
        log(note)


def _check(own: ClassifyOptions, line_options: LineOptions, *, is_table: bool) -> None:
    """Refuses options that contradict each other."""
    if own.is_html and (not own.is_explained or line_options.is_json):
        raise click.UsageError("--html is for --explain, without --json.")
    if own.is_explained and own.early_exit is not None:
        raise click.UsageError("--explain is for the whole model: leave out --early-exit.")
    if own.is_explained and own.top is not None and not line_options.is_json:
        raise click.UsageError("--explain shows one class: leave out --top, or add --json.")
    if is_table and (own.is_explained or own.top is not None):
        raise click.UsageError("--explain and --top are for texts, not for tables.")


def _classifier(own: ClassifyOptions, line_options: LineOptions) -> Any:
    """Returns the loaded model, with the thresholds of the command."""
    from tasks.classification.predict import Classifier

    with option_names():
        classifier = Classifier.load(
            line_options.model, device=line_options.device, early_exit=own.early_exit
        )
        if own.thresholds:
            prediction = replace(classifier.config.prediction, thresholds=own.thresholds)
            classifier.config = replace(classifier.config, prediction=prediction)
        classifier.check_thresholds()
    count = len(classifier.classes)
    if own.top is not None and own.top > count:
        raise ConfigError(f"--top must be from 1 to {count}, the number of classes, not {own.top}")
    return classifier


def _as_row(result: Any, top: int | None) -> str:
    if top is None:
        return f"{result.label}\t{result.probability:.4f}" if result.label else ""
    best = islice(result.probabilities.items(), top)
    return "\t".join(f"{label}\t{probability:.4f}" for label, probability in best)


def _as_json(line: str, result: Any, explanation: Any, top: int | None) -> str:
    record = result.record()
    record["probabilities"] = dict(islice(record["probabilities"].items(), top))
    if explanation is not None:
        record["explanation"] = explanation.record()
    return as_json(line, record)


def _explained(explanations: Sequence[Any], is_html: bool, *, is_first: bool) -> Iterator[str]:
    """Yields explanations as lines: of a page, in color on a terminal, or with numbers."""
    if is_html:
        from tasks.classification.explain import html_head

        if is_first:
            yield html_head()
        yield from (explanation.html() for explanation in explanations)
        return
    has_color = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    for explanation in explanations:
        words = []
        for part in explanation.words:
            word = shorten(part.word.strip(), length=len(part.word))
            if has_color:
                words.append(click.style(word, fg="black", bg=part.color))
            else:
                words.append(f"{word}({part.contribution:+.2f})")
        label = f"{explanation.label}\t{explanation.probability:.4f}\t{' '.join(words)}"
        yield label if explanation.label else ""
