"""From the lines of an input to those of an output: what all commands for texts and pairs share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import click

from transformer_suite.core.distributed.world import world_from_environment
from transformer_suite.tasks.commands.console import (
    given,
    print_results,
    progress_bar,
    results_to,
    use_threads,
)
from transformer_suite.tasks.runs.checkpoint_folder import Folders
from transformer_suite.tasks.streaming.lines import ChunkLines, Predict
from transformer_suite.tasks.streaming.ranks.joined import joined


class OpenInput(Protocol):
    """Opens lines, in chunks of the size that is asked for, and says how many there are."""

    def __call__(
        self, *, chunk_lines: ChunkLines
    ) -> AbstractContextManager[tuple[Iterable[Sequence[str]], int | None]]: ...


def stream(
    open_input: OpenInput,
    load: Callable[[Any, str], Predict],
    show: Callable[[str, Any], Iterable[str]],
    *,
    output_file: Path | None,
    model: Folders,
    device: str,
    threads: int | None,
    batch_tokens: int | None,
) -> None:
    """Sends lines through a predictor, and what comes of them where the options say.

    Under torchrun all processes share the work.

    Args:
        load: from the folders of a model and the name of a device to the predictor.
        show: the lines for a text and its result.
    """
    with (
        joined() as ranks,
        results_to(output_file if ranks.is_main else None) as write,
        open_input(chunk_lines=ranks.chunk_lines) as (chunks, total),
    ):
        use_threads(threads)
        predict = partial(load(model, ranks.device(device)), **given(batch_tokens=batch_tokens))
        shown_total = total if ranks.is_main else None
        with progress_bar(shown_total, is_stdout_busy=write is print_results) as on_lines:
            ranks.answer(chunks, predict, show, write, on_lines=on_lines)


def check_input(is_file: bool) -> None:
    """Refuses input that only one of several processes could read.

    Raises:
        UsageError: several processes, and no file.
    """
    world = world_from_environment()
    if world is not None and world.size > 1 and not is_file:
        raise click.UsageError("under torchrun, where all processes read it, the input is a file.")
