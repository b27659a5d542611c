"""``score``: how probable a model finds given pairs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tasks.commands.answering import opened
from tasks.commands.options import (
    PATH,
    STREAM,
    LineOptions,
    given,
    models_option,
    result_options,
    take,
)
from tasks.streaming.lines import json_line, open_parallel, open_table
from tasks.task import PAIR_TASKS, task_named


@click.command()
@click.argument("task", type=click.Choice(PAIR_TASKS))
@click.option("--src", "source_file", type=PATH, metavar="FILE", help="The sources, one per line.")
@click.option("--tgt", "target_file", type=PATH, metavar="FILE", help="Their targets.")
@click.option("--input", "input_path", type=STREAM, help="Pairs in one file, separated by tabs.")
@result_options
@models_option
def score(task: str, source_file: Path | None, target_file: Path | None, **options: Any) -> None:
    """Print how probable a model finds each target, given its source.

    Pairs come from two files, --src and --tgt, or from lines of a source, a tab and its target:
    from --input, or else from standard input. For each pair there is a line: the natural
    log-probability of the target, the number of its tokens including the end, and the
    log-probability per token, separated by tabs. --json adds the log-probability of every token,
    and the number of tokens that the vocabulary does not know, which are scored as <unk>.

    Texts are scored whole. An empty target is scored by its end alone. A pair that is too long for
    the model has no log-probability: the column is empty, and null in JSON.

    \b
        score translation --src german.txt --tgt english.txt
        score translation --input pairs.tsv | awk '$3 > -2'
    """
    if (source_file is None) != (target_file is None):
        raise click.UsageError("--src and --tgt go together.")
    line_options = take(LineOptions, options)
    if source_file and line_options.input_path:
        raise click.UsageError("pairs come from --src and --tgt or from --input, not from both.")
    if source_file and target_file:
        pairs_input = open_parallel(source_file, target_file)
    else:
        pairs_input = open_table(line_options.input_path)
    with opened(pairs_input, line_options) as work:
        predictor: Any = task_named(task).load(line_options.model, device=line_options.device)
        settings = given({"batch_tokens": line_options.batch_tokens})
        for chunk in work.chunks():
            pairs = [text.split("\t") for text in chunk.texts]
            sources, targets = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
            scores = predictor.score(sources, targets, on_batch=work.on_batch, **settings)
            if line_options.is_json:
                work.write(map(_as_json, chunk.lines, scores))
            else:
                work.write(result.row() for result in scores)


def _as_json(line: str, result: Any) -> str:
    source, target = line.split("\t")
    return json_line({"source": source, "target": target, **result.record()})
