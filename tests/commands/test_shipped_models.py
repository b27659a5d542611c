"""The shipped models: complete, small, and as good as their cards say."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tasks.runs.checkpoint_folder import PRETRAINED, headline, read_metrics, shipped_models
from tasks.task import TASKS, task_named
from tests.commands.command_line import lines_of, run

MOST_BYTES = 16_000_000

TEST_FILES = {
    "translation": ("test_2016_flickr.de", "test_2016_flickr.en"),
    "classification": ("test.csv",),
    "couplet": ("test/in.txt", "test/out.txt"),
}
OF_A_TENTH = {
    "translation": {"bleu": 43.16616696626913, "loss": 1.2538718679549596},
    "classification": {"accuracy": 0.9197860962566845},
    "couplet": {"bleu": 2.542777578668967, "loss": 3.5582573364201324},
}
"""What the shipped models reach on every tenth line of these files, with the program as it was
when `make figures` found their published figures. A new model has new ones."""

FOLDERS = pytest.mark.parametrize("folder", shipped_models(), ids=lambda folder: folder.name)


@FOLDERS
def test_each_is_complete_and_small(folder: Path) -> None:
    names = {path.name for path in folder.iterdir()}
    parts = {"model.safetensors", "config.json", "vocabulary.txt", "metrics.json", "history.csv"}
    assert parts | {"README.md"} <= names
    assert all(path.is_file() for path in folder.iterdir())
    assert sum(path.stat().st_size for path in folder.iterdir()) <= MOST_BYTES


@FOLDERS
def test_each_has_a_card_that_agrees_with_its_metrics(folder: Path) -> None:
    card = (folder / "README.md").read_text(encoding="utf-8")
    metrics = read_metrics(folder)
    for fact in ("command", "commit", "trained"):
        assert str(metrics[fact]) in card, fact
    assert f"seed {metrics['seed']}" in card
    for number in re.findall(r"\d+\.\d+", headline(metrics)):
        assert number in card
    for heading in ("Data", "Licence", "Training", "Results", "Limits"):
        assert f"## {heading}" in card


def test_all_are_listed() -> None:
    listed = [json.loads(line) for line in lines_of("models", "--json")]
    assert {about["task"] for about in listed} == set(TASKS)
    assert all(about["headline"] != "not measured" for about in listed)
    printed = lines_of("models", "--corpora")
    for names, *rows in (about["corpora"] for about in listed):
        assert names == ["corpus", "examples", "share", "terms", "source"]
        assert sum(float(row[2].rstrip("%")) for row in rows) == pytest.approx(100, abs=1)
        assert all(any(line.startswith(row[0]) for line in printed) for row in rows)


def write_part(task: str, shared_data: Path, folder: Path) -> Path:
    """Writes a corpus of every tenth test example of a task."""
    corpus = shared_data / task_named(task).corpus
    for name in TEST_FILES[task]:
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        lines = (corpus / name).read_text(encoding="utf-8").splitlines(keepends=True)
        path.write_text("".join(lines[::10]), encoding="utf-8")
    if task == "classification":
        shutil.copy(corpus / "classes.txt", folder)
    return folder


def assert_evaluated(task: str, data: Path, expected: dict[str, Any]) -> None:
    """On another processor the last digits may differ, and with them a few words.

    Figures of couplets are those of a beam search; ranked candidates would take minutes.
    """
    search = ("--beam", 5) if task == "couplet" else ()
    done = run("evaluate", task, "--data", data, "--device", "cpu", "--json", *search)
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert found.keys() == read_metrics(PRETRAINED / task)["test"].keys()
    for name in ("bleu", "accuracy", "perplexity", "loss"):
        if name in expected:
            assert found[name] == pytest.approx(expected[name], rel=0.005)
    if task == "couplet":
        assert found["rules"]["length"] == found["rules"]["punctuation"] == 1.0
    else:
        figure, least = {"translation": ("bleu", 38.0), "classification": ("accuracy", 0.90)}[task]
        assert found[figure] >= least


def test_the_figures_of_a_tenth_of_the_test_data(
    task: str, shared_data: Path, tmp_path: Path
) -> None:
    assert_evaluated(task, write_part(task, shared_data, tmp_path), OF_A_TENTH[task])


@pytest.mark.figures
def test_the_published_figures_are_reproducible_and_good(task: str, shared_data: Path) -> None:
    published = read_metrics(PRETRAINED / task)["test"]
    assert_evaluated(task, shared_data / task_named(task).corpus, published)
