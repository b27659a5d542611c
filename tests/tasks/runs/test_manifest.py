"""Manifests: no file that decides an answer is damaged without a message."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import CheckpointError
from tasks.classification.config import ClassificationConfig
from tasks.runs import checkpoint_folder as folders
from tests.commands.command_line import error_of, lines_of, run
from tests.unprivileged import as_nobody

Models = Callable[[str], Path]

PRETRAINED = folders.PRETRAINED / "classification"
DECISIVE = (
    "classes.txt",
    "config.json",
    "familiarity.safetensors",
    "sentencepiece.model",
    "vocabulary.txt",
    "manifest.json",
)


def read(folder: Path) -> object:
    return folders.read_config(folder, "classification", ClassificationConfig)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shutil.copytree(PRETRAINED, tmp_path_factory.mktemp("damaged") / "model")


@settings(max_examples=200)
@given(
    name=st.sampled_from(DECISIVE),
    kind=st.sampled_from(["flip", "cut", "insert"]),
    place=st.floats(0, 1, exclude_max=True),
    value=st.integers(1, 255),
)
def test_damage_anywhere_is_refused(
    copy: Path, name: str, kind: str, place: float, value: int
) -> None:
    """Only the weights had a checksum: a flipped bit in the classes gave the answer ``Sci/``."""
    path = copy / name
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
        if name == "manifest.json" and _is_same_manifest(path, whole):
            return
        with pytest.raises(CheckpointError) as caught:
            read(copy)
        assert str(caught.value).isprintable()
        assert len(str(caught.value)) < len(str(copy)) + 300
    finally:
        path.write_bytes(whole)


def _is_same_manifest(path: Path, whole: bytes) -> bool:
    """White space in the manifest changes nothing."""
    return b"".join(path.read_bytes().split()) == b"".join(whole.split())


@pytest.mark.parametrize("name", DECISIVE[:-1])
def test_every_file_is_checked_by_the_commands(name: str, tmp_path: Path) -> None:
    model = shutil.copytree(PRETRAINED, tmp_path / "model")
    path = model / name
    path.write_bytes(path.read_bytes()[:-1] + b" ")
    message = error_of(1, "classify", "--model", model, "Stocks fell.")
    assert f"{name} is damaged or was changed" in message or name in message


def test_classes_are_renamed_on_purpose(tmp_path: Path) -> None:
    model = shutil.copytree(PRETRAINED, tmp_path / "model")
    path = model / "classes.txt"
    path.write_text(path.read_text().replace("Business", "Economy"))
    assert "classes.txt is damaged or was changed" in error_of(1, "classify", "--model", model, "a")
    (line,) = lines_of("models", "seal", model)
    assert line == f"{model}: manifest.json is written; changed: classes.txt"
    (answer,) = lines_of("classify", "--model", model, "Stocks fell.")
    assert answer.startswith("Economy")
    assert "not a checkpoint folder" in error_of(1, "models", "seal", tmp_path)


def test_a_folder_without_a_manifest_is_reported_once(tmp_path: Path) -> None:
    model = shutil.copytree(PRETRAINED, tmp_path / "model")
    (model / "manifest.json").unlink()
    done = run("classify", "--model", model, "Stocks fell.")
    assert done.exit_code == 0
    assert done.stderr.splitlines() == [
        f"{model}: there is no manifest.json, so damaged files may go unnoticed; "
        "`models seal` writes one"
    ]


def test_a_new_configuration_does_not_hide_damage(tmp_path: Path) -> None:
    """The configuration is written again at the end of a run, when the vocabulary is hours old."""
    model = shutil.copytree(PRETRAINED, tmp_path / "model")
    config = read(model)
    (model / "classes.txt").write_text("A\nB\nC\nD\n")
    folders.write_config(model, "classification", config)
    with pytest.raises(CheckpointError, match=r"classes\.txt is damaged or was changed"):
        read(model)


def test_a_model_that_may_not_be_read_is_an_error_in_one_line(tmp_path: Path) -> None:
    """``is_file`` raised a PermissionError: root had a message, ordinary users a traceback."""
    model = shutil.copytree(PRETRAINED, tmp_path / "model")
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    for path in (model / "classes.txt", model / "manifest.json", model / "config.json", model):
        mode = path.stat().st_mode
        path.chmod(0o444 if path == model else 0)
        error = as_nobody(lambda: read(model))
        path.chmod(mode)
        assert error.startswith(("CheckpointError: ", "UserError: ")), error
        assert "Permission denied" in error
