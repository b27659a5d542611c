"""The curve of a run on disk, also after a crash."""

import csv
from pathlib import Path

import pytest

from core.training.state import STEPS_FILE
from tests.core.training.tiny_runs import Crash, Disturbed, crash, run_fit, tiny_model

TIMES = ("seconds", "tokens_per_second")


def rows_of(path: Path) -> list[dict[str, float]]:
    with path.open(newline="") as file:
        return [{name: float(text) for name, text in row.items()} for row in csv.DictReader(file)]


def without_times(rows: list[dict[str, float]]) -> list[dict[str, float]]:
    return [{name: value for name, value in row.items() if name not in TIMES} for row in rows]


# steps.csv


def test_a_row_every_so_many_steps(tmp_path: Path) -> None:
    """Every single step first; rows of three are their means, within an epoch of eight steps."""
    run_fit(tiny_model(), tmp_path / "1", log_every=1, epochs=2)
    run_fit(tiny_model(), tmp_path / "3", log_every=3, epochs=2)
    ones, threes = (rows_of(tmp_path / name / STEPS_FILE) for name in "13")
    assert list(ones[0]) == [
        "epoch",
        "step",
        "train_loss",
        "learning_rate",
        "gradient_norm",
        "tokens_per_second",
        "padding_share",
    ]
    assert [row["step"] for row in ones] == list(range(1, 17))
    assert [row["epoch"] for row in ones] == [1] * 8 + [2] * 8
    assert [row["step"] for row in threes] == [3, 6, 9, 12, 15]
    steps_of = {3: (1, 2, 3), 6: (4, 5, 6), 9: (9,), 12: (10, 11, 12), 15: (13, 14, 15)}
    for row in threes:
        parts = [ones[step - 1] for step in steps_of[int(row["step"])]]
        mean = sum(part["gradient_norm"] for part in parts) / len(parts)
        assert row["gradient_norm"] == pytest.approx(mean)
        assert row["learning_rate"] == parts[-1]["learning_rate"]
        # Means by the word, of batches that have about as many.
        mean = sum(part["train_loss"] for part in parts) / len(parts)
        assert row["train_loss"] == pytest.approx(mean, rel=0.1)


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, float]]:
    """The rows of a run that nothing interrupts."""
    folder = tmp_path_factory.mktemp("straight")
    run_fit(tiny_model(), folder, log_every=2)
    return without_times(rows_of(folder / STEPS_FILE))


@pytest.mark.parametrize("at", [3, 6, 8, 12])
def test_after_a_crash_the_steps_are_those_of_the_uninterrupted_run(
    tmp_path: Path, straight: list[dict[str, float]], at: int
) -> None:
    """Those after the last saved state are had again."""
    with pytest.raises(Crash):
        run_fit(tiny_model(), tmp_path, log_every=2, data=Disturbed(at, crash))
    state = tmp_path / "training" / "state.safetensors"
    run_fit(tiny_model(), tmp_path, log_every=2, resume=state.is_file())
    assert without_times(rows_of(tmp_path / STEPS_FILE)) == straight
