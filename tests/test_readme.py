"""What the READMEs show is what the program prints."""

import dataclasses
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands.command_line import run
from transformer_suite.core.training.config import TrainConfig

ROOT = Path(__file__).resolve().parents[1]
READMES = ("README.md", "README.zh.md")


def examples(readme: str) -> Iterator[tuple[str, str]]:
    """Every ``$ cli.py ...`` in an indented block, with what is printed under it."""
    command, printed = "", [""]
    for line in (ROOT / readme).read_text(encoding="utf-8").splitlines():
        if line.startswith("    $ cli.py "):
            if command:
                yield command, "\n".join(printed)
            command, printed = line.removeprefix("    $ cli.py "), []
        elif line.startswith("    "):
            printed.append(line[4:])
        elif command:
            yield command, "\n".join(printed)
            command = ""


CASES = [(readme, *example) for readme in READMES for example in examples(readme)]


@pytest.mark.parametrize(("readme", "command", "printed"), CASES)
def test_an_example_prints_what_it_shows(readme: str, command: str, printed: str) -> None:
    done = run(*shlex.split(command))
    assert done.exit_code == 0, done.stderr
    assert done.stdout.rstrip("\n") == printed


@pytest.mark.parametrize("readme", READMES)
def test_there_are_examples_in_three_languages(readme: str) -> None:
    commands = {command.split()[0] for name, command, _ in CASES if name == readme}
    assert {"translate", "classify", "couplet"} <= commands


@pytest.mark.parametrize("readme", READMES)
def test_every_file_that_is_linked_is_there(readme: str) -> None:
    text = (ROOT / readme).read_text(encoding="utf-8")
    links = [part.split(")")[0] for part in text.split("](")[1:]]
    assert links
    for link in links:
        assert link.startswith("https://") or (ROOT / link).exists(), link


def test_both_have_the_same_examples() -> None:
    first, second = (list(examples(readme)) for readme in READMES)
    assert first == second


@pytest.mark.parametrize("readme", READMES)
def test_every_training_option_that_is_named_exists(readme: str) -> None:
    """In the table of options and in the prose."""
    text = (ROOT / readme).read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if re.match(r"\| `[a-z_]+`", line)]
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    named |= set(re.findall(r"--set train\.([a-z]\w*)=", text))
    options = {option.name for option in dataclasses.fields(TrainConfig)}
    assert {"optimizer", "r_drop", "ema", "epochs", "precision"} <= named
    assert named <= options
