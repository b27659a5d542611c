"""Training runs: what they refuse, what they write, and how they are resumed."""

import dataclasses
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from core.distributed.process_group import ALONE, ProcessGroup
from core.errors import CheckpointError, ConfigError, Interrupted, UserError
from core.model.config import TransformerConfig
from core.storage.checkpoint import load_tensors
from core.storage.lock import only_writer
from core.training.fit import Trainer
from tasks.runs import checkpoint_folder as folders
from tasks.runs import provenance
from tasks.runs import run as runs
from tasks.runs.training import RunOptions, Training
from tasks.task import Report
from tasks.translation.config import TranslationConfig, tiny
from tests.tasks.tiny_models import CPU

CONFIG = dataclasses.replace(tiny(), train=dataclasses.replace(tiny().train, epochs=2, average=2))
DATA = Path("corpora/multi30k")


def changed(**options: Any) -> TranslationConfig:
    """``CONFIG`` with other options of its ``train`` section."""
    return dataclasses.replace(CONFIG, train=dataclasses.replace(CONFIG.train, **options))


class Line(nn.Module):
    """The smallest thing that ``fit`` can train: one weight, to become 3."""

    config = SimpleNamespace(d_model=4)

    def __init__(self) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.randn(()))


class Points:
    def plan(self, epoch: int) -> list[float]:
        return [1.0, 2.0, 3.0]

    def batch(self, item: float) -> tuple[Tensor, ...]:
        return (torch.tensor([item]),)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Slope(Report):
    slope: float
    headline = "a line"

    def table(self) -> str:
        return self.headline


class LineTraining(Training):
    task, metric = "translation", "val_loss"

    def __init__(self, calls: list[str] | None = None) -> None:
        self.model: Line = self.make_model()
        self.data = Points()
        self.calls = [] if calls is None else calls

    def load_codecs(self, folder: Path) -> dict[str, Any]:
        return {}

    def make_model(self) -> Line:
        return Line()

    def loss(self, batch: tuple[Tensor, ...]) -> tuple[Tensor, int]:
        return ((self.model.slope - 3.0) * batch[0]).square().sum(), 1

    def validate(self, group: ProcessGroup = ALONE) -> dict[str, float]:
        self.calls.append("validate")
        return {"val_loss": abs(self.model.slope.item() - 3.0)}

    def evaluate(self, config: Any) -> Slope:
        self.calls.append("evaluate")
        return Slope(split="test", slope=self.model.slope.item())


def train(
    out: Path,
    config: Any = CONFIG,
    *,
    resume: bool = False,
    task: str = "translation",
    prepare: Callable[[], Training] = LineTraining,
) -> dict[str, Any]:
    def make_training(config: Any, options: RunOptions, vocabulary: Path | None) -> Training:
        training = prepare()
        training.config = config
        return training

    training: Any = make_training
    training.task = task
    return runs.train(config, RunOptions(data=DATA, out=out, device=CPU, resume=resume), training)


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_run_leaves_its_story(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = ["/somewhere/cli.py", "train", "translation", "--set", "data.tgt=two words"]
    monkeypatch.setattr(sys, "argv", command)
    metrics = train(tmp_path / "run")
    assert json.loads((tmp_path / "run" / "metrics.json").read_text()) == metrics
    slope = load_tensors(tmp_path / "run" / "model.safetensors")["slope"].item()
    expected = {
        "task": "translation",
        "command": "python cli.py train translation --set 'data.tgt=two words'",
        "data": "multi30k",
        "seed": 1,
        "device": "cpu",
        "processes": 1,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": ".".join(map(str, sys.version_info[:3])),
        "validation": {"val_loss": abs(slope - 3.0)},
        "test": {"split": "test", "slope": slope, "headline": "a line"},
        "best_epoch": 2,
        "averaged_epochs": [],
        "epochs": 2,
        "steps": 6,
        "parameters": 1,
    }
    assert {name: metrics[name] for name in expected} == expected
    assert set(metrics) - set(expected) == {"commit", "training_seconds", "trained", "history"}
    assert [row["epoch"] for row in metrics["history"]] == [1, 2]
    assert metrics["commit"] == provenance.commit_of(Path(runs.__file__).parents[2])
    assert folders.read_config(tmp_path / "run", "translation", TranslationConfig) == CONFIG
    monkeypatch.setattr(sys, "argv", ["/usr/bin/transformer-suite", "train", "translation"])
    assert train(tmp_path / "other")["command"] == "transformer-suite train translation"


def test_the_test_split_is_used_once_at_the_end(tmp_path: Path) -> None:
    calls: list[str] = []
    train(tmp_path, prepare=lambda: LineTraining(calls))
    assert calls.count("evaluate") == 1
    assert calls[-1] == "evaluate"


def test_the_seed_fixes_the_model(tmp_path: Path) -> None:
    seeds = {"a": 5, "b": 5, "c": 6}
    tests = [train(tmp_path / n, changed(seed=seed))["test"] for n, seed in seeds.items()]
    assert tests[0] == tests[1] != tests[2]


def test_a_folder_with_a_run_is_left_alone(tmp_path: Path) -> None:
    train(tmp_path)
    before = contents(tmp_path)
    with pytest.raises(UserError, match="continue it with --resume, or name another --out"):
        train(tmp_path)
    assert contents(tmp_path) == before


def test_what_fails_before_it_begins_leaves_no_folder(tmp_path: Path) -> None:
    """A run that its corpus refused left a folder with a lock file and a vocabulary."""
    new, old = tmp_path / "new", tmp_path / "old"
    old.mkdir()
    (old / "notes.txt").write_text("mine")
    for out in (new, old):

        def fail(out: Path = out) -> Training:
            (out / "vocabulary.txt").touch()
            raise UserError("no such corpus")

        with pytest.raises(UserError, match="no such corpus"):
            train(out, prepare=fail)
    assert not new.exists()
    assert [path.name for path in old.iterdir()] == ["notes.txt"]


def test_there_must_be_something_to_resume(tmp_path: Path) -> None:
    message = r"run: nothing to resume: there is no config\.json in it; begin .* without --resume"
    with pytest.raises(UserError, match=message):
        train(tmp_path / "run", resume=True)
    assert not (tmp_path / "run").exists()


def test_a_model_without_the_state_of_its_run_is_not_trained_over(tmp_path: Path) -> None:
    """A finished run whose ``training/`` is gone began anew on --resume, and its first epoch took
    the place of the model."""
    train(tmp_path)
    shutil.rmtree(tmp_path / "training")
    before = contents(tmp_path)
    with pytest.raises(CheckpointError, match=r"nothing to resume: there is no .*state"):
        train(tmp_path, resume=True)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("resume", [False, True])
def test_a_folder_that_another_run_writes_in_is_left_alone(tmp_path: Path, resume: bool) -> None:
    """Also by one that was let through because the other had not yet written anything."""
    if resume:
        train(tmp_path)
    calls: list[str] = []
    with only_writer(tmp_path, lock=tmp_path / "training" / runs.LOCK_FILE):
        before = contents(tmp_path)
        with pytest.raises(UserError, match=rf"another run is writing.*process {os.getpid()} on"):
            train(tmp_path, resume=resume, prepare=lambda: LineTraining(calls))
        assert contents(tmp_path) == before
    assert calls == []
    train(tmp_path, resume=resume)


def test_a_run_that_begins_while_the_folder_is_checked_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other began and ended after the first check and before the lock."""

    def begin_and_end(*arguments: object) -> None:
        monkeypatch.undo()
        train(tmp_path)

    monkeypatch.setattr(runs, "is_folder", begin_and_end)
    with pytest.raises(UserError, match="continue it with --resume, or name another --out"):
        train(tmp_path)


def remove(run: Path) -> None:
    shutil.rmtree(run)


def empty(run: Path) -> None:
    for path in run.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def rename(run: Path) -> None:
    run.rename(run.with_name("renamed"))


def replace(run: Path) -> None:
    """By the folder of a run that begins at the same moment."""
    rename(run)
    (run / "training").mkdir(parents=True)
    (run / "training" / "lock").touch()


@pytest.mark.parametrize("disturb", [remove, empty, rename, replace])
@pytest.mark.parametrize("epoch", [1, 2])
def test_a_folder_that_disappears_is_noticed(
    tmp_path: Path, disturb: Callable[[Path], None], epoch: int
) -> None:
    """The run ended with exit code 0 and its accuracy, without its configuration and vocabulary.
    After a renaming, two runs could write into one folder."""
    out = tmp_path / "run"
    found: list[dict[Path, bytes]] = []

    def prepare_disturbed() -> Training:
        class Disturbed(LineTraining):
            def validate(self, group: ProcessGroup = ALONE) -> dict[str, float]:
                if self.calls.count("validate") == epoch - 1:
                    disturb(out)
                    found.append(contents(tmp_path))
                return super().validate(group)

        return Disturbed()

    with pytest.raises(UserError, match="run: this folder has been removed, renamed or replaced"):
        train(out, changed(log_every=1, epochs=3), prepare=prepare_disturbed)
    assert contents(tmp_path) == found[0]


def test_what_a_killed_run_left_unfinished_is_removed(tmp_path: Path) -> None:
    left = [
        tmp_path / folder / f".{name}.0123456789ab.partial.safetensors"
        for folder, name in (("", "model"), ("training", "state"))
    ]
    left[1].parent.mkdir()
    for path in left:
        path.touch()
    train(tmp_path)
    assert not any(path.exists() for path in left)


@pytest.mark.parametrize(
    ("config", "name"),
    [
        (dataclasses.replace(CONFIG, model=TransformerConfig(d_model=64)), r"model\.d_model"),
        (
            dataclasses.replace(CONFIG, data=dataclasses.replace(CONFIG.data, src="fr")),
            r"data\.src",
        ),
        (changed(seed=2), r"train\.seed"),
        (changed(batch_tokens=7), r"train\.batch_tokens"),
    ],
)
def test_what_makes_a_run_what_it_is_cannot_change(
    config: TranslationConfig, name: str, tmp_path: Path
) -> None:
    """`--resume --set model.d_model=64` wrote that into config.json before it failed: the folder
    held weights of one size and a configuration of another, and was lost."""
    train(tmp_path)
    before = contents(tmp_path)
    with pytest.raises(ConfigError, match=rf"{name}.* cannot change in the middle of a run"):
        train(tmp_path, config, resume=True)
    assert contents(tmp_path) == before


def test_a_finished_run_is_resumed_without_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["cli.py", "train", "translation"])
    first = train(tmp_path)
    weights = (tmp_path / "model.safetensors").read_bytes()
    history = (tmp_path / "history.csv").read_bytes()
    monkeypatch.setattr(sys, "argv", ["cli.py", "train", "translation", "--resume"])
    for config in (CONFIG, changed(epochs=1)):
        again = train(tmp_path, config, resume=True)
        assert (tmp_path / "model.safetensors").read_bytes() == weights
        assert (tmp_path / "history.csv").read_bytes() == history
        # All of it, with the command that can be given again.
        assert again | {"trained": None} == first | {"trained": None}
    assert capsys.readouterr().err.count("2 epochs were done already, more than train.epochs") == 1


def test_more_epochs_go_on_where_the_run_ended(tmp_path: Path) -> None:
    straight = train(tmp_path / "straight", changed(epochs=4, learning_rate=0.1))
    train(tmp_path / "parts", changed(epochs=2, learning_rate=0.1))
    parts = train(tmp_path / "parts", changed(epochs=4, learning_rate=0.1), resume=True)
    assert parts["steps"] == 12
    assert parts["test"] == straight["test"]
    config = folders.read_config(tmp_path / "parts", "translation", TranslationConfig)
    assert config.train.epochs == 4


def test_a_run_stopped_before_its_first_step_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*arguments: object) -> None:
        raise Interrupted("stopped")

    straight = train(tmp_path / "straight")
    with monkeypatch.context() as patch, pytest.raises(Interrupted):
        patch.setattr(Trainer, "train_epoch", stopped)
        train(tmp_path / "stopped")
    assert train(tmp_path / "stopped", resume=True)["test"] == straight["test"]


def test_an_interrupted_run_has_no_numbers_yet(tmp_path: Path) -> None:
    class Failing(LineTraining):
        def validate(self, group: ProcessGroup = ALONE) -> dict[str, float]:
            raise UserError("the disk is full")

    with pytest.raises(UserError, match="the disk is full"):
        train(tmp_path, prepare=Failing)
    metrics = folders.read_metrics(tmp_path)
    assert metrics["command"]
    assert folders.headline(metrics) == "not measured"


def git(folder: Path, *arguments: str) -> None:
    who = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


def test_the_commit_is_that_of_the_checkout_and_says_if_files_differ(tmp_path: Path) -> None:
    assert provenance.commit_of(tmp_path) is None
    git(tmp_path, "init", "--quiet")
    assert provenance.commit_of(tmp_path) is None  # nothing committed
    (tmp_path / "file").write_text("1")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "--quiet", "--message=first")
    git(tmp_path, "tag", "v1")
    commit = provenance.commit_of(tmp_path)
    assert commit is not None
    assert len(commit) == 12
    assert int(commit, 16) >= 0
    (tmp_path / "file").write_text("2")
    assert provenance.commit_of(tmp_path) == f"{commit}+"


def test_a_copy_installed_inside_another_project_does_not_name_its_commit(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    (tmp_path / "file").write_text("1")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "--quiet", "--message=first")
    installed = tmp_path / ".venv" / "site-packages"
    installed.mkdir(parents=True)
    assert provenance.commit_of(installed) is None
