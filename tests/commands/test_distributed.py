"""``torchrun cli.py train``: processes are killed and stopped, and are started again."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import cli
from core.storage.checkpoint import load_tensors
from tests.commands.command_line import run
from tests.torchrun import ROOT, TIMEOUT, run_ranks, torchrun

TRAIN = ("--nproc-per-node=2", ROOT / "cli.py", "train")
SETTINGS = ("--preset", "tiny", "--set=train.save_every=5", "--set=train.epochs=100000")


@contextmanager
def training(log: Path, *arguments: object) -> Iterator[subprocess.Popen[bytes]]:
    """Starts torchrun with two processes, whose stderr goes into ``log``; ends it at the end."""
    with log.open("w") as stderr, torchrun(*TRAIN, *arguments, stderr=stderr) as launcher:
        try:
            yield launcher
        finally:
            for process in [*processes_of(launcher), launcher.pid]:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)


def wait_for_epoch(launcher: subprocess.Popen[bytes], log: Path) -> None:
    """Waits until an epoch has been reported."""
    deadline = time.monotonic() + TIMEOUT
    while not re.search("^epoch", log.read_text(), re.MULTILINE):
        assert launcher.poll() is None, log.read_text()
        assert time.monotonic() < deadline
        time.sleep(0.05)


def processes_of(launcher: subprocess.Popen[bytes]) -> list[int]:
    """Returns the process ids by rank, which is the order in which they were started."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # gone meanwhile
            if f"PPid:\t{launcher.pid}\n" in (folder / "status").read_text():
                found.append(int(folder.name))
    return sorted(found)


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="this system has no /proc")
def test_a_run_goes_on_after_a_killed_process_and_after_a_stop(
    tiny_corpora: dict[str, Path], tmp_path: Path
) -> None:
    """One of two processes is killed, two are stopped, and a single one finishes the run."""
    out, log = tmp_path / "run", tmp_path / "log"
    where = ("couplet", "--data", tiny_corpora["couplet"], "--out", out)
    with training(log, *where, *SETTINGS) as launcher:
        wait_for_epoch(launcher, log)
        os.kill(processes_of(launcher)[1], signal.SIGKILL)
        assert launcher.wait(TIMEOUT) == 1
    said = log.read_text()
    assert said.count("error: ") == 1
    line = r"^error: another process was killed, has failed or does not answer .*--resume"
    assert re.search(line, said, re.MULTILINE)
    assert load_tensors(out / "training" / "state.safetensors")

    with training(log, *where, "--resume") as launcher:
        wait_for_epoch(launcher, log)
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


def test_an_error_of_all_processes_is_shown_once(tmp_path: Path) -> None:
    command = ["train", "couplet", "--out", str(tmp_path), "--resume"]
    done = run_ranks(2, lambda: cli.main(command))
    assert done.returncode == 1
    assert done.stderr.count("nothing to resume") == done.stderr.count("error: ") == 1
