"""Fixtures and settings that all tests share."""

import os

# One thread for torch in this process and in those that tests start. It is set before torch is
# imported, which reads it once. Several workers run at a time, and small models gain nothing from
# more threads; with a fixed number, sums have one order.
os.environ["OMP_NUM_THREADS"] = "1"

import shutil
import signal
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from filelock import FileLock
from hypothesis import settings

from data.corpora import DATA_FOLDER_VARIABLE
from tasks.task import TASKS
from tests.commands.command_line import run
from tests.tiny_corpora import WRITERS

_SHARED_DATA = Path(__file__).resolve().parents[1].parent / "shared" / "data"

# The first example of a test may pay for an import, and a busy machine is slow: time is no verdict.
settings.register_profile("suite", deadline=None)
settings.load_profile("suite")

# Tests that are started in the background have signals ignored, by them and all that they start.
# But some of them are about Ctrl-C and about a terminal that is closed.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


# Checkpoints are written through to the disk, which takes longer than many a training here. So
# pytest's temporary folders are in memory where there is plenty: a run of all tests needs 0.6 GB.
_IN_MEMORY = Path("/dev/shm")
if os.access(_IN_MEMORY, os.W_OK) and shutil.disk_usage(_IN_MEMORY).free > 4_000_000_000:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_IN_MEMORY))


def pytest_make_parametrize_id(val: object) -> str | None:
    """Names binary parameters by their size: gzip files contain the time at which they were made.

    Workers of pytest-xdist refuse to start when they do not find the same names.
    """
    if isinstance(val, bytes) and not val.isascii():
        return f"{len(val)} bytes"
    return None


# Enough training to tell one input from another, in seconds.
_COMMON_SETTINGS = ("train.learning_rate=0.005", "train.label_smoothing=0")
_TINY_SETTINGS = {
    "translation": ("data.vocab_size=400", "train.epochs=20", "train.batch_tokens=170"),
    "classification": ("data.vocab_size=100", "train.epochs=10"),
    "couplet": ("train.epochs=3",),
}


@pytest.fixture(scope="session", autouse=True)
def data_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A data folder of the tests' own: what they prepare is not left in somebody's home."""
    folder = tmp_path_factory.mktemp("data_folder")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(DATA_FOLDER_VARIABLE, str(folder))
        yield folder


@pytest.fixture(autouse=True)
def own_signals() -> Iterator[None]:
    """Signals as they were: a command that fails ignores them, since its process would end."""
    handlers = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture(scope="session", autouse=True)
def fp32() -> Iterator[None]:
    """Trainings in fp32. ``train.precision=auto`` measures, and on a busy machine two equal runs
    may choose differently. The tests of this choice make processors of their own."""
    import torch  # not above: with pytest-xdist, the process that only hands out tests needs none

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.cpu, "get_capabilities", dict, raising=False)
        yield


@pytest.fixture(scope="session", autouse=True)
def no_sync() -> Iterator[None]:
    """Files without ``fsync``, which takes 10 ms. It matters when the power fails: in no test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def no_pictures_in_reports() -> Iterator[None]:
    """Reports on classifiers without pictures, which take longer than a tiny training. The tests
    of reports draw them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tasks.classification.report.embedded", lambda draw, title: "")
        yield


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real corpora beside the repository; tests that need it are skipped without."""
    if not _SHARED_DATA.is_dir():
        pytest.skip(f"the real corpora are not at {_SHARED_DATA}")
    return _SHARED_DATA


@pytest.fixture(scope="session")
def tiny_corpora(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A small corpus for each task, made here, in the form that users have them in."""
    return {task: write(tmp_path_factory.mktemp(task)) for task, write in WRITERS.items()}


@pytest.fixture(scope="session")
def tiny_models(
    tiny_corpora: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Path]:
    """The checkpoint folder of a task, trained when a test first asks for it.

    Workers of pytest-xdist share the folders: the first one trains, the others wait for it.
    """
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    @cache
    def trained(task: str) -> Path:
        with FileLock(shared / f"{task}.lock"):
            out = shared / "models" / task
            if not (out / "metrics.json").exists():
                train(task, out)
        return out

    def train(task: str, out: Path) -> None:
        settings = [f"--set={setting}" for setting in (*_COMMON_SETTINGS, *_TINY_SETTINGS[task])]
        done = run(
            "train",
            task,
            "--preset=tiny",
            f"--data={tiny_corpora[task]}",
            f"--out={out}",
            *settings,
        )
        assert done.exit_code == 0, done.stderr

    return trained


@pytest.fixture(params=TASKS)
def task(request: pytest.FixtureRequest) -> str:
    """Each task's name in turn."""
    return str(request.param)


@pytest.fixture
def in_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder; corpora are looked for in ``corpora`` in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(DATA_FOLDER_VARIABLE, str(tmp_path / "corpora"))
    return tmp_path
