"""No file that converts text to ids and back is damaged without a message."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import CheckpointError
from core.storage.checkpoint import WEIGHTS_FILE, read_digests
from tasks.runs import checkpoint_folder as folders
from tasks.task import task_named
from tests.commands.command_line import error_of, lines_of
from tests.unprivileged import as_nobody

VERSION_1 = folders.PRETRAINED / "classification"
TEXT_FILES = ("classes.txt", "sentencepiece.model", "vocabulary.txt")


def read(folder: Path) -> object:
    config_class = task_named("classification").config_class
    return folders.read_config(folder, "classification", config_class)


@pytest.fixture(scope="module", params=["new", "version 1"])
def copy(
    request: pytest.FixtureRequest,
    tiny_models: Callable[[str], Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """A model whose weights have the digests, and one of version 1.0 with its manifest."""
    source = VERSION_1 if request.param == "version 1" else tiny_models("classification")
    return shutil.copytree(source, tmp_path_factory.mktemp("damaged") / "model")


@settings(max_examples=100)
@given(
    number=st.integers(0, 9),
    kind=st.sampled_from(["flip", "cut", "insert"]),
    place=st.floats(0, 1, exclude_max=True),
    value=st.integers(1, 255),
)
def test_damage_anywhere_is_refused(
    copy: Path, number: int, kind: str, place: float, value: int
) -> None:
    """Only the weights had a checksum: a flipped bit in the classes gave the answer ``Sci/``."""
    names = sorted(folders.text_files(copy))
    path = copy / names[number % len(names)]
    whole = path.read_bytes()
    position = int(place * len(whole))
    damaged = bytearray(whole)
    if kind == "flip":
        damaged[position] ^= value
    elif kind == "cut":
        del damaged[position:]
    else:
        damaged.insert(position, value)
    path.write_bytes(damaged)
    try:
        with pytest.raises(CheckpointError, match=f"{path.name} is damaged or was changed"):
            read(copy)
    finally:
        path.write_bytes(whole)


def test_a_file_that_is_missing_or_added_is_named(copy: Path) -> None:
    path, other = copy / "vocabulary.txt", copy / "vocabulary.en.txt"
    whole = path.read_bytes()
    path.rename(other)
    try:
        with pytest.raises(CheckpointError, match=r"vocabulary\.en\.txt is damaged or was changed"):
            read(copy)
        other.unlink()
        with pytest.raises(CheckpointError, match=r"vocabulary\.txt is missing"):
            read(copy)
    finally:
        path.write_bytes(whole)


@pytest.mark.parametrize("name", TEXT_FILES)
def test_every_file_is_checked_by_the_commands(name: str, tmp_path: Path) -> None:
    model = shutil.copytree(VERSION_1, tmp_path / "model")
    path = model / name
    path.write_bytes(path.read_bytes()[:-1] + b" ")
    message = error_of(1, "classify", "--model", model, "Stocks fell.")
    assert f"{name} is damaged or was changed: it does not match manifest.json" in message


def test_a_training_run_writes_the_digests(tiny_models: Callable[[str], Path]) -> None:
    folder = tiny_models("translation")
    assert read_digests(folder / WEIGHTS_FILE) == folders.file_digests(folder)
    assert not (folder / "manifest.json").exists()


def test_a_configuration_edited_by_hand_is_a_configuration(copy: Path) -> None:
    path = copy / "config.json"
    whole = path.read_text()
    config = json.loads(whole)
    config["prediction"] = {"thresholds": ["World=0.9"]}
    path.write_text(json.dumps(config))
    (answer,) = lines_of("classify", "--model", copy, "shares profit bank")
    assert answer
    path.write_text(whole)


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"sha256": 3}'])
def test_a_damaged_manifest_is_named(content: str, tmp_path: Path) -> None:
    model = shutil.copytree(VERSION_1, tmp_path / "model")
    (model / "manifest.json").write_text(content)
    with pytest.raises(CheckpointError, match=r"manifest\.json"):
        read(model)


def test_a_model_that_may_not_be_read_is_an_error_in_one_line(tmp_path: Path) -> None:
    """``is_file`` raised a PermissionError: root had a message, ordinary users a traceback."""
    model = shutil.copytree(VERSION_1, tmp_path / "model")
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    for path in (model / "classes.txt", model / WEIGHTS_FILE, model / "config.json", model):
        mode = path.stat().st_mode
        path.chmod(0o444 if path == model else 0)
        error = as_nobody(lambda: read(model))
        path.chmod(mode)
        assert error.startswith(("CheckpointError: ", "UserError: ")), error
        assert "Permission denied" in error
