"""The entry point: help, usage, errors, exit codes."""

import configparser
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cli
from core.errors import Interrupted
from data import fetching
from tasks.commands.main import COMMANDS, _shown
from tests.commands.command_line import error_of, lines_of, run

Models = Callable[[str], Path]


def test_help_names_every_command() -> None:
    text = "\n".join(lines_of("--help"))
    for name in COMMANDS:
        assert re.search(rf"^  {name} ", text, re.MULTILINE)


def test_the_version_is_that_of_the_package() -> None:
    package = configparser.ConfigParser()
    package.read(Path(cli.__file__).with_name("setup.cfg"), encoding="utf-8")
    assert lines_of("--version")[0].endswith(f" {package['metadata']['version']}")


@pytest.mark.parametrize(
    "arguments",
    [
        "nonsense",
        "translate --nonsense",
        "translate --beam 0 Hund",
        "translate --device tpu Hund",
        "translate --input german.txt Hund",
        "translate Hund -",
        "translate Hund \udcff",
        "classify --top 0 Hund",
        "classify --explain --top 2 Hund",
        "couplet --paper a4 Hund",
        "score translation --src a.de --tgt a.en --input a.tsv",
        "score translation Hund",
        "train translation --set nonsense",
        "train translation --set train.epochs=0",
        "train translation --resume --preset tiny",
        "evaluate classification --beam 2",
        "data fetch nonsense",
        "data verify nonsense",
    ],
)
def test_wrong_usage_has_exit_code_2(arguments: str, in_tmp: Path) -> None:
    error_of(2, *arguments.split(" "))
    assert list(in_tmp.iterdir()) == []


def test_bulk_without_ray_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.commands.options.find_spec", lambda name: None)
    assert "pip install" in error_of(1, "bulk", "translate", "a.txt", "--output", "b")


def test_the_message_about_an_unknown_name_has_the_nearest_known_one(in_tmp: Path) -> None:
    assert "did you mean 'tiny'?" in error_of(2, "train", "couplet", "--preset", "tinny")
    assert "'train.epochs'" in error_of(2, "train", "couplet", "--set", "train.epoch=3")
    assert "'multi30k'" in error_of(2, "data", "fetch", "multi30")


def test_wrong_usage_is_one_line_with_a_hint() -> None:
    """click itself prints three lines, and the reason last."""
    for arguments, message in (
        (("translat",), "error: no such command: 'translat'; did you mean 'translate'?; see "),
        (("translate", "--bean", 3), "error: No such option '--bean'; did you mean '--beam'?"),
        (("translate", "--colour", "x"), "error: No such option '--colour'; before a text"),
        (("classify", "--top"), "error: Option '--top' requires an argument; see "),
        (("train",), "error: Missing argument"),
    ):
        result = run(*arguments)
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.startswith(message)
        assert result.stderr.endswith(" --help\n")
        assert result.stderr.count("\n") == 1


def test_a_missing_command_is_one_line_with_the_commands() -> None:
    """All of the help was printed as one line."""
    assert error_of(2).startswith("error: a command is missing: translate, classify, couplet, ")
    assert error_of(2, "data").startswith("error: a command is missing: ")
    assert error_of(2, "plot").endswith("plot --help")


@pytest.mark.parametrize("text", ["-5 Grad", "--Hund", "-x"])
def test_the_message_about_a_text_that_begins_with_a_dash_has_a_hint(
    text: str, tiny_models: Models
) -> None:
    assert "before a text that begins with a dash, put --;" in error_of(2, "translate", text)
    assert len(lines_of("translate", "--model", tiny_models("translation"), "--", text)) == 1


def test_an_error_with_a_line_break_is_one_line(in_tmp: Path) -> None:
    assert "a b.txt: cannot read" in error_of(1, "translate", "--input", "a\nb.txt")


def test_interrupted_work_has_exit_code_130_and_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(name: str) -> None:
        raise Interrupted("stopped at step 7; --resume goes on")

    monkeypatch.setattr(fetching, "verify", stop)
    result = run("data", "verify", "couplet")
    assert (result.exit_code, result.stdout) == (130, "")
    assert result.stderr == "stopped at step 7; --resume goes on\n"


def test_a_bug_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(fetching, "verify", fail)
    assert isinstance(run("data", "verify", "couplet").exception, ZeroDivisionError)


@given(text=st.text(max_size=3000))
def test_an_error_is_one_short_printable_line(text: str) -> None:
    """A class name of a megabyte, and escape sequences for the terminal, came through."""
    line = _shown(text)
    assert len(line) <= 10 * 1010
    assert line.isprintable()
    if text.isprintable() and len(text) <= 1000:
        assert line == text
    assert len(_shown("x" * 1_000_000)) < 1010


@pytest.mark.parametrize(
    "arguments",
    [
        ("train", "couplet", "--show-config", "--config"),
        ("plot", "history"),
        ("classify", "goal", "--model"),
        ("evaluate", "couplet", "--data"),
    ],
)
@pytest.mark.parametrize("kind", ["pipe", "device", "loop"])
def test_what_is_not_a_regular_file_is_refused(
    in_tmp: Path, kind: str, arguments: tuple[str, ...]
) -> None:
    """A named pipe in place of a file made the program wait for ever."""
    path = in_tmp / "place"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero" if kind == "device" else path)
    result = run(*arguments, path)
    assert result.exit_code in (1, 2)
    assert str(path) in result.stderr.splitlines()[-1]
