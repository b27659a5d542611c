"""Real runs of all tasks, stopped and resumed."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.tasks.tiny_networks import CPU
from transformer_suite.core.errors import CorpusError
from transformer_suite.tasks import registry
from transformer_suite.tasks.runs import run

SETTINGS = {
    "translation": ("data.vocab_size=100", "data.bpe_dropout=0.1"),
    "classification": ("data.vocab_size=100", "data.token_dropout=0.2"),
    "couplet": (),
}
ADDED = {
    "translation": {"train.de": "Zebras zaudern zärtlich\n", "train.en": "zebras zigzag\n"},
    "classification": {"train.csv": '"1","zebras","zigzag"\n'},
    "couplet": {"train/in.txt": "鹤\n", "train/out.txt": "龙\n"},
}


def train(
    task: str, data: Path, out: Path, epochs: int, *more: str, resume: bool = False
) -> dict[str, Any]:
    settings = (*SETTINGS[task], f"train.epochs={epochs}", *more)
    config = registry.make_config(task, preset="tiny", config_file=None, assignments=settings)
    result: dict[str, Any] = run.train(task, config, data=data, out=out, device=CPU, resume=resume)
    return result


def test_a_run_in_two_parts_ends_as_one_in_one(
    task: str, tiny_corpora: dict[str, Path], tmp_path: Path
) -> None:
    corpus, options = tiny_corpora[task], ("train.r_drop=1", "train.ema=0.9")
    straight = train(task, corpus, tmp_path / "straight", 2, *options)
    train(task, corpus, tmp_path / "parts", 1, *options)
    parts = train(task, corpus, tmp_path / "parts", 2, *options, resume=True)
    for name in ("validation", "test", "steps", "best_epoch"):
        assert parts[name] == straight[name]


def test_r_drop_takes_part_in_every_tasks_loss(
    task: str, tiny_corpora: dict[str, Path], tmp_path: Path
) -> None:
    """Of two equal readings, without dropout, it is the mean: then it changes nothing but rounding,
    and with dropout, everything."""
    still = ["model.dropout=0"]
    if task == "classification":
        still.append("data.token_dropout=0")

    def first_loss(*options: str) -> float:
        out = tmp_path / "-".join(options)
        loss: float = train(task, tiny_corpora[task], out, 1, *options)["history"][0]["train_loss"]
        return loss

    assert first_loss(*still, "train.r_drop=5") == pytest.approx(first_loss(*still), rel=1e-4)
    loud = "model.dropout=0.5"
    assert first_loss(loud, "train.r_drop=50") > first_loss(loud) + 0.1


def test_a_resumed_run_keeps_its_vocabulary(
    task: str, tiny_corpora: dict[str, Path], tmp_path: Path
) -> None:
    """Even if the corpus has grown: the weights know no other."""
    data, out = tmp_path / "data", tmp_path / "run"
    shutil.copytree(tiny_corpora[task], data)
    train(task, data, out, 1)
    names = {"vocabulary.txt", "sentencepiece.model", "classes.txt"}
    before = {path: path.read_bytes() for path in out.iterdir() if path.name in names}
    assert before
    for name, text in ADDED[task].items():
        with (data / name).open("a", encoding="utf-8") as file:
            file.write(text * 20)
    train(task, data, out, 2, resume=True)
    assert {path: path.read_bytes() for path in before} == before


def test_a_run_is_not_resumed_with_other_classes(
    tiny_corpora: dict[str, Path], tmp_path: Path
) -> None:
    """In another order, say: every label would have meant another class."""
    data, out = tmp_path / "data", tmp_path / "run"
    shutil.copytree(tiny_corpora["classification"], data)
    train("classification", data, out, 1)
    (data / "classes.txt").write_text("Sports\nWorld\nBusiness\n")
    with pytest.raises(CorpusError, match=r"classes\.txt: the classes are Sports, World"):
        train("classification", data, out, 2, resume=True)
