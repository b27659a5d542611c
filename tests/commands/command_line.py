"""Runs the command line inside the process of the test."""

from click.testing import CliRunner, Result

import cli


def run(*arguments: object) -> Result:
    """Runs a command; an exception that it did not handle is in ``exception`` of the result."""
    return CliRunner().invoke(cli.main, [str(argument) for argument in arguments])


def lines_of(*arguments: object, has_notes: bool = False) -> list[str]:
    """Returns the lines on stdout of a command that must succeed, with nothing on stderr.

    ``has_notes``: there, it may say which results are doubtful, and how many texts are unfamiliar.
    """
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    assert has_notes or result.stderr == ""
    return result.stdout.removesuffix("\n").split("\n")


def error_of(code: int, *arguments: object) -> str:
    """Returns the last line on stderr of a command that must fail with ``code`` and no result."""
    result = run(*arguments)
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    last = result.stderr.splitlines()[-1]
    assert last.startswith("error: ")
    return last
