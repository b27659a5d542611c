"""The fuzzing program notices what it is there for, and its first cases pass."""

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from tests import fuzz


def verdict(command: str) -> str:
    """Returns the verdict on a program with this body."""

    @click.command()
    def program() -> None:
        exec(command, {"click": click})

    return fuzz.verdict(CliRunner().invoke(program, []), lambda result: "")


@pytest.mark.parametrize(
    ("command", "fault"),
    [
        ("click.echo('well')", ""),
        ("click.echo('error: no such file', err=True); exit(1)", ""),
        ("1 / 0", "a traceback"),
        ("exit(3)", "exit code 3"),
        ("exit(1)", "no error message"),
        ("click.echo('error: \\x07', err=True); exit(1)", "an error message with '\\x07'"),
        ("click.echo('error: ' + 'x' * 9999, err=True); exit(2)", "an error message of 10006"),
        ("click.echo('Traceback (most recent ...', err=True)", "a traceback on stderr"),
    ],
)
def test_faults_are_noticed(command: str, fault: str) -> None:
    found = verdict(command)
    assert found.startswith(fault) and bool(found) == bool(fault)


def test_the_first_cases_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRANSFORMER_SUITE_DATA", str(tmp_path / "data"))
    world = fuzz.prepare(tmp_path)
    for number in range(1, 15):
        assert fuzz.try_case(world, 1, number, limit=60, verbose=False) == ""
