"""The commands for models: train, evaluate, models."""

import csv
import json
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from core.config import to_mapping
from core.storage.checkpoint import load_tensors, save_tensors
from data.corpora import DATA_FOLDER_VARIABLE
from tasks.runs import checkpoint_folder as folders
from tasks.task import task_named
from tests.commands.command_line import error_of, lines_of, run
from tests.tiny_corpora import write_couplet

Models = Callable[[str], Path]
Corpora = dict[str, Path]


def test_training_leaves_a_checkpoint_folder(
    task: str, tiny_corpora: Corpora, in_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The default corpus is that of the catalog, and the default folder is runs/TASK."""
    monkeypatch.setenv(DATA_FOLDER_VARIABLE, str(in_tmp))
    (in_tmp / task_named(task).corpus).symlink_to(tiny_corpora[task])
    vocabulary = () if task == "couplet" else ("--set", "data.vocab_size=400")
    settings = ("--preset", "tiny", "--seed", 5, "--set", "train.epochs=1", *vocabulary)
    result = run("train", task, *settings)
    assert result.exit_code == 0, result.output
    out = Path("runs") / task
    names = {path.name for path in out.iterdir()}
    assert {"model.safetensors", "config.json", "metrics.json", "history.csv"} <= names
    assert "vocabulary.txt" in names
    metrics = json.loads((out / "metrics.json").read_text(encoding="utf-8"))
    assert result.stdout == f"{out}: {metrics['test']['headline']}\n"
    assert json.loads((out / "config.json").read_text())["train"]["seed"] == 5


def test_a_resumed_run_has_its_own_configuration(tiny_corpora: Corpora, in_tmp: Path) -> None:
    command = ("train", "classification", "--data", tiny_corpora["classification"], "--out", "run")
    # With the byte order mark of Windows.
    Path("my.toml").write_text("\ufeff[train]\nepochs = 1\nseed = 3\n[data]\nvocab_size = 100\n")
    assert run(*command, "--preset", "tiny", "--config", "my.toml").exit_code == 0
    assert "--resume" in error_of(1, *command, "--preset", "tiny", "--config", "my.toml")
    done = run(*command, "--resume", "--set", "train.epochs=2")
    assert done.exit_code == 0, done.output
    with Path("run/history.csv").open(newline="") as file:
        assert [row["epoch"] for row in csv.DictReader(file)] == ["1", "2"]
    config = json.loads(Path("run/config.json").read_text())
    assert (config["train"]["epochs"], config["train"]["seed"]) == (2, 3)
    assert config["model"]["d_model"] == 32
    message = error_of(2, "train", "classification", "--out", "run", "--resume")
    assert f"run is a run on {tiny_corpora['classification'].name}: name it" in message


def test_the_configuration_of_a_run_can_be_used_again(
    task: str, tiny_models: Models, in_tmp: Path
) -> None:
    """``--config`` took TOML alone: a run's own config.json was "not valid TOML"."""
    path = tiny_models(task) / "config.json"
    Path("shown.toml").write_text(
        "\n".join(lines_of("train", task, "--show-config", "--config", path))
    )
    Path("again.toml").write_text(
        "\n".join(lines_of("train", task, "--show-config", "--config", "shown.toml"))
    )
    assert Path("again.toml").read_bytes() == Path("shown.toml").read_bytes()
    config = json.loads(path.read_text(encoding="utf-8"))
    shown = tomllib.loads(Path("shown.toml").read_text(encoding="utf-8"))
    assert shown.keys() == config.keys() - {"task", "version"}
    for name, section in shown.items():
        values = {key: None if value == "none" else value for key, value in section.items()}
        assert values == config[name]


def test_show_config_names_every_option_and_writes_nothing(task: str, in_tmp: Path) -> None:
    both = ("--set", "train.seed=7", "--seed", 6)  # --set comes after what is short for it
    shown = tomllib.loads("\n".join(lines_of("train", task, "--show-config", *both)))
    config = task_named(task).presets["default"]()
    assert shown.keys() == to_mapping(config).keys()
    assert all(shown[name].keys() == section.keys() for name, section in to_mapping(config).items())
    assert shown["train"]["seed"] == 7
    assert list(in_tmp.iterdir()) == []


def test_source_and_target_language_must_differ(in_tmp: Path) -> None:
    """``--src de --tgt de`` silently trained a model that copies."""
    message = error_of(2, "train", "translation", "--src", "de", "--tgt", "de")
    assert "data.tgt must be another language than data.src, not 'de'" in message
    assert list(in_tmp.iterdir()) == []


def test_the_languages_are_the_extensions_of_the_files(tiny_corpora: Corpora, in_tmp: Path) -> None:
    folder = Path("corpus")
    folder.mkdir()
    for path in tiny_corpora["translation"].iterdir():
        name = path.name.replace(".de", ".xx").replace(".en", ".yy")
        (folder / name).write_bytes(path.read_bytes())
    settings = ("--preset", "tiny", "--set", "train.epochs=1", "--set", "data.vocab_size=400")
    command = ("--data", folder, "--out", "run", "--src", "xx", "--tgt", "yy", *settings)
    assert run("train", "translation", *command).exit_code == 0
    data = json.loads(Path("run/config.json").read_text())["data"]
    assert (data["src"], data["tgt"]) == ("xx", "yy")
    assert "--src" in error_of(2, "train", "couplet", *command)


def cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-7] ^= 0x10
    path.write_bytes(content)


def lose_a_tensor(path: Path) -> None:
    tensors = load_tensors(path)
    save_tensors(path, dict([*tensors.items()][1:]))


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        ("training/state.safetensors", cut_off, "damaged"),
        ("training/state.safetensors", flip_a_bit, "damaged"),
        ("model.safetensors", cut_off, "damaged"),
        ("model.safetensors", flip_a_bit, "damaged"),
        ("model.safetensors", lose_a_tensor, "not the weights of this model: missing "),
    ],
)
def test_a_damaged_checkpoint_is_refused_by_name(
    name: str, damage: Callable[[Path], None], message: str, tiny_models: Models, in_tmp: Path
) -> None:
    """Weights of an ended run that lacked a tensor ended in a KeyError."""
    shutil.copytree(tiny_models("couplet"), "run")
    damage(Path("run") / name)
    corpus = write_couplet(Path("corpus"))
    before = {path: path.read_bytes() for path in Path("run").glob("*.*")}
    command = ("train", "couplet", "--resume", "--out", "run", "--data", corpus)
    assert f"run/{name}: {message}" in error_of(1, *command, "--device", "cpu")
    if name == "model.safetensors":
        assert f"run/{name}: {message}" in error_of(1, "couplet", "--model", "run", "春")
        before.pop(Path("run/metrics.json"))  # begun anew, and not measured
    assert {path: path.read_bytes() for path in before} == before


def test_another_tasks_checkpoints_are_refused_by_name(tiny_models: Models, in_tmp: Path) -> None:
    """That holds for the whole folder, and for weights or a state that are copied from another."""
    shutil.copytree(tiny_models("couplet"), "run")
    other = tiny_models("classification")
    message = error_of(1, "train", "couplet", "--resume", "--out", other)
    assert f"{other}: a model for classification, not for couplet" in message
    assert "not for translation" in error_of(1, "translate", "--model", "run", "Hund")
    corpus = write_couplet(Path("corpus"))
    shutil.copy(other / "training" / "state.safetensors", "run/training/state.safetensors")
    # Settings that must not change within a run are the same in both.
    config = json.loads(Path("run/config.json").read_text())
    config["train"] = json.loads((other / "config.json").read_text())["train"]
    Path("run/config.json").write_text(json.dumps(config))
    resumed = ("train", "couplet", "--resume", "--accept-changes", "--out", "run")
    resumed += ("--data", corpus)
    assert "run/training/state.safetensors: not the weights of" in error_of(1, *resumed)
    shutil.copy(other / "model.safetensors", "run")
    said = error_of(1, "couplet", "--model", "run", "春")
    assert "run: classes.txt is missing: it does not match model.safetensors" in said


def test_the_message_about_a_missing_corpus_tells_how_to_get_it(task: str, in_tmp: Path) -> None:
    name = task_named(task).corpus
    for command in ("train", "evaluate"):
        assert f"data fetch {name}" in error_of(1, command, task)


def test_a_missing_corpus_folder_is_named(task: str, tiny_models: Models, in_tmp: Path) -> None:
    for command in (("train", task), ("evaluate", task, "--model", tiny_models(task))):
        assert "none: there is no such folder" in error_of(1, *command, "--data", "none")


def test_a_corpus_can_be_given_by_its_name(
    tiny_models: Models, tiny_corpora: Corpora, in_tmp: Path
) -> None:
    """``evaluate --data multi30k`` was "no such folder", though README printed it."""
    command = ("evaluate", "couplet", "--model", tiny_models("couplet"), "--data")
    assert "data fetch couplet" in error_of(1, *command, "couplet")
    (in_tmp / "corpora").mkdir()
    (in_tmp / "corpora" / "couplet").symlink_to(tiny_corpora["couplet"])
    by_name = lines_of(*command, "couplet")
    assert by_name == lines_of(*command, tiny_corpora["couplet"])
    assert "multi30k is a corpus for translation, not for couplet" in error_of(
        2, *command, "multi30k"
    )
    assert "did you mean 'couplet'?" in error_of(2, *command, "couplets")
    (in_tmp / "multi30k").symlink_to(tiny_corpora["couplet"])  # a folder goes before a name
    assert lines_of(*command, "multi30k") == by_name


def test_the_message_about_an_unknown_split_lists_all_splits(
    task: str, tiny_models: Models, tiny_corpora: Corpora
) -> None:
    """The message was "No such file", with a path that the user had not typed."""
    command = ("evaluate", task, "--model", tiny_models(task), "--data", tiny_corpora[task])
    message = error_of(2, *command, "--split", "nosuch")
    assert "the split must be one of " in message
    for name in ("test", "train", "val"):
        assert name in message


REPORTED = {
    "translation": ("bleu", "bleu_signature", "bleu_lowercase", "token_accuracy", "loss"),
    "classification": ("accuracy", "macro_f1", "classes", "confusion"),
    "couplet": (),
}


def test_evaluate_reports_on_the_test_split(
    task: str, tiny_models: Models, tiny_corpora: Corpora
) -> None:
    command = ("evaluate", task, "--model", tiny_models(task), "--data", tiny_corpora[task])
    report = json.loads("\n".join(lines_of(*command, "--json")))
    assert report["split"].startswith("test")
    assert set(REPORTED[task]) <= set(report)
    assert report["split"] in "\n".join(lines_of(*command))
    other = json.loads("\n".join(lines_of(*command, "--json", "--split", "val")))
    assert other["split"] == "val"


def test_models_lists_the_shipped_models(
    tiny_models: Models, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "PRETRAINED", tmp_path)
    assert len(lines_of("models")) == 1  # the names of the columns
    assert run("models", "--json").stdout == ""
    for name in ("classification-mine", "translation"):
        (tmp_path / name).symlink_to(tiny_models(name.partition("-")[0]))
    first, second = map(json.loads, lines_of("models", "--json"))
    assert (first["task"], first["name"]) == ("classification", "mine")
    assert (second["task"], second["name"]) == ("translation", "default")
    metrics = json.loads((tmp_path / "translation" / "metrics.json").read_text())
    weights = (tmp_path / "translation" / "model.safetensors").stat().st_size
    assert second["parameters"] == metrics["parameters"]
    assert second["trained"] == metrics["trained"]
    assert second["headline"] == metrics["test"]["headline"]
    assert second["folder"] == str(tmp_path / "translation")
    assert weights < second["size"] < 100 * weights
    names, _, row = lines_of("models")
    assert names.split() == ["task", "name", "parameters", "size", "trained", "headline", "folder"]
    for fact in ("translation", f"{metrics['parameters']:,}", " MB", second["headline"]):
        assert fact in row
