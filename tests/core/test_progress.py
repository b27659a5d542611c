"""Progress on stderr: lines in a log, a bar on a terminal, nothing on stdout."""

import io
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from core.progress import Progress, log, silence


class Clock:
    """Time that passes only when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("tqdm.std.time", clock)
    return clock


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_log_that_cannot_be_written_does_not_end_the_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A training run died of the line about its epoch, when the disk of its log was full."""
    with Path("/dev/full").open("w", buffering=1) as full:
        monkeypatch.setattr(sys, "stderr", full)
        log("nobody reads this")
        monkeypatch.undo()
        with suppress(OSError):
            full.close()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_line_cannot_command_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Names of classes and files come from strangers; an escape sequence went to the terminal."""
    log("class \x1b]0;title\x07 \u202e 中文\r\nerror: forged")
    assert capsys.readouterr().err == ("class \\x1b]0;title\\x07 \\u202e 中文\\r\\nerror: forged\n")


def test_a_log_gets_a_line_every_half_minute(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    """300 units at one a second: 29 s are too few for a line, and 30 s are enough."""
    with Progress(300, "epoch 1/2", unit="batch") as bar:
        for second in range(1, 62):
            clock.now += 1.0
            bar.advance(note=f"loss {second}")
    assert capsys.readouterr() == (
        "",
        "epoch 1/2: 30/300 batch, 00:30, 04:30 left, loss 30\n"
        "epoch 1/2: 60/300 batch, 01:00, 04:00 left, loss 60\n",
    )


def test_the_time_left_is_reckoned_from_where_the_work_was_taken_up(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    """50 of 100 were done before; 10 more took 40 s, so the last 40 take 160."""
    with Progress(100, "epoch 1/2", unit="batch", done=50) as bar:
        clock.now += 40.0
        bar.advance(10)
    assert capsys.readouterr().err == "epoch 1/2: 60/100 batch, 00:40, 02:40 left\n"


def test_without_a_total_no_time_is_left(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    """It said ``60/? rows, 00:34, 00:00 left``."""
    with Progress(None, "bulk", unit="rows") as bar:
        clock.now += 34.0
        bar.advance(60)
    assert capsys.readouterr().err == "bulk: 60 rows, 00:34\n"


def test_a_terminal_gets_a_bar_that_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with Progress(4, "epoch 1/2", unit="batch", done=1) as bar:
        assert "epoch 1/2:  25%" in terminal.getvalue()
        bar.advance(3, "loss 2.5")
        log("a line")
    shown = terminal.getvalue()
    assert "a line\n" in shown
    *_, last_line, rest = shown.split("\r")
    assert last_line.strip() == rest == ""


def test_silence_is_for_the_body_alone(capsys: pytest.CaptureFixture[str]) -> None:
    """One of several processes speaks for all; the others may still show their errors."""
    with silence():
        log("unheard")
        with silence():
            pass
        log("unheard")
    log("heard")
    assert capsys.readouterr().err == "heard\n"
