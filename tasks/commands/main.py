"""The group of all commands: it imports a command when it is called, and reports its errors."""

import errno
import importlib
import io
import logging
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import click
from click.exceptions import Exit, NoArgsIsHelpError, NoSuchOption
from click.shell_completion import shell_complete

from core.config import nearest
from core.distributed.world import is_first_to_fail
from core.errors import ConfigError, Interrupted, UserError, shorten
from data.corpora import data_folder
from tasks.commands.output import discard_stdout
from tasks.commands.signals import StopSignals
from tasks.streaming.lines import one_line
from transformer_suite import __version__

COMMANDS = (
    "translate",
    "classify",
    "couplet",
    "score",
    "train",
    "evaluate",
    "synthesize",
    "bulk",
    "export",
    "plot",
    "models",
    "data",
    "serve",
)
"""The commands. Each is in the module of this package that has its name."""

_OUTPUT_ERRORS = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)

_MAX_MESSAGE = 1000  # characters


class Program(click.Group):
    """A group of commands whose errors become messages of one line and exit codes."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = getattr(importlib.import_module(f".{name}", __package__), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            raise click.UsageError(f"no such command: {args[0]!r}{nearest(args[0], COMMANDS)}", ctx)
        return super().resolve_command(ctx, args)

    def main(  # type: ignore[override]  # it always ends the program
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> NoReturn:
        """Runs a command and ends the program.

        click's own method is not used: it prints tracebacks or usage in places where this program
        prints one line, and it adds several frames to the stack.
        """
        _repair_streams()
        name = prog_name or Path(sys.argv[0]).name
        _complete_in_shell(self, name)
        arguments = list(sys.argv[1:] if args is None else args)
        try:
            with StopSignals(), self.make_context(name, arguments[:], **extra) as context:
                self.invoke(context)
            code = 0
        except BaseException as error:
            called = arguments[:1] if arguments[:1] and arguments[0] in COMMANDS else []
            code = report(error, " ".join([name, *called]))
        sys.exit(code)


@click.group(cls=Program, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="%(prog)s %(version)s")
def main() -> None:
    """One Transformer, three applications: translation, classification, couplets."""
    with suppress(RuntimeError):  # there is no home
        # Where matplotlib remembers the fonts of a machine.
        os.environ.setdefault("MPLCONFIGDIR", str(data_folder() / "matplotlib"))
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # it warns where it cannot


def report(error: BaseException, command: str) -> int:
    """Prints one line about ``error`` and returns the exit code; raises an error that is a bug."""
    match error:
        case Exit():
            return error.exit_code
        case click.UsageError():
            _print(f"error: {_usage_message(error, command)}")
            return error.exit_code
        case UserError():
            _print(f"error: {error}")
            return 2 if isinstance(error, ConfigError) else 1
        case Interrupted() | KeyboardInterrupt():
            if str(error):
                _print(str(error))
            return 130
        case OSError() if error.errno in _OUTPUT_ERRORS and error.filename is None:
            discard_stdout()
            if error.errno == errno.EPIPE:
                return 0
            _print(f"error: standard output: cannot write: {error.strerror}")
            return 1
        case _ if _is_out_of_memory(error):
            _print("error: out of memory: try a smaller --batch-tokens, --beam or model")
            return 1
    raise error


def _usage_message(error: click.UsageError, command: str) -> str:
    message, hint = error.format_message(), ""
    if isinstance(error, NoSuchOption):  # click suggests names that are hardly alike
        names = [name.lstrip("-") for name in error.possibilities or ()]
        message, hint = error.message, nearest(error.option_name.lstrip("-"), names, prefix="--")
    message = " ".join(message.split()).removesuffix(".") + hint
    if context := error.ctx:
        command = context.command_path
        if isinstance(error, NoArgsIsHelpError) and isinstance(context.command, click.Group):
            message = f"a command is missing: {', '.join(context.command.list_commands(context))}"
        takes_texts = any(parameter.name == "texts" for parameter in context.command.params)
        if isinstance(error, NoSuchOption) and takes_texts and not hint:
            message += "; before a text that begins with a dash, put --"
    return f"{message}; see {command} --help"


def _print(message: str) -> None:
    if is_first_to_fail():
        click.echo(_shown(message), err=True)


def _shown(message: str) -> str:
    """Returns a message in one short line: names and values in it come from files of any size."""
    return shorten(one_line(message), _MAX_MESSAGE)


def _is_out_of_memory(error: BaseException) -> bool:
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    reasons = ("can't allocate memory", "CUBLAS_STATUS_ALLOC_FAILED")
    return isinstance(error, RuntimeError) and any(reason in str(error) for reason in reasons)


def _repair_streams() -> None:
    """Replaces streams that are closed, and makes output UTF-8 in every locale."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:  # closed by the parent process
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115  # until the end
        elif mode == "w" and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def _complete_in_shell(group: click.Group, name: str) -> None:
    """Answers a shell that asks for completions, as click documents it, and ends."""
    variable = f"_{name}_COMPLETE".replace("-", "_").replace(".", "_").upper()
    if instruction := os.environ.get(variable):
        sys.exit(shell_complete(group, {}, name, variable, instruction))
