"""The command line run inside the test's own process."""

from click.testing import CliRunner, Result

import cli


def run(*arguments: object) -> Result:
    """The command and how it ended; exceptions that it should have handled are in ``exception``."""
    return CliRunner().invoke(cli.main, [str(argument) for argument in arguments])


def lines_of(*arguments: object) -> list[str]:
    """The lines that a command which must succeed prints on stdout; stderr must stay empty."""
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    return result.stdout.removesuffix("\n").split("\n")


def error_of(code: int, *arguments: object) -> str:
    """The last line on stderr of a command that must fail with ``code``, printing no result."""
    result = run(*arguments)
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    last = result.stderr.splitlines()[-1]
    assert last.startswith("error: ")
    return last
