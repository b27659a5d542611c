"""What the commands share: options, exit codes, and how results, errors and progress are shown."""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click
from click.exceptions import Exit

from transformer_suite.core.decoding.config import GenerationConfig
from transformer_suite.core.distributed.world import World, world_from_environment
from transformer_suite.core.errors import ConfigError, Interrupted, UserError
from transformer_suite.core.storage.files import reason_of
from transformer_suite.tasks.streaming.lines import ignore, one_line, open_output

if TYPE_CHECKING:
    from transformer_suite.core.distributed.process_group import ProcessGroup

PATH = click.Path(path_type=Path)
STDIO = Path("-")


class Failure(click.ClickException):
    """An error of the user's, said in one line."""

    def __init__(self, error: UserError) -> None:
        super().__init__(one_line(str(error)))
        self.error = error

    @property
    def exit_code(self) -> int:  # type: ignore[override]  # click has a constant here
        return 2 if isinstance(self.error, ConfigError) else 1

    def show(self, file: IO[Any] | None = None) -> None:
        if self.message:
            click.echo(f"error: {self.message}", err=True)


class Program(click.Group):
    """Commands whose errors become messages and exit codes."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
            stream = getattr(sys, name)
            if stream is None:  # closed by whoever started the program
                setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115  # to the end
            elif mode == "w" and isinstance(stream, io.TextIOWrapper):  # whatever the locale
                stream.reconfigure(encoding="utf-8", errors="backslashreplace")
        return super().main(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            # All of torchrun's processes have the same arguments: one of them complains.
            if is_first_process():
                raise
            raise Exit(error.exit_code) from error
        except UserError as error:
            raise Failure(error) from error
        except (Interrupted, KeyboardInterrupt) as stop:
            if str(stop):
                click.echo(one_line(str(stop)), err=True)
            raise Exit(130) from stop


def is_first_process() -> bool:
    """Whether this process is the one to say what all that torchrun has started would say."""
    try:
        world = world_from_environment()
    except ConfigError:
        return True
    return world is None or world.is_main


def all_of(*decorators: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """One decorator that does what several do, the first on top."""

    def decorate(command: Any) -> Any:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return decorate


def check_device(ctx: click.Context, parameter: click.Parameter, name: str) -> str:
    """Refuses a name that no device has; whether this machine has it is found out later."""
    if not re.fullmatch(r"auto|cpu|cuda(:[0-9]+)?", name):
        raise click.BadParameter(f"{name!r} is not one of auto, cpu, cuda, cuda:N.")
    return name


def check_texts(
    ctx: click.Context, parameter: click.Parameter, texts: tuple[str, ...]
) -> tuple[str, ...]:
    """Refuses texts that cannot be, or cannot stand together."""
    if str(STDIO) in texts and len(texts) > 1:
        raise click.BadParameter("'-' (standard input) cannot stand beside other texts.")
    for number, text in enumerate(texts, start=1):
        if not is_text(text):
            raise click.BadParameter(f"text {number} is not valid in this locale's encoding.")
    return texts


def check_prefix(ctx: click.Context, parameter: click.Parameter, text: str | None) -> str | None:
    """Refuses what is no text."""
    if text is not None and not is_text(text):
        raise click.BadParameter("it is not valid in this locale's encoding.")
    return text


def is_text(argument: str) -> bool:
    """Whether no byte of an argument was undecodable: Python hands those over as surrogates."""
    return not any("\ud800" <= character <= "\udfff" for character in argument)


machine_options = all_of(
    click.option(
        "--device",
        default="auto",
        show_default=True,
        callback=check_device,
        help="auto, cpu, cuda or cuda:N.",
    ),
    click.option("--threads", type=click.IntRange(min=1), help="How many processor cores to use."),
)
model_option = click.option(
    "--model", type=PATH, metavar="FOLDER", help="A checkpoint folder; else the model that ships."
)
models_option = click.option(
    "--model",
    type=PATH,
    metavar="FOLDER",
    multiple=True,
    callback=lambda ctx, parameter, folders: folders[0] if len(folders) == 1 else folders or None,
    help="A checkpoint folder; else the model that ships. Several together are an ensemble.",
)
batch_option = click.option(
    "--batch-tokens", type=click.IntRange(min=1), help="Tokens to work on at a time."
)

# The options of a search are called as in core.decoding.config, for which see search_given.
search_options = all_of(
    click.option(
        "--beam", "beam_size", type=click.IntRange(min=1), help="Width of the beam; 1 is greedy."
    ),
    click.option(
        "--length-penalty",
        type=click.FloatRange(0, 10),
        help="How much long outputs gain; 0 favours short ones.",
    ),
    click.option(
        "--diverse",
        "diversity",
        type=click.FloatRange(min=0),
        metavar="STRENGTH",
        help="Make the outputs of the beam differ; 0.2 to 0.8 is usual.",
    ),
    click.option(
        "--sample/--no-sample", default=None, help="Draw words by chance instead of a beam."
    ),
    click.option(
        "--temperature",
        type=click.FloatRange(min=0, min_open=True),
        help="With --sample: below 1 likely words grow likelier.",
    ),
    click.option(
        "--top-k",
        type=click.IntRange(min=0),
        help="With --sample: draw from the K likeliest words; 0 is all.",
    ),
    click.option(
        "--top-p",
        type=click.FloatRange(0, 1, min_open=True),
        help="With --sample: draw from the likeliest words that have probability P together.",
    ),
    click.option(
        "--seed",
        type=click.IntRange(0, 2**32 - 1),
        help="With --sample: another seed, other outputs; else 0.",
    ),
    click.option(
        "--int8/--no-int8",
        default=None,
        help="Compute with weights of 8 bits: faster on a CPU, outputs may differ a little.",
    ),
)
length_options = all_of(
    click.option("--max-length", type=click.IntRange(min=1), help="The most tokens of an output."),
    click.option(
        "--max-length-ratio",
        type=click.FloatRange(min=0),
        help="An output may have so many times its source's tokens,",
    ),
    click.option(
        "--max-length-extra",
        type=click.IntRange(min=0),
        help="and so many more.",
    ),
    click.option(
        "--min-length-ratio",
        type=click.FloatRange(min=0),
        help="An output has at least so many times its source's tokens.",
    ),
    click.option(
        "--no-repeat-ngram",
        type=click.IntRange(min=0),
        metavar="N",
        help="No N tokens in a row come twice in an output; 0: they may.",
    ),
)
output_options = all_of(
    click.option(
        "--n-best",
        type=click.IntRange(min=1),
        metavar="N",
        help="Print the N best outputs: number of the text, score, output.",
    ),
    click.option(
        "--prefix", metavar="TEXT", callback=check_prefix, help="What every output begins with."
    ),
)
result_options = all_of(
    click.option("--output", "output_file", type=PATH, help="Write the results to a file."),
    click.option("--json", "is_json", is_flag=True, help="One JSON object a line, with scores."),
    machine_options,
    batch_option,
)
text_options = all_of(
    click.argument("texts", metavar="[TEXT]...", nargs=-1, callback=check_texts),
    click.option("--input", "input_file", type=PATH, help="Read texts from a file, one a line."),
    result_options,
)


def given(**options: Any) -> dict[str, Any]:
    """The options that were given; those that were not are for others to decide."""
    return {name: value for name, value in options.items() if value is not None}


def search_given(options: dict[str, Any]) -> dict[str, Any]:
    """Takes the options of a search out of a command's, and returns those that were given."""
    names = {"prefix", *(field.name for field in fields(GenerationConfig))}
    return given(**{name: options.pop(name) for name in sorted(names & options.keys())})


@contextmanager
def option_names() -> Iterator[None]:
    """Calls what an error says of the search by the command's own names for it."""
    names = {one.name: one.opts[0] for one in click.get_current_context().command.params}
    try:
        yield
    except ConfigError as error:
        message = re.sub(
            r"\bgeneration\.(\w+)", lambda match: names.get(match[1], match[0]), str(error)
        )
        raise ConfigError(message) from error


def use_threads(count: int | None) -> None:
    """Bounds the threads of every computation from now on; None leaves it to torch."""
    if count is not None:
        import torch

        torch.set_num_threads(count)


@contextmanager
def group_of(world: World | None, device: str) -> Iterator[tuple[ProcessGroup | None, str]]:
    """Joins the processes of ``world``, so that what ends them all is said once.

    Gives them as a group, and the device that this one takes where ``device`` is asked for.
    """
    if world is None:
        yield None, device
        return
    from transformer_suite.core.device import choose_device, device_of_rank
    from transformer_suite.core.distributed.process_group import joined_group

    device = device_of_rank(device, world.local_rank)
    advice = "--resume, with the same folders, goes on from the last saved state"
    with joined_group(world, choose_device(device), advice=advice) as group:
        yield group, device


def print_results(text: str) -> None:
    """Writes to stdout, at once. When its reader has left, so does the program, in peace."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        # What is still in the buffer can go nowhere, and must not be tried again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise Exit(0) from error
        raise UserError(f"standard output: cannot write: {reason_of(error)}") from error


@contextmanager
def results_to(path: Path | None) -> Iterator[Callable[[str], object]]:
    """What writes results: to ``path``, or to stdout where that is None or "-"."""
    if path in (None, STDIO):
        yield print_results
    else:
        with open_output(path) as write:
            yield write


@contextmanager
def progress_bar(total: int | None, *, is_stdout_busy: bool) -> Iterator[Callable[[int], None]]:
    """What hears of finished lines: a bar on stderr, where that is a terminal of its own."""
    if total is None or not sys.stderr.isatty() or (is_stdout_busy and sys.stdout.isatty()):
        yield ignore
        return
    from transformer_suite.core.progress import Progress

    with Progress(total, "lines", unit="line") as bar:
        yield bar.advance


def table(rows: Sequence[Sequence[object]]) -> str:
    """Rows as lines, with columns of one width each."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in cells)
    return "".join(f"{line.rstrip()}\n" for line in lines)
