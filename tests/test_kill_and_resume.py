"""A few kills by the program that kills runs; and its comparison of runs."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from tests.kill_and_resume import content_of, differences, kill_and_resume


def test_killed_runs_end_like_uninterrupted_ones(tmp_path: Path) -> None:
    struck = kill_and_resume("couplet", kills=3, seed=1, folder=tmp_path)
    assert struck["inside a save"] >= 1
    assert struck["ended"] >= 1
    assert struck.total() - struck["ended"] == 3


def leave(folder: Path, *, weight: float, loss: float, seconds: float, bleu: float = 3.0) -> Path:
    (folder / "training").mkdir(parents=True)
    save_file({"weight": torch.tensor([1.0, weight])}, folder / "model.safetensors")
    numbers = bytearray(json.dumps({"state": {"step": 3, "seconds": seconds}}).encode())
    state = {"numbers": torch.frombuffer(numbers, dtype=torch.uint8)}
    save_file(state, folder / "training" / "state.safetensors")
    (folder / "history.csv").write_text(f"epoch,train_loss,seconds\n1,{loss},{seconds}\n")
    (folder / "metrics.json").write_text(json.dumps({"test": {"bleu": bleu}, "command": seconds}))
    return folder


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({}, []),
        ({"seconds": 9.0}, []),
        ({"weight": 2.0000002}, ["model.safetensors: weight"]),
        ({"loss": 0.6}, ["history.csv"]),
        ({"bleu": 3.1}, ["metrics.json"]),
    ],
)
def test_differences_are_named(changes: dict[str, float], named: list[str], tmp_path: Path) -> None:
    usual = {"weight": 2.0, "loss": 0.5, "seconds": 7.0}
    one = content_of(leave(tmp_path / "one", **usual))
    other = content_of(leave(tmp_path / "other", **{**usual, **changes}))
    assert differences(one, other) == named
    (tmp_path / "other" / ".state.0123456789ab.partial").touch()
    assert differences(one, content_of(tmp_path / "other")) == sorted(
        [*named, ".state.0123456789ab.partial"]
    )
