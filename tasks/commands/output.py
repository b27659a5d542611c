"""How commands print results, progress and tables."""

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from click.exceptions import Exit

from core.errors import UserError
from core.storage.files import reason_of
from tasks.seq2seq.request import ignore_batch
from tasks.streaming.lines import open_output


def print_results(text: str) -> None:
    """Writes to stdout and flushes it. If its reader has left, the program ends with code 0."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        discard_stdout()
        if isinstance(error, BrokenPipeError):
            raise Exit(0) from error
        raise UserError(f"standard output: cannot write: {reason_of(error)}") from error


def discard_stdout() -> None:
    """Sends stdout to nowhere, so that its buffer, which cannot be written, is lost at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def results_to(path: Path | None) -> Iterator[Callable[[str], object]]:
    """Yields the function that writes results: to ``path``, or to stdout for None."""
    if path is None:
        yield print_results
    else:
        with open_output(path) as write:
            yield write


@contextmanager
def progress_bar(
    total: int | None, is_stdout_busy: bool, *, is_typed: bool = False
) -> Iterator[Callable[[int], None]]:
    """Yields a function that counts finished lines in a bar on stderr, if that is a terminal.

    There is no bar when results appear in the same terminal, or when a person writes the lines.
    """
    if is_typed or not sys.stderr.isatty() or (is_stdout_busy and sys.stdout.isatty()):
        yield ignore_batch
        return
    from core.progress import Progress

    with Progress(total, "lines", unit="line") as bar:
        yield bar.advance


def table(rows: Sequence[Sequence[object]]) -> str:
    """Returns rows as lines with aligned columns, and fractions with two digits."""
    cells = [[f"{c:.2f}" if isinstance(c, float) else str(c) for c in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in cells)
    return "".join(f"{line.rstrip()}\n" for line in lines)


def as_toml(sections: Mapping[str, Mapping[str, Any]]) -> str:
    """Returns the sections of a configuration as TOML, which ``train`` reads back."""
    blocks = []
    for name, section in sections.items():
        lines = (f"{key} = {_toml_value(value)}\n" for key, value in section.items())
        blocks.append(f"[{name}]\n{''.join(lines)}")
    return "\n".join(blocks)


def _toml_value(value: Any) -> str:
    if value is None:
        return '"none"'  # TOML has no null
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key} = {_toml_value(item)}' for key, item in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml_value, value))}]"
    return json.dumps(value, ensure_ascii=False)  # the same as in TOML for these types
