"""The options and arguments that commands share, as decorators: ``@parameters.search``."""

from collections.abc import Callable
from dataclasses import fields
from functools import reduce
from pathlib import Path
from typing import Any, get_args

import click

from core.config import Option, options_of
from tasks.commands.options import MAX_BATCH_TOKENS, MAX_THREADS, PATH, STREAM, TEXT
from tasks.couplet.request import CoupletRequest
from tasks.runs.checkpoint_folder import Folders
from tasks.seq2seq.request import plain_type
from tasks.task import TASKS, task_named


def from_fields(cls: Any, *groups: str, has_defaults: bool = False) -> Callable[[Any], Any]:
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


def task(command: Any) -> Any:
    """Adds the argument ``task``, which is a :class:`Task`."""
    return click.argument(
        "task", type=click.Choice(TASKS), callback=lambda context, option, name: task_named(name)
    )(command)


def combined(*decorators: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Returns one decorator that applies several, the first on top."""
    return lambda command: reduce(lambda made, wrap: wrap(made), reversed(decorators), command)


def _model_folders(
    ctx: click.Context, parameter: click.Parameter, folders: tuple[Path, ...]
) -> Folders:
    """Returns None for no folder, the folder if there is one, and else all of them."""
    return folders[0] if len(folders) == 1 else folders or None


machine = combined(
    click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda or cuda:N."),
    click.option(
        "--threads", type=click.IntRange(1, MAX_THREADS), help="The number of processor cores."
    ),
)
_model_settings: dict[str, Any] = {"type": PATH, "metavar": "FOLDER"}
_model_help = "A checkpoint folder, or the name of a shipped model; else the default one."
model = click.option("--model", **_model_settings, help=_model_help)
models = click.option(
    "--model",
    **_model_settings,
    multiple=True,
    callback=_model_folders,
    help=f"{_model_help} Several form an ensemble.",
)
batch = click.option(
    "--batch-tokens", type=click.IntRange(1, MAX_BATCH_TOKENS), help="The tokens in a batch."
)
CORPUS_HELP = (
    "A corpus: a folder, a table (CSV, TSV, JSON Lines, .xlsx; .tmx for translation; none for "
    "couplets), or a name from `data list`."
)
corpus = click.option("--data", type=PATH, metavar="FOLDER", help=CORPUS_HELP)


def corpora(help: str, **settings: Any) -> Callable[[Any], Any]:
    """Returns the option of several corpora."""
    settings |= {"type": PATH, "metavar": "FOLDER", "multiple": True, "help": help}
    return click.option("--data", "corpora", **settings)


encoding = click.option(
    "--encoding",
    metavar="NAME",
    help="Of a text file or CSV, such as cp1252; else UTF-8, UTF-16 or cp1252, as it seems.",
)
# Short forms of data.text, data.label and the like.
layout = combined(
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
    encoding,
)
text = click.option(
    "--text", metavar="NAMES", help="The columns of a table with the text, separated by commas."
)
table = combined(
    click.option("--src", metavar="LANG", help="Translation: the source language; else de."),
    click.option("--tgt", metavar="LANG", help="Translation: the target language; else en."),
    text,
    click.option("--label", metavar="NAME", help="Classification: the column with the label."),
    layout,
)
json = click.option(
    "--json", "is_json", is_flag=True, help="Print one JSON object per line, with scores."
)

engine = combined(
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
search = from_fields(CoupletRequest, "search")
length = from_fields(CoupletRequest, "length")
output = from_fields(CoupletRequest, "output")
results = combined(
    click.option("--output", "output_path", type=STREAM, help="Write the results to a file."),
    json,
    machine,
    batch,
)
texts = combined(
    click.argument("texts", metavar="[TEXT]...", nargs=-1, type=TEXT),
    click.option(
        "--input", "input_path", type=STREAM, help="Read texts from a file, one per line."
    ),
    results,
)
