"""Real runs of all tasks, stopped and resumed."""

import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from core.errors import ChangedConditions, CorpusError
from tests.tasks import tiny_models

FirstRuns = Callable[[str], Path]

SETTINGS = {
    "translation": ("data.vocab_size=400", "data.augment=0.1", "generation.max_length=5"),
    "classification": (
        "data.vocab_size=100",
        "data.token_dropout=0.2",
        "model.ngrams=2",
        "model.char_ngrams=4",
    ),
    "couplet": (),
}
ADDED = {
    "translation": {"train.de": "Zebras zaudern zärtlich\n", "train.en": "zebras zigzag\n"},
    "classification": {"train.csv": '"1","zebras","zigzag"\n'},
    "couplet": {"train/in.txt": "鹤\n", "train/out.txt": "龙\n"},
}


def train(
    task: str,
    data: Path,
    out: Path,
    epochs: int,
    *more: str,
    resume: bool = False,
    accept_changes: bool = False,
) -> dict[str, Any]:
    settings = (*SETTINGS[task], f"train.epochs={epochs}", *more)
    how = {"resume": resume, "accept_changes": accept_changes}
    return tiny_models.train(task, data, out, *settings, **how)


@pytest.fixture(scope="module")
def first_runs(
    tiny_corpora: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> FirstRuns:
    """The folder of a task's run of one epoch. Tests go on with a copy of it."""

    @cache
    def trained(task: str) -> Path:
        out = tmp_path_factory.mktemp("first") / task
        train(task, tiny_corpora[task], out, 1)
        return out

    return trained


@pytest.fixture
def out(task: str, first_runs: FirstRuns, tmp_path: Path) -> Path:
    """A copy of the run of one epoch of each task in turn."""
    return shutil.copytree(first_runs(task), tmp_path / "run")


@pytest.fixture
def data(task: str, tiny_corpora: dict[str, Path], tmp_path: Path) -> Path:
    """A copy of its corpus."""
    return shutil.copytree(tiny_corpora[task], tmp_path / "data")


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_run_in_two_parts_ends_as_one_in_one(
    task: str, tiny_corpora: dict[str, Path], tmp_path: Path
) -> None:
    corpus, options = tiny_corpora[task], ("train.ema=0.9",)
    straight = train(task, corpus, tmp_path / "straight", 2, *options)
    train(task, corpus, tmp_path / "parts", 1, *options)
    parts = train(task, corpus, tmp_path / "parts", 2, *options, resume=True)
    for name in ("validation", "test", "steps", "best_epoch"):
        assert parts[name] == straight[name]


def test_a_resumed_run_keeps_its_vocabulary(task: str, data: Path, out: Path) -> None:
    """Even if the corpus has grown: the weights know no other."""
    names = {"vocabulary.txt", "sentencepiece.model", "classes.txt"}
    before = {path: path.read_bytes() for path in out.iterdir() if path.name in names}
    assert before
    for name, text in ADDED[task].items():
        with (data / name).open("a", encoding="utf-8") as file:
            file.write(text * 20)
    train(task, data, out, 2, resume=True, accept_changes=True)
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.parametrize("split", ["train", "test"])
def test_a_run_is_not_resumed_with_another_corpus(
    task: str, split: str, data: Path, out: Path
) -> None:
    """With half of the rows gone, or shuffled, a resumed run ended with exit code 0, and nobody
    was told that its epochs were of different data."""
    names = {name.replace("train", split) for name in ADDED[task]}
    for name in names:
        path = next(iter(data.glob(name.replace("test.", "test*."))))
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        path.write_text("".join(reversed(lines)), encoding="utf-8")
    before = contents(out)
    with pytest.raises(ChangedConditions, match=rf"{split}.* has changed.*; restore them, or"):
        train(task, data, out, 2, resume=True)
    assert contents(out) == before
    changes = train(task, data, out, 2, resume=True, accept_changes=True)["changes"]
    assert len(changes) == len(names)
    assert all(change.endswith(" has changed") for change in changes)
    # The new corpus is that of the run from now on; what was accepted stays in the metrics.
    assert train(task, data, out, 3, resume=True)["changes"] == changes


def test_a_corpus_may_move(tiny_corpora: dict[str, Path], tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    shutil.copytree(tiny_corpora["couplet"], first)
    train("couplet", first, tmp_path / "run", 1)
    first.rename(second)
    assert "changes" not in train("couplet", second, tmp_path / "run", 2, resume=True)


@pytest.mark.parametrize("task", ["couplet"])
def test_a_run_is_not_resumed_with_other_threads(
    data: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number of threads decides the order of sums, and so the last bits of every weight.

    Two threads for tiny operations would take seconds on a busy machine.
    """
    before = torch.get_num_threads()
    monkeypatch.setattr(torch, "get_num_threads", lambda: before + 1)
    message = f"the number of threads is '{before + 1}', not '{before}'"
    with pytest.raises(ChangedConditions, match=message):
        train("couplet", data, out, 2, resume=True)
    monkeypatch.setattr(torch, "set_num_threads", lambda threads: None)
    metrics = train("couplet", data, out, 2, resume=True, accept_changes=True)
    assert [message in change for change in metrics["changes"]] == [True]


@pytest.mark.parametrize("task", ["couplet"])
def test_the_device_of_a_resumed_run_decides_its_precision_again(
    data: Path, out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run that was begun on a CPU stayed in fp32 on a GPU."""
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": True}, raising=False)
    with pytest.raises(ChangedConditions, match="the precision is 'bf16', not 'fp32'"):
        train("couplet", data, out, 2, "train.precision=auto", resume=True)
    train("couplet", data, out, 2, "train.precision=auto", resume=True, accept_changes=True)
    assert "parameters on cpu in bf16, seed" in capsys.readouterr().err


@pytest.mark.parametrize("task", ["classification"])
def test_a_run_is_not_resumed_with_other_classes(data: Path, out: Path) -> None:
    """In another order, say: every label would have meant another class."""
    (data / "classes.txt").write_text("Sports\nWorld\nBusiness\n")
    with pytest.raises(CorpusError, match=r"classes\.txt: the classes are Sports, World"):
        train("classification", data, out, 2, resume=True)


BAD_TESTS = {
    "translation": ("test_tiny.en", "one line too many\n"),
    "classification": ("test.csv", '"9","no","such class"\n'),
    "couplet": ("test/in.txt", "鹤\n"),
}


def test_a_bad_test_split_is_found_before_the_training(
    task: str, data: Path, tmp_path: Path
) -> None:
    """It was found after the last epoch, and the run then refused to be tried again."""
    out = tmp_path / "run"
    name, line = BAD_TESTS[task]
    with (data / name).open("a", encoding="utf-8") as file:
        file.write(line)
    with pytest.raises(CorpusError, match=data.name):
        train(task, data, out, 1)
    assert not out.exists()
