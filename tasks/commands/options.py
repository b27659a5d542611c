"""The options that commands share, their limits, and the objects that hold their values."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import reduce
from pathlib import Path
from typing import Any, TypeVar, get_args

import click

from core.config import Option, options_of
from core.errors import ConfigError
from core.storage.files import exists, is_folder
from data.tables import TableLayout
from tasks.couplet.request import CoupletRequest
from tasks.runs.checkpoint_folder import Folders
from tasks.seq2seq.request import plain_type
from tasks.task import TASKS, Task, task_named

PATH = click.Path(path_type=Path)


class StreamPath(click.Path):
    """The path of a file; "-" is None: a standard stream."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return None if value == "-" else super().convert(value, param, ctx)


class Text(click.types.StringParamType):
    """Text that could be decoded: Python replaces bad bytes by surrogates."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if any("\ud800" <= character <= "\udfff" for character in value):
            self.fail(f"{value!r} is not valid in this locale's encoding.", param, ctx)
        return value


TEXT = Text()
STREAM = StreamPath(path_type=Path)

# Limits that a machine can take. More threads than this crash OpenMP.
MAX_THREADS = max(256, os.cpu_count() or 1)
MAX_BATCH_TOKENS = 1_000_000

O = TypeVar("O")  # noqa: E741  # O as in options


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """Which model computes, where, and how much at a time."""

    model: Any  # a folder, several where a command takes an ensemble, or None
    device: str
    threads: int | None
    batch_tokens: int | None


@dataclass(frozen=True, kw_only=True)
class LineOptions(ModelOptions):
    """The options of the commands that work on lines. Standard streams have no path."""

    input_path: Path | None
    output_path: Path | None
    is_json: bool

    def __post_init__(self) -> None:
        if (path := self.output_path) is None:
            return
        if not is_folder(path.parent):
            raise ConfigError(f"{path}: there is no folder {path.parent}", option="--output")
        self.refuse_output("--input", self.input_path)

    def refuse_output(self, option: str, source: Path | None) -> None:
        """Raises a UsageError if the results would overwrite the file ``source`` of an option."""
        path = self.output_path
        if path and source and exists(source) and exists(path) and source.samefile(path):
            raise click.UsageError(f"{option} and --output are one file: {path}.")


def take(cls: type[O], options: dict[str, Any]) -> O:
    """Takes the fields of the dataclass ``cls`` out of the options of a command."""
    return cls(**{field.name: options.pop(field.name) for field in fields(cls)})  # type: ignore[arg-type]


def given(options: dict[str, Any]) -> dict[str, Any]:
    """Returns the options that are given; the others are decided by the model or a default."""
    return {name: value for name, value in options.items() if value is not None}


@contextmanager
def option_names() -> Iterator[None]:
    """Says the names of the command's options in errors about values of a configuration."""
    try:
        yield
    except ConfigError as error:
        parameters = click.get_current_context().command.params
        names = {parameter.name: parameter.opts[0] for parameter in parameters}
        name = names.get((error.option or "").removeprefix("generation.").removeprefix("data."))
        if name is None:
            raise
        raise ConfigError(error.reason, option=name) from error


def options_from(cls: Any, *groups: str, has_defaults: bool = False) -> Callable[[Any], Any]:
    """Returns the options of a dataclass (:class:`core.config.Option`) that are in ``groups``.

    Those of a request have no default here: what is not given is left to the model.
    """
    table = options_of(cls)
    made = []
    for item in fields(cls):
        if item.name in table and table[item.name].group in groups:
            default = item.default if has_defaults else None
            made.append(_option(item.name, plain_type(item.type), table[item.name], default))
    return combined(*made)


def _option(name: str, kind: Any, own: Option, default: Any) -> Callable[[Any], Any]:
    flags = [f"--{each.replace('_', '-')}" for each in (own.short, name) if each]
    settings: dict[str, Any] = {"help": own.help, "metavar": own.metavar, "default": default}
    if kind is bool:
        flags = [f"{flags[0]}/--no-{flags[0][2:]}"]
    elif kind is str:
        settings["type"] = TEXT
    elif kind == tuple[str, ...]:
        settings["multiple"] = True
    elif own.most is None:
        settings["type"] = click.Choice(get_args(kind))
    elif kind is int:
        settings["type"] = click.IntRange(int(own.least or 0), int(own.most))
    else:
        least = own.above if own.least is None else own.least
        settings["type"] = click.FloatRange(least, own.most, min_open=own.least is None)
    return click.option(*flags, name, **settings)


def table_assignments(task: Task, options: dict[str, Any]) -> tuple[str, ...]:
    """Takes ``table_options`` out of the options of a command; returns them as assignments.

    Raises:
        UsageError: one of them is not for ``task``.
    """
    names = ("src", "tgt", "text", "label", "delimiter", "header", "encoding")
    short = given({name: options.pop(name) for name in names})
    if others := short.keys() - set(task.table_options):
        raise click.UsageError(f"{task.name} has no --{min(others)}.")
    return tuple(
        f"data.{name}={str(value).lower() if value in (True, False) else value}"
        for name, value in short.items()
    )


def layout_of(options: dict[str, Any]) -> TableLayout:
    """Takes ``layout_options`` out of the options of a command; returns them as a layout.

    Raises:
        ConfigError: there is no such encoding.
    """
    names = ("delimiter", "header", "encoding")
    layout = TableLayout(**given({name: options.pop(name, None) for name in names}))
    with option_names():
        layout.check_layout()
    return layout


def task_argument(command: Any) -> Any:
    """Adds the argument ``task``, which is a :class:`Task`."""
    return click.argument(
        "task", type=click.Choice(TASKS), callback=lambda context, option, name: task_named(name)
    )(command)


def use_threads(count: int | None) -> None:
    """Limits the threads of all computations from now on; None leaves the number to torch."""
    if count is not None:
        import torch

        torch.set_num_threads(count)


def combined(*decorators: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Returns one decorator that applies several, the first on top."""
    return lambda command: reduce(lambda made, wrap: wrap(made), reversed(decorators), command)


def one_or_several(
    ctx: click.Context, parameter: click.Parameter, folders: tuple[Path, ...]
) -> Folders:
    """Returns None for no folder, the folder if there is one, and else all of them."""
    return folders[0] if len(folders) == 1 else folders or None


machine_options = combined(
    click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda or cuda:N."),
    click.option(
        "--threads", type=click.IntRange(1, MAX_THREADS), help="The number of processor cores."
    ),
)
_model_settings: dict[str, Any] = {"type": PATH, "metavar": "FOLDER"}
_model_help = "A checkpoint folder, or the name of a shipped model; else the default one."
model_option = click.option("--model", **_model_settings, help=_model_help)
models_option = click.option(
    "--model",
    **_model_settings,
    multiple=True,
    callback=one_or_several,
    help=f"{_model_help} Several form an ensemble.",
)
batch_option = click.option(
    "--batch-tokens", type=click.IntRange(1, MAX_BATCH_TOKENS), help="The tokens in a batch."
)
DATA_HELP = (
    "A corpus: a folder, a table (CSV, TSV, JSON Lines, .xlsx; .tmx for translation), or a name "
    "from `data list`."
)
data_option = click.option("--data", type=PATH, metavar="FOLDER", help=DATA_HELP)
encoding_option = click.option(
    "--encoding",
    metavar="NAME",
    help="Of a text file or CSV, such as cp1252; else UTF-8, UTF-16 or cp1252, as it seems.",
)
# Short forms of data.text, data.label and the like.
layout_options = combined(
    click.option(
        "--delimiter",
        metavar="CHARACTER",
        help="Between the columns of a CSV file, or tab; else found.",
    ),
    click.option(
        "--header/--no-header",
        default=None,
        help="Whether a table begins with the names of its columns; else these are 1, 2...",
    ),
    encoding_option,
)
text_option = click.option(
    "--text", metavar="NAMES", help="The columns of a table with the text, separated by commas."
)
table_options = combined(
    click.option("--src", metavar="LANG", help="Translation: the source language; else de."),
    click.option("--tgt", metavar="LANG", help="Translation: the target language; else en."),
    text_option,
    click.option("--label", metavar="NAME", help="Classification: the column with the label."),
    layout_options,
)
json_option = click.option(
    "--json", "is_json", is_flag=True, help="Print one JSON object per line, with scores."
)

engine_options = combined(
    click.option(
        "--engine",
        type=click.Choice(["torch", "ctranslate2"]),
        help="What translates: this program (torch), or CTranslate2, which is faster.",
    ),
    click.option(
        "--int8",
        is_flag=True,
        default=None,
        help="Translate with CTranslate2 in 8-bit integers. Outputs may differ, also with the "
        "batch.",
    ),
)
search_options = options_from(CoupletRequest, "search")
length_options = options_from(CoupletRequest, "length")
output_options = options_from(CoupletRequest, "output")
result_options = combined(
    click.option("--output", "output_path", type=STREAM, help="Write the results to a file."),
    json_option,
    machine_options,
    batch_option,
)
text_options = combined(
    click.argument("texts", metavar="[TEXT]...", nargs=-1, type=TEXT),
    click.option(
        "--input", "input_path", type=STREAM, help="Read texts from a file, one per line."
    ),
    result_options,
)
