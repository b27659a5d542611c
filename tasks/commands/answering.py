"""From the lines of an input to those of an output: what all commands on texts and pairs share."""

import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from itertools import zip_longest
from typing import Any

import click

from core.errors import UserError
from core.progress import log
from data.tables import DEFAULT_LAYOUT, SUFFIXES, Record, Table, TableLayout, open_table
from tasks.commands.options import (
    LineOptions,
    given,
    layout_of,
    option_names,
    take,
    take_given,
    use_threads,
)
from tasks.commands.output import print_results, progress_bar, results_to
from tasks.streaming.lines import Chunk, Lines, LineWork, as_json, open_rows, open_texts
from tasks.task import task_named


def text_input(
    texts: Sequence[str], options: LineOptions, encoding: str | None
) -> AbstractContextManager[Lines]:
    """Returns the texts of the command line, a file or stdin. Raises a UsageError for two."""
    if texts and options.input_path is not None:
        raise click.UsageError("texts come from the command line or from --input, not from both.")
    if "-" in texts and len(texts) > 1:
        raise click.UsageError("'-' (standard input) cannot stand beside other texts.")
    own = [text for text in texts if text != "-"]
    return open_texts(own, options.input_path, encoding=encoding)


@contextmanager
def opened(
    lines: AbstractContextManager[Lines], options: LineOptions, *, is_file: bool = False
) -> Iterator[LineWork]:
    """Yields the work on ``lines``, which are from other files than ``--input`` if ``is_file``."""
    use_threads(options.threads)
    is_typed = not is_file and options.input_path is None and sys.stdin.isatty()
    with (
        results_to(options.output_path) as write,
        lines as (chunks, total),
        progress_bar(total, write is print_results, is_typed=is_typed) as on_lines,
    ):
        yield LineWork(chunks, write, on_lines=on_lines)


def opened_input(
    texts: Sequence[str],
    options: LineOptions,
    columns: str | None,
    layout: TableLayout,
    added: Mapping[str, type],
) -> AbstractContextManager[LineWork]:
    """Returns the work on texts or lines, or on a table, whose rows get columns added.

    Args:
        columns: the columns of the table that are texts; None: the input is no table.
        added: the names and the types of the new columns; a result has them with tabs between.
    """
    path, out = options.input_path, options.output_path
    if columns is not None:
        if texts or path is None:
            raise click.UsageError("with --text, --input must be a table.")
        table = open_table(path, layout)
        if out is not None:
            with option_names():
                table = table.written_as(out.suffix.lower(), is_json=options.is_json)
        return _opened_table(table, columns.split(","), options, added)
    if replace(layout, encoding=None) != DEFAULT_LAYOUT:
        raise click.UsageError("--delimiter and --header are for tables: add --text.")
    if layout.encoding is not None and path is None:
        raise click.UsageError("--encoding is for a file: name it with --input.")
    if path is not None and (suffix := path.suffix.lower()) in (*SUFFIXES, ".tmx"):
        has_columns = "text" in click.get_current_context().params and suffix != ".tmx"
        hint = "; for the rows of a table, add --text COLUMN" if has_columns else ""
        if suffix == ".xlsx":
            raise click.UsageError(f"{path} is no file of lines{hint}.")
        log(f"{path}: every line is a text{hint}")
    return opened(text_input(texts, options, layout.encoding), options)


@contextmanager
def _opened_table(
    table: Table, columns: Sequence[str], options: LineOptions, added: Mapping[str, type]
) -> Iterator[LineWork]:
    """Opens the rows of a table and the output. With ``--json`` they are lines like others."""
    use_threads(options.threads)
    columns = [name.strip() for name in columns]
    table.require(columns)
    names, records = table.added_names([*added]), deque[Record]()
    total = sum(1 for _ in table.rows()) if sys.stderr.isatty() else None

    def texts() -> Iterator[str]:
        for row, record in table.rows():
            if not options.is_json:
                records.append(record)
            yield table.text(row, record, columns)

    with (
        results_to(options.output_path) as write,
        open_rows(texts()) as (chunks, _),
        progress_bar(total, write is print_results) as on_lines,
    ):
        head = [] if options.is_json else [table.first_line(names)]

        def write_row(result: str) -> None:
            if options.is_json:
                write(f"{result}\n")
                return
            if head:  # not before the first result: what cannot be computed has no output
                write(head.pop())
            values = zip_longest(names, added.values(), result.split("\t", len(names) - 1))
            new = {name: kind(value) if value else kind() for name, kind, value in values}
            write(table.line(records.popleft(), new))

        yield LineWork(chunks, write_row, on_lines=on_lines, are_cells=True)
        if head:
            write(head.pop())


def search_and_answer(
    task: str,
    lines_for: Callable[[str, Any], list[str]],
    options: dict[str, Any],
    *,
    column: str = "",
    whole: Callable[[str, Any], list[str]] | None = None,
    categories: Callable[[int, str, Any], Iterable[str]] = lambda number, line, result: (),
) -> Counter[str]:
    """Does the work of ``translate`` and ``couplet``. Returns the counts of lines by category.

    Args:
        lines_for: returns the output lines for an input line and its result; one line where
            several results are asked for.
        options: all options of the command.
        column: the name of the column that results are in, for a command that reads tables.
        whole: returns all output lines for an input line and its result, in place of ``lines_for``
            and of numbers and scores, but not of JSON.
        categories: returns what an input line, whose number counts from 0, and its result count as.
    """
    texts = options.pop("texts")
    line_options = take(LineOptions, options)
    text, layout = options.pop("text", None), layout_of(options)
    how_to_load = take_given(options, "engine", "int8")
    search_options = given(options)
    numbered = not search_options.keys().isdisjoint(("n_best", "candidates"))
    if numbered and text is not None and not line_options.is_json:
        raise click.UsageError("--n-best is for texts, or for tables with --json.")

    def lines_of(number: int, line: str, result: Any) -> list[str]:
        if line_options.is_json:
            record = result.record()
            if numbered:
                record["hypotheses"] = [other.record() for other in result.hypotheses]
            return [as_json(line, record)]
        if whole is not None:
            return whole(line, result)
        if not numbered:
            return lines_for(line, result)
        has_ranks = "candidates" in search_options
        return [
            "\t".join([f"{number + 1}", *([f"{rank}"] * has_ranks), f"{other.score:.4f}", text])
            for rank, other in enumerate(result.hypotheses, start=1)
            for text in lines_for(line, other)
        ]

    with option_names(), opened_input(texts, line_options, text, layout, {column: str}) as work:
        load = task_named(task).load
        predictor: Any = load(line_options.model, device=line_options.device, **how_to_load)
        request = predictor.request_type.of(
            **search_options,
            is_scored=line_options.is_json,
            batch_tokens=line_options.batch_tokens,
            on_batch=work.on_batch,
        )
        predictor.check(request)  # before the first text is read
        for chunk in work.chunks():
            # A text on the command line that is refused ends the program, but no line of a file.
            accepted = chunk.texts if texts else _without_refused(work, chunk, predictor.refusal)
            results = predictor.generate(accepted, replace(request, numbers=chunk.numbers))
            rows = [*zip(chunk.numbers, chunk.lines, results, strict=True)]
            for row in rows:
                work.tally.update(categories(*row))
            work.write(line for row in rows for line in lines_of(*row))
    if refused := work.tally["refused"]:
        raise UserError(f"{refused} of {work.count} lines were refused; their results are empty")
    return work.tally


def _without_refused(
    work: LineWork, chunk: Chunk, refusal: Callable[[str], str | None]
) -> list[str]:
    """Returns the texts of ``chunk``, with "" for each refused one; logs the refusals."""
    texts = []
    for number, text in zip(chunk.numbers, chunk.texts, strict=True):
        if reason := refusal(text):
            log(f"line {number + 1} is refused: {reason}")
            work.tally["refused"] += 1
        texts.append("" if reason else text)
    return texts
