"""The fuzzing program notices what it is there for, and its first cases pass."""

from pathlib import Path
from random import Random

import click
import pytest
from click.testing import CliRunner, Result

from tests import fuzz
from tests.fuzz_damage import damage


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


def test_a_changed_answer_is_noticed() -> None:
    result = Result(CliRunner(), b"b", b"", b"b", None, 0, None)
    assert fuzz.verdict(result, lambda result: f"another answer: {result.stdout}").endswith("b")


@pytest.mark.parametrize("name", ["a.json", "a.txt", "a.safetensors"])
def test_damage_depends_on_the_seed_alone(tmp_path: Path, name: str) -> None:
    for seed in range(100):
        done = []
        for attempt in ("first", "second"):
            path = tmp_path / f"{seed} {attempt}" / name
            path.parent.mkdir()
            path.write_text(
                '{"a": [1, 2], "b": {"c": "text"}}\nmore\n' if "txt" in name else '{"a": 1}'
            )
            done.append(damage(path, Random(seed)))
            is_plain = path.is_file() and not path.is_symlink()
            done.append(path.read_bytes().hex() if is_plain else "")
        assert done[:2] == done[2:]


def test_the_first_cases_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRANSFORMER_SUITE_DATA", str(tmp_path / "data"))
    world = fuzz.prepare(tmp_path)
    for number in range(1, 15):
        assert fuzz.try_case(world, 1, number, limit=60, verbose=False) == ""
