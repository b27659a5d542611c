"""The values of options: their types and limits, and the objects that hold them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import click

from core.errors import ConfigError, UserError
from core.storage.files import exists, is_folder
from data.tables import TableLayout
from tasks.task import Task


class FilePath(click.Path):
    """The path of a file or folder; "", of a variable without a value, is none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("the path is empty.", param, ctx)
        return super().convert(value, param, ctx)


class StreamPath(FilePath):
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
PATH = FilePath(path_type=Path)
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
        require_folder_of(path)
        self.refuse_output("--input", self.input_path)

    def refuse_output(self, option: str, source: Path | None) -> None:
        """Raises a UsageError if the results would overwrite the file ``source`` of an option."""
        path = self.output_path
        if path and source and exists(source) and exists(path) and source.samefile(path):
            raise click.UsageError(f"{option} and --output are one file: {path}.")


def require_folder_of(path: Path, option: str = "--output") -> None:
    """Raises a ConfigError if the file ``path`` of an option would be in no folder."""
    if not is_folder(path.parent):
        raise ConfigError(f"{path}: there is no folder {path.parent}", option=option)


def require_packages(*names: str, otherwise: str) -> None:
    """Raises a UserError with the message ``otherwise`` unless all packages are installed."""
    if any(find_spec(name) is None for name in names):
        raise UserError(otherwise)


def take(cls: type[O], options: dict[str, Any]) -> O:
    """Takes the fields of the dataclass ``cls`` out of the options of a command."""
    return cls(**{field.name: options.pop(field.name) for field in fields(cls)})  # type: ignore[arg-type]


def given(options: dict[str, Any]) -> dict[str, Any]:
    """Returns the options that are given; the others are decided by the model or a default."""
    return {name: value for name, value in options.items() if value is not None}


def take_given(options: dict[str, Any], *names: str) -> dict[str, Any]:
    """Removes the named options from those of a command, and returns the ones that are set."""
    return given({name: options.pop(name, None) for name in names})


@contextmanager
def option_names() -> Iterator[None]:
    """Says the names of the command's options in errors about values of a configuration."""
    try:
        yield
    except ConfigError as error:
        parameters = click.get_current_context().command.params
        names = {parameter.name: parameter.opts[0] for parameter in parameters}
        name = names.get((error.option or "").rpartition(".")[2])
        if name is None:
            raise
        raise ConfigError(error.reason, option=name) from error


def table_assignments(task: Task, options: dict[str, Any]) -> tuple[str, ...]:
    """Takes ``parameters.table`` out of ``options``; returns assignments or raises a UsageError."""
    names = ("src", "tgt", "text", "label", "delimiter", "header", "encoding")
    short = take_given(options, *names)
    if others := short.keys() - set(task.table_options):
        raise click.UsageError(f"{task.name} has no --{min(others)}.")
    return tuple(
        f"data.{name}={str(value).lower() if value in (True, False) else value}"
        for name, value in short.items()
    )


def layout_of(options: dict[str, Any]) -> TableLayout:
    """Takes ``parameters.layout`` out of ``options``. Raises a ConfigError for a wrong value."""
    layout = TableLayout(**take_given(options, "delimiter", "header", "encoding"))
    with option_names():
        layout.check_layout()
    return layout


def use_threads(count: int | None) -> None:
    """Limits the threads of all computations from now on; None leaves the number to torch."""
    if count is not None:
        import torch

        torch.set_num_threads(count)
