"""Folders of version 1.0 still load, serve and start a training.

``version_1`` has the ``config.json`` of the models that were shipped with it, with every option
that it had.
"""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core.errors import CheckpointError
from tasks.task import task_named
from tests.commands.command_line import error_of, run

TEXTS = {"translation": "Ein Hund.", "classification": "shares profit bank", "couplet": "天地山水"}
COMMANDS = {"translation": "translate", "classification": "classify", "couplet": "couplet"}


def as_version_1(task: str, model: Path, folder: Path, **model_options: Any) -> Path:
    """Copies a tiny ``model``, with the options and the manifest of version 1.0."""
    shutil.copytree(model, folder, ignore=shutil.ignore_patterns("training"))
    old = json.loads(Path(__file__).with_name("version_1").joinpath(f"{task}.json").read_text())
    new = json.loads((folder / "config.json").read_text())
    for section, values in old.items():
        if isinstance(values, dict):
            values |= {name: new[section][name] for name in values.keys() & new[section].keys()}
    old["model"] |= model_options
    (folder / "config.json").write_text(json.dumps(old), encoding="utf-8")
    names = {"config.json", "vocabulary.txt", "classes.txt", "sentencepiece.model"}
    names |= {"familiarity.safetensors", "confidence.safetensors", "language.safetensors"}
    digests = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.iterdir()
        if path.name in names
    }
    manifest = json.dumps({"version": 1, "sha256": digests})
    (folder / "manifest.json").write_text(manifest, encoding="utf-8")
    return folder


def test_a_folder_of_version_1_is_used_and_starts_a_training(
    task: str,
    tiny_models: Callable[[str], Path],
    tiny_corpora: dict[str, Path],
    tmp_path: Path,
    in_tmp: Path,
) -> None:
    old = as_version_1(task, tiny_models(task), tmp_path / "old")
    predict = task_named(task).load(old, device="cpu").predict
    expected = task_named(task).load(tiny_models(task), device="cpu").predict
    assert predict([TEXTS[task]]) == expected([TEXTS[task]])
    done = run(COMMANDS[task], "--model", old, "--device", "cpu", TEXTS[task])
    assert (done.exit_code, done.stderr) == (0, "")
    command = ("train", task, "--init", old, "--data", tiny_corpora[task], "--out", "run")
    done = run(*command, "--preset", "tiny", "--set", "train.epochs=1", "--device", "cpu")
    assert done.exit_code == 0, done.stderr
    config = ("train", task, "--config", old / "config.json", "--show-config")
    assert run(*config).exit_code == 0


@pytest.mark.parametrize(
    ("option", "value"), [("concat_type", "attention"), ("positions", "shaw"), ("positions", "t5")]
)
def test_model_options_that_are_gone_are_refused_in_one_line(
    tiny_models: Callable[[str], Path], tmp_path: Path, option: str, value: str
) -> None:
    model = tiny_models("classification")
    old = as_version_1("classification", model, tmp_path / "old", **{option: value})
    with pytest.raises(CheckpointError, match=rf"model\.{option} must be one of .*{value}"):
        task_named("classification").load(old, device="cpu")
    assert option in error_of(1, "classify", "--model", old, "oil")
