"""``torchrun cli.py train``: processes are killed, stopped, and started again."""

import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

import cli
from core.distributed import process_group
from core.storage.checkpoint import load_tensors
from tests.commands.command_line import run
from tests.forked import Forked, forked_group
from tests.torchrun import ROOT, TIMEOUT, forked_torchrun

CLI = ROOT / "cli.py"
SETTINGS = ("--preset", "tiny", "--set=train.save_every=5", "--set=train.epochs=100000")


@contextmanager
def training(log: Path, *arguments: object) -> Iterator[Forked]:
    """Starts torchrun with two processes, whose stderr goes into ``log``; ends it at the end."""
    words = ("--standalone", "--nproc-per-node=2", CLI, "train", *arguments)
    with log.open("w") as stderr, forked_torchrun(*words, stderr=stderr) as launcher:
        try:
            yield launcher
        finally:
            launcher.kill()


@pytest.fixture(autouse=True)
def short_wait_for_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that was killed or stopped will not report."""
    monkeypatch.setattr(process_group, "_REPORT_SECONDS", 1.0)


def wait_for_epoch(log: Path, launcher: Forked) -> None:
    """Waits until an epoch has been reported."""
    deadline = time.monotonic() + TIMEOUT
    while not re.search("^epoch", log.read_text(), re.MULTILINE):
        assert launcher.poll() is None, log.read_text()
        assert time.monotonic() < deadline
        time.sleep(0.05)


def processes_of(launcher: Forked) -> list[int]:
    """Returns the process ids by rank, which is the order in which they were started."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # gone meanwhile
            if f"PPid:\t{launcher.pid}\n" in (folder / "status").read_text():
                found.append(int(folder.name))
    return sorted(found)


needs_proc = pytest.mark.skipif(
    not Path("/proc/self/environ").exists(), reason="this system has no /proc"
)


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def train_and_hang(arguments: list[str], rank: int, curve: Path) -> None:
    """Trains in a process of a group; the one with ``rank`` stops when ``curve`` has an epoch."""

    def stop() -> None:
        wait_until(lambda: curve.exists() and len(curve.read_text().splitlines()) > 1)
        # In the middle of an epoch. In a validation of the main process there is no limit.
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGSTOP)

    signal.alarm(TIMEOUT)  # ends a process that waits without a limit after all
    if os.environ["RANK"] == str(rank):
        threading.Thread(target=stop, daemon=True).start()
    cli.main(arguments)


@pytest.mark.parametrize("rank", [0, 1])
def test_a_process_that_hangs_is_named(
    tiny_corpora: dict[str, Path], tmp_path: Path, rank: int
) -> None:
    """One that was stopped held the others for 30 days without a word."""
    out = tmp_path / "run"
    where = ("train", "couplet", f"--data={tiny_corpora['couplet']}", f"--out={out}")
    # Epochs of many steps: most of the time passes in steps, not in validation.
    limits = ("step_timeout=3", "first_step_timeout=5", "batch_tokens=24")
    options = [f"--set=train.{limit}" for limit in limits]
    arguments = [*where, *SETTINGS, *options]
    program = partial(train_and_hang, arguments, rank, out / "history.csv")
    # A stopped process does not react to SIGTERM.
    codes, _, said = forked_group(2, program, stop_seconds=1.0)
    assert (codes[rank], codes[1 - rank]) == (-signal.SIGKILL, 1)
    assert said.count("error: ") == 1
    line = rf"^error: rank {rank} of 2 does not answer: killed, crashed, or it hangs; --resume"
    assert re.search(line, said, re.MULTILINE)


@needs_proc
def test_processes_end_with_their_torchrun(tiny_corpora: dict[str, Path], tmp_path: Path) -> None:
    """After ``kill -9`` of torchrun they trained on, as nobody's children."""
    out, log = tmp_path / "run", tmp_path / "log"
    where = ("couplet", "--data", tiny_corpora["couplet"], "--out", out)
    with training(log, *where, *SETTINGS) as launcher:
        wait_for_epoch(log, launcher)
        processes = processes_of(launcher)
        launcher.kill()
        launcher.wait()
        wait_until(lambda: not any(Path(f"/proc/{process}/fd").exists() for process in processes))
    said = log.read_text()
    assert len(re.findall(r"^stopped at step (\d+); --resume", said, re.MULTILINE)) == 1
    assert "Traceback" not in said
    assert load_tensors(out / "training" / "state.safetensors")


@needs_proc
def test_a_run_goes_on_after_a_killed_process_and_after_a_stop(
    tiny_corpora: dict[str, Path], tmp_path: Path
) -> None:
    """One of two processes is killed, two are stopped, and a single one finishes the run."""
    out, log = tmp_path / "run", tmp_path / "log"
    where = ("couplet", "--data", tiny_corpora["couplet"], "--out", out)
    with training(log, *where, *SETTINGS) as launcher:
        wait_for_epoch(log, launcher)
        started = time.monotonic()
        os.kill(processes_of(launcher)[1], signal.SIGKILL)
        assert launcher.wait(TIMEOUT) == 1
        assert time.monotonic() - started < 60
    said = log.read_text()
    assert said.count("error: ") == 1
    assert re.search(r"^error: rank 1 of 2 does not answer: .*--resume", said, re.MULTILINE)
    assert re.search(r"rank +: 1 .*\n +exitcode +: -9", said)  # torchrun's own report
    assert load_tensors(out / "training" / "state.safetensors")

    with training(log, *where, "--resume") as launcher:
        wait_for_epoch(log, launcher)
        launcher.send_signal(signal.SIGTERM)
        assert launcher.wait(TIMEOUT) == 1
    said = log.read_text()
    (steps,) = re.findall(r"^stopped at step (\d+); --resume", said, re.MULTILINE)
    assert "error: " not in said

    # One epoch more than the one it stopped in, which may have been at its last step.
    epochs = int(said.rpartition("\nepoch ")[2].partition(":")[0]) + 2
    done = run("train", *where, "--resume", f"--set=train.epochs={epochs}")
    assert done.exit_code == 0, done.stderr
    rows = (out / "history.csv").read_text().splitlines()[1:]
    assert [int(row.split(",")[0]) for row in rows] == list(range(1, epochs + 1))
    assert int(rows[-1].split(",")[1]) > int(steps)
