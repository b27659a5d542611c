"""``score``: how probable a model finds given pairs."""

from pathlib import Path
from typing import Any

import click

from data.pairs import iter_pairs
from tasks.commands import parameters
from tasks.commands.answering import opened
from tasks.commands.options import PATH, STREAM, LineOptions, given, layout_of, take
from tasks.streaming.lines import json_line, open_parallel, open_rows, open_table
from tasks.task import SEARCHING_TASKS, task_named


@click.command()
@click.argument("task", type=click.Choice(SEARCHING_TASKS))
@click.option("--src", metavar="FILE", help="The sources, one per line; with --data, a column.")
@click.option("--tgt", metavar="FILE", help="Their targets.")
@click.option("--input", "input_path", type=STREAM, help="Pairs in one file, separated by tabs.")
@click.option("--data", type=PATH, metavar="FILE", help="Pairs in a table or a TMX file.")
@parameters.layout
@parameters.results
@parameters.models
def score(task: str, src: str | None, tgt: str | None, data: Path | None, **options: Any) -> None:
    """Print how probable a model finds each target, given its source.

    Pairs come from two files, --src and --tgt, or from lines of a source, a tab and its target:
    from --input, or else from standard input. With --data, they come from a table (CSV, TSV, JSON
    Lines or .xlsx) or a translation memory (.tmx), whose columns or languages --src and --tgt name.
    For each pair there is a line: the natural
    log-probability of the target, the number of its tokens including the end, and the
    log-probability per token, separated by tabs. --json adds the log-probability of every token,
    and the number of tokens that the vocabulary does not know, which are scored as <unk>.

    Texts are scored whole, couplets as `couplet` reads them: simplified characters, numerals, and
    capitals. An empty target is scored by its end alone. A pair that is too long for
    the model has no log-probability: the column is empty, and null in JSON.

    \b
        score translation --src german.txt --tgt english.txt
        score translation --input pairs.tsv | awk '$3 > -2'
        score translation --data memory.tmx --src de --tgt en
    """
    if (src is None) != (tgt is None) or (data and not src):
        raise click.UsageError("--src and --tgt go together, and --data needs them.")
    line_options, layout = take(LineOptions, options), layout_of(options)
    if (src or data) and line_options.input_path:
        raise click.UsageError("pairs come from --src and --tgt or from --input, not from both.")
    files = {"--data": data} if data or not src or not tgt else {"--src": src, "--tgt": tgt}
    for option, path in files.items():
        line_options.refuse_output(option, None if path is None else Path(path))
    if data and src and tgt:
        found = (map(str.split, pair) for pair in iter_pairs(data, src, tgt, layout))
        pairs_input = open_rows("\t".join(map(" ".join, words)) for words in found)
    elif src and tgt:
        pairs_input = open_parallel(Path(src), Path(tgt), encoding=layout.encoding)
    else:
        pairs_input = open_table(line_options.input_path, encoding=layout.encoding)
    with opened(pairs_input, line_options, is_file=src is not None) as work:
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
