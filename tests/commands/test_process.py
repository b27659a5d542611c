"""The commands as processes: streams, signals, locales and exit codes."""

import gc
import os
import pty
import re
import resource
import shlex
import signal
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import cli
from tasks.commands.signals import StopSignals
from tests.commands.command_line import lines_of
from tests.forked import forked, forked_cli

CLI = Path(__file__).resolve().parents[2] / "cli.py"
TIMEOUT = 120
ASCII_ONLY = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}

GERMAN, ENGLISH = "Ein Hund sieht einen Ball.", "A dog sees a ball."

PIPES = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}

Models = Callable[[str], Path]
Start = Callable[..., subprocess.Popen[bytes]]


def command(*arguments: object) -> list[str]:
    return [sys.executable, str(CLI), *map(str, arguments)]


def run(
    *arguments: object, env: Mapping[str, str] | None = None, **options: Any
) -> subprocess.CompletedProcess[bytes]:
    options.setdefault("stdout", subprocess.PIPE)
    return subprocess.run(
        command(*arguments),
        stderr=subprocess.PIPE,
        timeout=TIMEOUT,
        env={**os.environ, **(env or {})},
        **options,
    )


def run_forked(*arguments: object, input: bytes | None = None) -> tuple[int, str, bytes]:
    """Returns the exit code, stdout and stderr of a process that is a fork of this one."""
    with started(*arguments, **PIPES) as process:
        stdout, stderr = process.communicate(input, TIMEOUT)
        return process.returncode, stdout.decode(), stderr


def new_process(*arguments: object, **streams: Any) -> subprocess.Popen[bytes]:
    # A test run in the background would hand down that Ctrl-C is to be ignored.
    default = partial(signal.signal, signal.SIGINT, signal.default_int_handler)
    return subprocess.Popen(command(*arguments), preexec_fn=default, **streams)


@contextmanager
def started(
    *arguments: object, start: Start = forked_cli, **streams: Any
) -> Iterator[subprocess.Popen[bytes]]:
    """Starts a process, which is killed at the end of the block."""
    process = start(*arguments, **streams)
    try:
        with process:
            yield process
    finally:
        process.kill()


def read_terminal(terminal: int, end: bytes) -> bytes:
    """Returns what a terminal shows, up to ``end``."""
    seen, deadline = b"", time.monotonic() + TIMEOUT
    while end not in seen:
        assert time.monotonic() < deadline, seen
        seen += os.read(terminal, 1024)
    return seen


def read_to_end(terminal: int) -> bytes:
    """Returns what a terminal shows until its other side is closed."""
    seen = b""
    try:
        while block := os.read(terminal, 1024):
            seen += block
    except OSError:  # how Linux says that the other side is closed
        pass
    os.close(terminal)
    return seen


def test_help_answers_within_half_a_second() -> None:
    """The processor's time counts, and the shortest of three, since the machine may be busy."""

    def seconds() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    times = []
    for _ in range(3):
        before = seconds()
        assert run("--help").returncode == 0
        times.append(seconds() - before)
    assert min(times) < 0.5


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(("data", "list"), 0), (("couplet", "--input", "none"), 1), (("nonsense",), 2)],
)
def test_exit_codes(arguments: tuple[str, ...], code: int) -> None:
    done = run(*arguments)
    assert done.returncode == code
    assert bool(done.stdout) == (code == 0)
    assert bool(done.stderr) == (code != 0)


# Locales


def test_output_is_utf8_in_every_locale() -> None:
    listed = run("data", "list", env=ASCII_ONLY)
    assert (listed.returncode, listed.stderr) == (0, b"")
    assert "冯重朴" in listed.stdout.decode("utf-8")
    assert "晚风摇树树还挺" in run("couplet", "--help", env=ASCII_ONLY).stdout.decode("utf-8")
    assert "晚.txt" in run("couplet", "--input", "晚.txt").stderr.decode("utf-8")


def test_input_is_utf8_in_every_locale(tiny_models: Models) -> None:
    text = "Ein Kind hört die Straße."
    model = tiny_models("translation")
    done = run("translate", "--json", "--model", model, input=text.encode(), env=ASCII_ONLY)
    assert done.returncode == 0, done.stderr
    assert f'"input": "{text}"' in done.stdout.decode("utf-8")
    assert done.stdout.decode("utf-8").splitlines() == lines_of(
        "translate", "--json", "--model", model, text
    )


def test_an_argument_that_is_not_valid_text_is_wrong_usage() -> None:
    words = [*command("translate"), b"Hund \xff"]
    done = subprocess.run(words, capture_output=True, timeout=TIMEOUT)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"is not valid in this locale" in done.stderr


# Standard input


@pytest.mark.parametrize("dash", [(), ("-",), ("--input", "-")])
def test_no_text_or_a_dash_means_standard_input(dash: tuple[str, ...], tiny_models: Models) -> None:
    content = f"\ufeff{GERMAN}\r\n\n{GERMAN}".encode()
    done = run_forked("translate", "--model", tiny_models("translation"), *dash, input=content)
    assert done == (0, f"{ENGLISH}\n\n{ENGLISH}\n", b"")


def test_the_message_about_invalid_bytes_names_the_line(tiny_models: Models) -> None:
    content = b"one\ntwo\nthr\xe9e\n"
    model = tiny_models("classification")
    code, _, stderr = run_forked("classify", "--model", model, input=content)
    assert code == 1
    assert stderr.startswith(b"error: standard input:3: not valid UTF-8 (byte 0xe9)")
    assert stderr.count(b"\n") == 1


# Terminals


def test_a_terminal_has_a_prompt_and_is_answered_line_by_line(tiny_models: Models) -> None:
    ours, theirs = pty.openpty()
    streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
    with started("translate", "--model", tiny_models("translation"), **streams) as process:
        os.close(theirs)
        read_terminal(ours, b"Ctrl-D ends")
        for _ in range(2):
            os.write(ours, f"{GERMAN}\n".encode())
            read_terminal(ours, ENGLISH.encode())
        os.write(ours, b"\x04")
        assert process.wait(TIMEOUT) == 0
    os.close(ours)


@pytest.mark.parametrize(
    ("is_to_file", "columns"), [(True, ()), (False, ()), (True, ("--text=1", "--no-header"))]
)
def test_a_progress_bar_is_shown_where_no_results_are(
    is_to_file: bool, columns: tuple[str, ...], tiny_models: Models, tmp_path: Path
) -> None:
    source = tmp_path / "in.txt"
    source.write_text(f"{GERMAN}\n" * 3)
    output = (*columns, "--output", tmp_path / "out.txt") if is_to_file else ()
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (25, 80))
    model = tiny_models("translation")
    with started(
        "translate", "--model", model, "--input", source, *output, stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        shown = read_to_end(ours)
        assert process.wait(TIMEOUT) == 0
    assert (b"0/3" in shown) == is_to_file
    assert (shown.count(ENGLISH.encode()) == 3) == (not is_to_file)


@pytest.mark.parametrize("command", ["score", "evaluate"])
def test_a_progress_bar_is_shown_for_pairs(
    command: str, tiny_models: Models, tmp_path: Path
) -> None:
    """Of a table of pairs the number is not known; it was mistaken for typed lines."""
    pairs = tmp_path / "pairs.csv"
    pairs.write_text(f"de,en\n{GERMAN},a\n{GERMAN},b\n")
    options = ("--src", "de", "--tgt", "en", "--output", tmp_path / "out.txt")
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (25, 80))
    with started(
        *(command, "translation", "--model", tiny_models("translation"), "--data", pairs),
        *(options if command == "score" else ()),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        shown = read_to_end(ours)
        assert process.wait(TIMEOUT) == 0
    assert (b"0line" if command == "score" else b"0/2") in shown


def test_there_is_no_progress_bar_outside_a_terminal(tiny_models: Models, tmp_path: Path) -> None:
    source = tmp_path / "in.txt"
    source.write_text(f"{GERMAN}\n")
    done = run_forked("translate", "--model", tiny_models("translation"), "--input", source)
    assert done == (0, f"{ENGLISH}\n", b"")


# How commands end


def test_a_closed_pipe_ends_an_endless_stream_quietly(tiny_models: Models) -> None:
    model = tiny_models("classification")
    with subprocess.Popen(["yes", "goal"], stdout=subprocess.PIPE) as endless:
        assert endless.stdout is not None
        streams = {**PIPES, "stdin": endless.stdout}
        with started("classify", "--model", model, **streams) as process:
            assert process.stdout is not None and process.stderr is not None
            endless.stdout.close()
            first, second = process.stdout.readline(), process.stdout.readline()
            process.stdout.close()
            assert (process.wait(TIMEOUT), process.stderr.read()) == (0, b"")
    assert first == second and first.startswith(b"Sports\t")


def test_a_pipe_without_a_reader_ends_quietly() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = run("data", "list", stdout=writer)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_like_empty_ones(closed: str) -> None:
    listed = command("data", "list")
    done = subprocess.run(
        ["bash", "-c", f"{shlex.join(listed)} {closed}"], capture_output=True, timeout=TIMEOUT
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert bool(done.stdout) == (closed == "2>&-")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_is_one_line() -> None:
    """For the help, it was a traceback."""
    with Path("/dev/full").open("wb") as full:
        for arguments in (("data", "list"), ("--help",), ("translate", "--help")):
            done = run(*arguments, stdout=full)
            assert done.returncode == 1
            message = b"error: standard output: cannot write: No space left on device\n"
            assert done.stderr == message


@pytest.mark.parametrize(
    ("start", "signals", "code"),
    [
        # A new process gets the signals while it imports torch.
        (new_process, [signal.SIGINT, signal.SIGINT], 130),
        (new_process, [signal.SIGTERM], 143),
        (forked_cli, [signal.SIGINT], 130),
        (forked_cli, [signal.SIGHUP], 129),
        # Python handles signals that are pending together in the order of their numbers.
        (forked_cli, [signal.SIGINT, signal.SIGTERM], 130),
    ],
)
def test_a_signal_ends_quietly_and_leaves_the_old_output(
    start: Start, signals: list[signal.Signals], code: int, tiny_models: Models, tmp_path: Path
) -> None:
    """SIGTERM and SIGHUP left a temporary file; Ctrl-C twice printed a traceback now and then."""
    target = tmp_path / "out.txt"
    target.write_text("old")
    options = ("--model", tiny_models("translation"), "--output", target)
    with started("translate", *options, start=start, **PIPES) as process:
        deadline = time.monotonic() + TIMEOUT
        while len(list(tmp_path.iterdir())) == 1:  # until the new file is begun
            assert time.monotonic() < deadline
            time.sleep(0.01)
        for number in signals:
            process.send_signal(number)
            time.sleep(0.01)
        assert process.wait(TIMEOUT) == code
        assert process.stdout and process.stdout.read() == b""
        assert process.stderr and process.stderr.read() == b""
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def assert_ends_quietly(program: Callable[[], object], code: int) -> None:
    """Runs ``program`` in a fork, which must end with ``code`` and say nothing."""
    with forked(program, **PIPES) as process:
        try:
            assert process.wait(TIMEOUT) == code
            assert process.stderr and process.stderr.read() == b""
        finally:
            process.kill()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGHUP, 129)])
def test_a_signal_while_garbage_is_collected_counts(number: signal.Signals, code: int) -> None:
    """Python drops what a callback of its garbage collector raises: the program waited on."""

    def signal_itself(phase: str, details: object) -> None:
        gc.callbacks.clear()
        os.kill(os.getpid(), number)

    def program() -> None:
        gc.callbacks[:] = [signal_itself]
        cli.main(["classify"])  # it waits for a text

    assert_ends_quietly(program, code)


def test_a_signal_that_is_sent_again_too_soon_counts() -> None:
    """The thread that sends it may take longer to start; the hook's exception is dropped, too."""

    def start_slowly(thread: threading.Thread, start: Any = threading.Thread.start) -> None:
        start(thread)
        time.sleep(0.1)

    def program() -> None:
        threading.Thread.start = start_slowly  # type: ignore[method-assign]
        with StopSignals():
            gc.callbacks[:] = [lambda phase, details: os.kill(os.getpid(), signal.SIGHUP)]
            gc.collect()
            gc.callbacks.clear()
            time.sleep(TIMEOUT)

    assert_ends_quietly(program, 129)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_while_a_module_is_imported_counts(number: signal.Signals, code: int) -> None:
    """C code that imports a module may drop what a handler raises: the program waited on."""

    class Dropping:
        def find_spec(self, *names: object) -> None:
            sys.meta_path.remove(self)
            with suppress(BaseException):
                os.kill(os.getpid(), number)

    def program() -> None:
        sys.modules.pop("tasks.classification.predict", None)
        sys.meta_path.insert(0, Dropping())
        cli.main(["classify"])  # it waits for a text

    assert_ends_quietly(program, code)


@pytest.mark.parametrize(("is_stopped", "code"), [(False, 0), (True, 130)])
def test_a_program_gets_an_answer_before_its_next_line(
    is_stopped: bool, code: int, tiny_models: Models
) -> None:
    """Ctrl-C keeps what was printed."""
    with started("translate", "--model", tiny_models("translation"), **PIPES) as process:
        assert process.stdin and process.stdout and process.stderr
        for _ in range(2):
            process.stdin.write(f"{GERMAN}\n".encode())
            process.stdin.flush()
            assert process.stdout.readline().decode() == f"{ENGLISH}\n"
        if is_stopped:
            process.send_signal(signal.SIGINT)
        else:
            process.stdin.close()
        assert process.wait(TIMEOUT) == code
        assert (process.stdout.read(), process.stderr.read()) == (b"", b"")


def test_training_stops_at_ctrl_c_and_goes_on(
    tiny_corpora: dict[str, Path], tmp_path: Path
) -> None:
    out = tmp_path / "run"
    train = ("train", "translation", "--data", tiny_corpora["translation"], "--out", out)
    size = ("--preset", "tiny", "--set", "data.vocab_size=400", "--set", "train.epochs=10000")
    with started(*train, *size, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout and process.stderr
        while not (line := process.stderr.readline()).startswith(b"epoch 2:"):
            assert line
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT) == 130
        *_, last = process.stderr.read().splitlines()
        assert process.stdout.read() == b""
    stopped = re.match(rb"stopped at step (\d+);.* --resume", last)
    assert stopped
    epochs = int(stopped[1]) // 6 + 2  # six batches each
    resumed = run_forked(*train, "--resume", "--set", f"train.epochs={epochs}")
    assert resumed[0] == 0, resumed
    assert len((out / "history.csv").read_text().splitlines()) == 1 + epochs
