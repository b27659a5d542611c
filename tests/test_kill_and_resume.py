"""A few kills by the program that kills runs; and its comparison of runs."""

import json
from pathlib import Path

import torch
from safetensors.torch import save_file

from tests.kill_and_resume import content_of, differences, kill_and_resume


def test_killed_runs_end_like_uninterrupted_ones(tmp_path: Path) -> None:
    struck = kill_and_resume("couplet", kills=3, seed=1, folder=tmp_path)
    assert struck["inside a save"] >= 1
    assert struck["ended"] >= 1
    assert struck.total() - struck["ended"] == 3


def leave(folder: Path, *, weight: float, bleu: float, seconds: float) -> Path:
    folder.mkdir()
    save_file({"weight": torch.tensor([1.0, weight])}, folder / "model.safetensors")
    (folder / "history.csv").write_text(f"epoch,seconds\n1,{seconds}\n")
    (folder / "metrics.json").write_text(json.dumps({"test": {"bleu": bleu}, "command": seconds}))
    return folder


def test_all_differences_but_those_of_times_are_named(tmp_path: Path) -> None:
    one = content_of(leave(tmp_path / "one", weight=2.0, bleu=3.0, seconds=7.0))
    two = content_of(leave(tmp_path / "two", weight=2.0, bleu=3.0, seconds=9.0))
    three = leave(tmp_path / "three", weight=2.0000002, bleu=3.1, seconds=7.0)
    (three / ".state.0123456789ab.partial").touch()
    assert differences(one, two) == []
    assert differences(one, content_of(three)) == [
        ".state.0123456789ab.partial",
        "metrics.json",
        "model.safetensors: weight",
    ]
