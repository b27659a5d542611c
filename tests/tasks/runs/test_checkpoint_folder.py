"""Checkpoint folders: what is refused, and why."""

import json
from pathlib import Path
from typing import Any

import pytest

from core.errors import CheckpointError
from tasks.classification.config import ClassificationConfig
from tasks.runs import checkpoint_folder as folders
from tasks.task import task_named
from tasks.translation.config import TranslationConfig


def edited(folder: Path, **changes: Any) -> Path:
    """A saved configuration with some of its entries changed."""
    folders.write_config(folder, "translation", TranslationConfig())
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return folder


def test_a_configuration_comes_back(task: str, tmp_path: Path) -> None:
    for name, preset in task_named(task).presets.items():
        config = preset()
        folders.write_config(tmp_path / name, task, config)
        assert folders.read_config(tmp_path / name, task, type(config)) == config


def test_another_tasks_model_is_refused(tmp_path: Path) -> None:
    folders.write_config(tmp_path, "translation", TranslationConfig())
    with pytest.raises(CheckpointError, match="a model for translation, not for classification"):
        folders.read_config(tmp_path, "classification", ClassificationConfig)


def test_another_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"config\.json: format version 2, .* reads 1"):
        folders.read_config(edited(tmp_path, version=2), "translation", TranslationConfig)


def test_an_unknown_option_is_refused(tmp_path: Path) -> None:
    """It is from a later program, and would be ignored to the harm of the model's outputs."""
    folder = edited(tmp_path, data={"tokeniser": "jieba"})
    with pytest.raises(CheckpointError, match=r"config\.json: .*did you mean 'data\.tokenizer'"):
        folders.read_config(folder, "translation", TranslationConfig)


def test_a_value_of_another_type_is_refused(tmp_path: Path) -> None:
    folder = edited(tmp_path, model={"d_model": "wide"})
    with pytest.raises(CheckpointError, match=r"config\.json: model\.d_model"):
        folders.read_config(folder, "translation", TranslationConfig)


@pytest.mark.parametrize("content", [b"{", b"\xff", b"[]", b"null", b'{"task": "couplet"}', b""])
def test_a_damaged_configuration_is_named(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(CheckpointError, match=r"config\.json"):
        folders.describe(tmp_path)


@pytest.mark.parametrize("content", [b"{", b"\xff", b"[]"])
def test_damaged_metrics_are_named(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "metrics.json").write_bytes(content)
    with pytest.raises(CheckpointError, match=r"metrics\.json"):
        folders.read_metrics(tmp_path)


@pytest.mark.parametrize(
    "entry", [{"parameters": "abc"}, {"parameters": True}, {"test": [1]}, {"trained": 3.5}]
)
def test_metrics_of_another_type_are_named(entry: dict[str, object], tmp_path: Path) -> None:
    """`models` gave a traceback for a number of parameters that was text."""
    (tmp_path / "metrics.json").write_text(json.dumps(entry))
    with pytest.raises(CheckpointError, match=rf"metrics\.json: {next(iter(entry))} has a wrong"):
        folders.read_metrics(tmp_path)


def test_there_may_be_no_metrics(tmp_path: Path) -> None:
    assert folders.read_metrics(tmp_path) == {}


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="nowhere: there is no such folder"):
        folders.model_folder("couplet", tmp_path / "nowhere")
    with pytest.raises(CheckpointError, match=r"not a checkpoint folder: there is no config\.json"):
        folders.describe(tmp_path)


@pytest.mark.parametrize("wrong", [3, b"runs", ["runs"], {}])
def test_what_is_no_path_is_a_type_error(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"named by a str or a Path, not by (int|bytes|list|dict)"):
        folders.model_folder("couplet", wrong)
    with pytest.raises(TypeError, match="named by a str or a Path"):
        folders.model_folders("couplet", [wrong])


def test_without_a_folder_it_is_the_model_that_ships(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "PRETRAINED", tmp_path)
    with pytest.raises(CheckpointError, match="no model ships for couplet"):
        folders.model_folder("couplet", None)
    assert folders.shipped_models() == []
    folders.write_config(tmp_path / "couplet", "couplet", TranslationConfig())
    (tmp_path / "notes").mkdir()
    assert folders.model_folder("couplet", None) == tmp_path / "couplet"
    assert folders.shipped_models() == [tmp_path / "couplet"]


def test_the_shipped_model_is_called_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_tmp: Path
) -> None:
    """A folder of the user with the same name comes first."""
    shipped = tmp_path / "pretrained"
    monkeypatch.setattr(folders, "PRETRAINED", shipped)
    folders.write_config(shipped / "translation", "translation", TranslationConfig())
    assert folders.model_folder("translation", "default") == shipped / "translation"
    folders.write_config(shipped / "translation-other", "translation", TranslationConfig())
    assert folders.model_folder("translation", "other") == shipped / "translation-other"
    for task, name in (
        ("translation", "captions"),
        ("couplet", "other"),
        ("couplet", "translation"),
    ):
        with pytest.raises(CheckpointError, match=r"or take a model that ships \(models\): def"):
            folders.model_folder(task, name)
    (in_tmp / "default").mkdir()
    assert folders.model_folder("translation", "default") == Path("default")
