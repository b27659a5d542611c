"""From the lines of an input to those of an output: what all commands on texts and pairs share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import click

from core.distributed.world import world_from_environment
from core.errors import UserError
from tasks import registry
from tasks.commands.options import (
    LineOptions,
    given,
    option_names,
    take,
    use_threads,
)
from tasks.commands.output import STDIO, print_results, progress_bar, results_to
from tasks.streaming.lines import (
    Chunk,
    LineWork,
    as_json,
    full_chunks,
    open_texts,
)

OpenInput = Callable[..., AbstractContextManager[tuple[Iterable[Sequence[str]], int | None]]]
"""Opens lines in chunks, whose size the argument ``chunk_lines`` decides, and their number."""


def text_input(texts: Sequence[str], options: LineOptions) -> OpenInput:
    """Returns the opener of the texts: those of the command line, a file, or standard input.

    Raises:
        UsageError: texts and a file.
    """
    if texts and options.input_file is not None:
        raise click.UsageError("texts come from the command line or from --input, not from both.")
    chosen = () if texts == (str(STDIO),) else texts
    return partial(open_texts, chosen, options.input_path)


@contextmanager
def opened(
    open_input: OpenInput, options: LineOptions, *, is_file: bool
) -> Iterator[tuple[LineWork, str]]:
    """Opens input and output. Yields the work of this process, and its device.

    Under torchrun several processes share the lines; see :mod:`tasks.streaming.sharding`.

    Args:
        is_file: whether the input is a file, which several processes can read.

    Raises:
        UsageError: several processes, and no file.
    """
    use_threads(options.threads)
    world = world_from_environment()
    if world is None or world.size == 1:
        with (
            results_to(options.output_path) as write,
            open_input(chunk_lines=full_chunks) as (chunks, total),
            progress_bar(total, is_stdout_busy=write is print_results) as on_lines,
        ):
            yield LineWork(chunks, write, on_lines=on_lines), options.device
        return
    if not is_file:
        raise click.UsageError("under torchrun all processes read the input: it must be a file.")
    # torch is imported here, so that a process of its own starts faster.
    from core.device import device_of_rank
    from tasks.streaming.sharding import chunk_lines, open_shards

    with (
        open_shards(world, options.output_path) as shards,
        results_to(options.output_path if world.is_main else None) as write,
        open_input(chunk_lines=partial(chunk_lines, size=world.size)) as (chunks, total),
        progress_bar(total if world.is_main else None, is_stdout_busy=False) as on_lines,
    ):

        def report(count: int) -> None:
            on_lines(count)
            shards.report_progress()

        work = LineWork(chunks, shards.write, on_lines=report, rank=world.rank, size=world.size)
        yield work, device_of_rank(options.device, world.local_rank)
        shards.finish(work.count, work.checksum, work.tally)
        # Only the main process fails because of refused lines: torchrun would stop the others.
        work.tally = shards.join(write) if world.is_main else Counter()


def search_and_answer(
    task: str,
    lines_for: Callable[[str, Any], list[str]],
    options: dict[str, Any],
    *,
    is_backward: bool = False,
    kinds_of: Callable[[str, Any], Iterable[str]] = lambda line, result: (),
) -> Counter[str]:
    """Does the work of the commands that search: ``translate`` and ``couplet``.

    Args:
        lines_for: returns the output lines for an input line and its result; one line where
            several results are asked for.
        options: all options of the command.
        is_backward: use the model of the opposite direction in the checkpoint folder.
        kinds_of: returns what an input line and its result count as.

    Returns:
        The counts; none in a process other than rank 0.
    """
    texts = options.pop("texts")
    line_options = take(LineOptions, options)
    search_options = given(options)
    numbered = not search_options.keys().isdisjoint(("n_best", "candidates"))

    def lines_of(number: int, line: str, result: Any) -> list[str]:
        if line_options.is_json:
            record = result.record()
            if numbered:
                record["hypotheses"] = [other.record() for other in result.hypotheses]
            return [as_json(line, record)]
        if not numbered:
            return lines_for(line, result)
        return [
            f"{number + 1}\t{other.score:.4f}\t{text}"
            for other in result.hypotheses
            for text in lines_for(line, other)
        ]

    open_input = text_input(texts, line_options)
    is_file = not texts and line_options.input_path is not None
    with option_names(), opened(open_input, line_options, is_file=is_file) as (work, device):
        predictor = registry.predictor(task, line_options.model, device=device)
        if is_backward:
            predictor = predictor.opposite()
        request = predictor.request_type.of(
            **search_options, batch_tokens=line_options.batch_tokens, on_batch=work.on_batch
        )
        predictor.generate([], request)  # refuses options before the first text is read
        for chunk in work.chunks():
            # A text on the command line that is refused ends the program, but no line of a file.
            taken = chunk.texts if texts else _without_refused(work, chunk, predictor.refusal)
            results = predictor.generate(taken, replace(request, numbers=chunk.numbers))
            rows = [*zip(chunk.numbers, chunk.lines, results, strict=True)]
            for _, line, result in rows:
                work.tally.update(kinds_of(line, result))
            work.write(line for row in rows for line in lines_of(*row))
    if refused := work.tally["refused"]:
        raise UserError(f"{refused} of {work.count} lines were refused; their results are empty")
    return work.tally


def _without_refused(
    work: LineWork, chunk: Chunk, refusal: Callable[[str], str | None]
) -> list[str]:
    """Returns the texts of ``chunk``, with "" for each refused one; logs the refusals."""
    from core.progress import log

    texts = []
    for number, text in zip(chunk.numbers, chunk.texts, strict=True):
        if reason := refusal(text):
            log(f"line {number + 1} is refused: {reason}")
            work.tally["refused"] += 1
        texts.append("" if reason else text)
    return texts
