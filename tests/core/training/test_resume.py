"""A run that was interrupted, however, ends as the run that was not: to the bit, with dropout on.

A run here has three epochs of eight steps, and saves its state at every third step and every epoch.
"""

import os
import resource
import signal
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from core.errors import CheckpointError, Interrupted, UserError
from core.model.sequence_to_sequence import SequenceToSequence
from core.storage.checkpoint import load_tensors
from core.training import fit as fit_module
from core.training import kept_checkpoints
from core.training import state as state_module
from core.training.state import STATE_FILE, STATE_FOLDER
from tests.core.training.tiny_runs import (
    Crash,
    Disturbed,
    crash,
    run_fit,
    same,
    tiny_model,
    validation_of,
    weights_of,
    without_times,
)

STEPS = 24


def send(*numbers: int) -> None:
    """Signals to this process, as Ctrl-C or a job scheduler sends them."""
    for number in numbers:
        os.kill(os.getpid(), number)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    model, folder = tiny_model(), tmp_path_factory.mktemp("uninterrupted")
    state = run_fit(model, folder)
    return {"weights": weights_of(model), "history": without_times(state), "folder": folder}


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Every run, however it ends, leaves the process's reactions to signals as they were."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    yield
    after = [signal.getsignal(number) for number in numbers]
    assert after == before


def assert_ends_the_same(model: SequenceToSequence, folder: Path, expected: dict[str, Any]) -> None:
    """Resumes in another model, as another process would, and compares all there is."""
    state = run_fit(model, folder, resume=True)
    assert same(weights_of(model), expected["weights"])
    assert without_times(state) == expected["history"]
    files, right_files = tensors_in(folder), tensors_in(expected["folder"])
    assert files.keys() == right_files.keys()
    for name, tensors in files.items():
        assert same(tensors, right_files[name]), name


def tensors_in(folder: Path) -> dict[str, dict[str, Tensor]]:
    """The content of every checkpoint in a run's folder, but for the numbers, which know times."""
    found = {}
    for path in folder.rglob("*.safetensors"):
        tensors = load_tensors(path)
        tensors.pop("numbers", None)
        found[str(path.relative_to(folder))] = tensors
    return found


@pytest.mark.parametrize("at", [4, 8, 9, STEPS])
def test_after_a_crash(tmp_path: Path, at: int, uninterrupted: dict[str, Any]) -> None:
    """In the middle of an epoch, after a save and later, in its last step and in the first."""
    with pytest.raises(Crash):
        run_fit(tiny_model(), tmp_path, data=Disturbed(at, crash))
    assert_ends_the_same(tiny_model(99), tmp_path, uninterrupted)


@pytest.mark.parametrize(
    ("at", "number"),
    [(1, signal.SIGTERM), (5, signal.SIGINT), (8, signal.SIGHUP), (STEPS, signal.SIGTERM)],
)
def test_after_a_signal(
    tmp_path: Path, at: int, number: int, uninterrupted: dict[str, Any]
) -> None:
    """The step that it came in is done and saved. After the last step of an epoch the run
    used to fail when it was resumed."""
    with pytest.raises(Interrupted, match=rf"stopped at step {at}$"):
        run_fit(tiny_model(), tmp_path, data=Disturbed(at, partial(send, number)))
    assert_ends_the_same(tiny_model(99), tmp_path, uninterrupted)


@pytest.mark.parametrize("epoch", [1, 3])
def test_after_a_signal_during_validation(
    tmp_path: Path, epoch: int, uninterrupted: dict[str, Any]
) -> None:
    """The epoch's result is noted first; in the last epoch too the run stops, and does not go on
    to the average."""
    model, times = tiny_model(), 0

    def validate() -> dict[str, float]:
        nonlocal times
        times += 1
        if times == epoch:
            send(signal.SIGTERM)
        return validation_of(model)()

    with pytest.raises(Interrupted, match=f"stopped at step {8 * epoch}$"):
        run_fit(model, tmp_path, validate=validate)
    assert times == epoch
    assert_ends_the_same(tiny_model(99), tmp_path, uninterrupted)


@pytest.mark.parametrize("nth", [1, 2, 3, 4, 5, 6])
def test_after_a_crash_inside_the_end_of_an_epoch(
    tmp_path: Path, nth: int, uninterrupted: dict[str, Any]
) -> None:
    """Before and after each of the files that are written after epoch 2: the best weights, the
    candidate, the curve and the state."""
    model, epoch, writes = tiny_model(), 0, 0

    def crashing(write: Callable[..., None]) -> Callable[..., None]:
        def write_or_crash(*arguments: Any, **options: Any) -> None:
            nonlocal writes
            writes += 1
            if writes == nth:
                raise Crash
            write(*arguments, **options)

        return write_or_crash

    with pytest.MonkeyPatch.context() as patch:

        def validate_and_arm() -> dict[str, float]:
            nonlocal epoch
            epoch += 1
            if epoch == 2:
                for module, name in (
                    (kept_checkpoints, "save_weights"),
                    (fit_module, "write_text"),
                    (state_module, "save_tensors"),
                ):
                    patch.setattr(module, name, crashing(getattr(module, name)))
            return validation_of(model)()

        with pytest.raises(Crash):
            run_fit(model, tmp_path, validate=validate_and_arm)
    assert_ends_the_same(tiny_model(99), tmp_path, uninterrupted)


@pytest.mark.parametrize(("at", "file"), [(3, "training/state"), (7, "model")])
def test_after_the_disk_was_full(
    tmp_path: Path, at: int, file: str, uninterrupted: dict[str, Any]
) -> None:
    """No file may grow beyond ten bytes from that step on. The file that could not be written is
    named, and what was there is there: the run continues from it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    fill = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (10, hard))
    try:
        with pytest.raises(UserError, match=rf"{file}\.safetensors: cannot write: "):
            run_fit(tiny_model(), tmp_path, data=Disturbed(at, fill))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not list(tmp_path.rglob("*.partial*"))
    if at > 3:
        assert_ends_the_same(tiny_model(99), tmp_path, uninterrupted)


def test_a_finished_run_can_be_prolonged(tmp_path: Path) -> None:
    """Two epochs and then a third are three, with a schedule that does not depend on the end."""
    model = tiny_model()
    run_fit(tiny_model(), tmp_path / "1", epochs=2)
    run_fit(tiny_model(99), tmp_path / "1", epochs=3, resume=True)
    run_fit(model, tmp_path / "2", epochs=3)
    states = [tensors_in(tmp_path / i)[f"{STATE_FOLDER}/{STATE_FILE}"] for i in "12"]
    assert same(*states)


# Signals


def test_a_second_ctrl_c_stops_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt):
        run_fit(
            tiny_model(), tmp_path, data=Disturbed(5, partial(send, signal.SIGINT, signal.SIGINT))
        )
    assert "stopping as soon as this step is saved" in capsys.readouterr().err


def test_outside_the_main_thread_there_are_no_signals(tmp_path: Path) -> None:
    states: list[object] = []
    thread = threading.Thread(target=lambda: states.append(run_fit(tiny_model(), tmp_path)))
    thread.start()
    thread.join()
    assert len(states) == 1


def test_a_signal_that_is_ignored_stays_ignored(tmp_path: Path) -> None:
    """With ``nohup``, a run outlives its terminal."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        state = run_fit(tiny_model(), tmp_path, data=Disturbed(5, partial(send, signal.SIGHUP)))
    finally:
        signal.signal(signal.SIGHUP, before)
    assert state.step == STEPS


# What cannot be resumed


def test_nothing_to_resume(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"nothing to resume: there is no .*state"):
        run_fit(tiny_model(), tmp_path, resume=True)


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """The state file of a run that was stopped at its fifth step."""
    with pytest.raises(Interrupted):
        run_fit(tiny_model(), tmp_path, data=Disturbed(5, partial(send, signal.SIGTERM)))
    return tmp_path / STATE_FOLDER / STATE_FILE


def test_a_damaged_state_is_refused(stopped: Path) -> None:
    """One digit of one number: the checksum used to cover the tensors alone."""
    content = bytearray(stopped.read_bytes())
    place = content.index(b'"position": 5')
    content[place + 12 : place + 13] = b"6"
    stopped.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"state.safetensors: damaged"):
        run_fit(tiny_model(), stopped.parents[1], resume=True)


def test_the_learning_rate_may_change_on_the_way(stopped: Path) -> None:
    """As the message about a loss that is not finite advises."""
    state = run_fit(tiny_model(), stopped.parents[1], resume=True, learning_rate=0.001)
    assert state.history[0].learning_rate == pytest.approx(0.001 * (5 / 8) ** 0.5)
