"""Averages of checkpoints: what comes out, and which checkpoints have none."""

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest
import torch

from core.errors import CheckpointError
from core.storage.checkpoint import load_tensors, save_tensors
from core.training.kept_checkpoints import epoch_file, kept_epochs
from core.training.state import STATE_FILE, STATE_FOLDER, TrainingState
from tasks import registry
from tasks.runs.averaging import average, best_epochs, last_epochs
from tasks.runs.checkpoint_folder import headline, seal
from tests.commands.command_line import error_of, lines_of, run

Models = Callable[[str], Path]

TEXTS = {"translation": "Ein Hund", "classification": "goal coach", "couplet": "天地山水"}
COMMANDS = {"translation": "translate", "classification": "classify", "couplet": "couplet"}


def perturbed(folder: Path, copy: Path, shift: float) -> Path:
    """A copy of a checkpoint with ``shift`` added to every weight."""
    shutil.copytree(folder, copy)
    path = copy / "model.safetensors"
    save_tensors(path, {name: tensor + shift for name, tensor in load_tensors(path).items()})
    return copy


def edit_config(folder: Path, section: str, key: str, value: object) -> None:
    path = folder / "config.json"
    about = json.loads(path.read_text())
    about[section][key] = value
    path.write_text(json.dumps(about))
    seal(folder)


@pytest.fixture(scope="module")
def kept_run(tiny_corpora: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of five epochs that has kept the weights of the best three."""
    out = tmp_path_factory.mktemp("runs") / "run"
    settings = ("data.vocab_size=400", "train.epochs=5", "train.average=3")
    done = run(
        *("train", "classification", "--preset=tiny", f"--data={tiny_corpora['classification']}"),
        *(f"--out={out}", *(f"--set={setting}" for setting in settings)),
    )
    assert done.exit_code == 0, done.output
    assert len(kept_epochs(out)) == 3
    return out


# What comes out


def test_the_mean_of_three_models(task: str, tiny_models: Models, in_tmp: Path) -> None:
    """Every weight is the mean of the three, and the command of the task takes the folder."""
    one = tiny_models(task)
    others = [perturbed(one, in_tmp / f"other{i}", shift) for i, shift in ((1, 0.01), (2, 0.02))]
    printed = lines_of("average", one, *others, "--out", "mean")
    assert printed == [f"mean: the mean of {one}, {others[0]}, {others[1]}; not measured"]
    weights = [load_tensors(folder / "model.safetensors") for folder in (one, *others)]
    mean = load_tensors(in_tmp / "mean" / "model.safetensors")
    assert mean.keys() == weights[0].keys()
    for name, tensor in mean.items():
        expected = torch.stack([w[name].double() for w in weights]).mean(dim=0)
        assert torch.equal(tensor, expected.float()), name
    assert lines_of(COMMANDS[task], "--model", "mean", TEXTS[task]) != [""]


def test_the_mean_of_a_model_and_its_copy_is_the_model(
    task: str, tiny_models: Models, in_tmp: Path
) -> None:
    one = tiny_models(task)
    average([one, shutil.copytree(one, in_tmp / "copy")], in_tmp / "mean")
    for name in ("config.json", "vocabulary.txt"):
        assert (in_tmp / "mean" / name).read_bytes() == (one / name).read_bytes()
    mean, weights = (load_tensors(f / "model.safetensors") for f in (in_tmp / "mean", one))
    assert mean.keys() == weights.keys()
    assert all(torch.equal(mean[name], weights[name]) for name in mean)


def test_the_folder_claims_nothing_that_was_measured_on_another_model(
    tiny_models: Models, in_tmp: Path
) -> None:
    one, other = (
        shutil.copytree(tiny_models("classification"), in_tmp / name) for name in ("one", "other")
    )
    (one / "README.md").write_text("accuracy 99%")
    returned = average([one, other], in_tmp / "new" / "mean")
    metrics = json.loads((in_tmp / "new" / "mean" / "metrics.json").read_text())
    assert metrics == returned
    assert metrics["average_of"] == [str(one), str(other)]
    assert "not measured yet" in metrics["note"]
    assert headline(metrics) == "not measured"
    measured = {"test", "validation", "history", "best_epoch", "training_seconds", "trained"}
    assert not measured & metrics.keys()
    original = json.loads((one / "metrics.json").read_text())
    assert metrics["parameters"] == original["parameters"]
    names = {path.name for path in (in_tmp / "new" / "mean").iterdir()}
    texts = {"vocabulary.txt", "sentencepiece.model", "classes.txt"}
    assert names == {"config.json", "manifest.json", "metrics.json", "model.safetensors", *texts}


def test_half_precision_stays_half_precision(tiny_models: Models, in_tmp: Path) -> None:
    """And is rounded once, at the end."""
    one = shutil.copytree(tiny_models("couplet"), in_tmp / "one")
    edit_config(one, "train", "weights_on_disk", "fp16")
    average([one, perturbed(one, in_tmp / "other", 0.25)], in_tmp / "mean")
    originals = load_tensors(one / "model.safetensors")
    for name, tensor in load_tensors(in_tmp / "mean" / "model.safetensors").items():
        assert tensor.dtype == torch.float16
        exact = (originals[name].double() + (originals[name] + 0.25).double()) / 2
        assert torch.equal(tensor, exact.float().half())


# The epochs of one run


def test_the_best_epochs_of_a_run(kept_run: Path, in_tmp: Path) -> None:
    epochs = sorted(kept_epochs(kept_run)[:2])
    (line,) = lines_of("average", kept_run, "--best", 2, "--out", "mean")
    files = [epoch_file(kept_run, epoch) for epoch in epochs]
    assert line == f"mean: the mean of {files[0]}, {files[1]}; not measured"
    one, other = (load_tensors(file) for file in files)
    for name, tensor in load_tensors(Path("mean/model.safetensors")).items():
        assert torch.equal(tensor, ((one[name].double() + other[name].double()) / 2).float())
    assert lines_of("classify", "--model", "mean", "goal") != [""]


def test_the_best_epochs_are_those_of_the_best_metric(kept_run: Path) -> None:
    metrics = json.loads((kept_run / "metrics.json").read_text())
    accuracy = {row["epoch"]: row["val_accuracy"] for row in metrics["history"]}
    best = sorted(accuracy, key=lambda epoch: -accuracy[epoch])[:2]  # the earlier of equals
    assert best_epochs(kept_run, 2) == [epoch_file(kept_run, epoch) for epoch in sorted(best)]


@pytest.mark.parametrize(("name", "order"), [("val_loss", [2, 3, 4]), ("val_bleu", [2, 4, 3])])
def test_the_best_of_the_last_epochs_come_first(
    name: str, order: list[int], tmp_path: Path
) -> None:
    """A run with ``average_of=last`` keeps them as they come, and the best epoch beside them."""
    best = {"val_loss": 1.0, "val_bleu": 9.0}[name]
    state = TrainingState(best=best, best_epoch=2, candidates=[(5.0, 4), (3.0, 3)])
    for epoch in range(1, 5):
        row = {"epoch": epoch, "step": epoch, "train_loss": 1.0, "learning_rate": 0.1}
        state.history.append(row | {"seconds": 1.0})
        state.begin_epoch(epoch + 1)
    content = bytearray(json.dumps({"state": asdict(state), "train": {}}).encode())
    numbers = torch.frombuffer(content, dtype=torch.uint8)
    save_tensors(tmp_path / STATE_FOLDER / STATE_FILE, {"numbers": numbers})
    assert kept_epochs(tmp_path) == order


def test_the_last_epochs_are_the_last_of_those_kept(kept_run: Path) -> None:
    epochs = sorted(kept_epochs(kept_run))
    assert last_epochs(kept_run, 2) == [epoch_file(kept_run, epoch) for epoch in epochs[-2:]]


def test_epochs_and_folders_stand_together(kept_run: Path, in_tmp: Path) -> None:
    (file,) = best_epochs(kept_run, 3)[:1]
    average([file, kept_run], in_tmp / "mean")
    epoch, best = load_tensors(file), load_tensors(kept_run / "model.safetensors")
    for name, tensor in load_tensors(in_tmp / "mean" / "model.safetensors").items():
        assert torch.equal(tensor, ((epoch[name].double() + best[name].double()) / 2).float())


@pytest.mark.parametrize("option", ["--best", "--last"])
def test_a_run_that_kept_fewer_says_so(option: str, kept_run: Path, in_tmp: Path) -> None:
    message = error_of(1, "average", kept_run, option, 4, "--out", "mean")
    epochs = ", ".join(map(str, sorted(kept_epochs(kept_run))))
    assert f"{kept_run}: the run has kept the weights of 3 epochs ({epochs}), not of 4" in message
    assert "train.average" in message
    assert list(in_tmp.iterdir()) == []


def test_a_run_that_kept_none_and_a_folder_that_is_no_run(
    tiny_models: Models, in_tmp: Path
) -> None:
    message = error_of(1, "average", tiny_models("couplet"), "--best", 2, "--out", "mean")
    assert "of 0 epochs, not of 2" in message
    assert "no config.json" in error_of(1, "average", "none", "--best", 2, "--out", "mean")


# What is refused


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ("{one} --out mean", "two checkpoints or more, not 1"),
        ("{one} {one} --out mean", "named twice"),
        ("{one} . --out mean", "named twice"),
        ("--out mean", "Missing argument"),
        ("{one} {other}", "Missing option '--out'"),
        ("{one} --best 1 --out mean", "--best"),
        ("{one} --best 2 --last 2 --out mean", "exclude each other"),
        ("{one} {other} --best 2 --out mean", "of one run"),
    ],
)
def test_wrong_usage(
    arguments: str,
    reason: str,
    tiny_models: Models,
    in_tmp: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = tiny_models("couplet")
    if " . " in arguments:  # the same folder by another name
        monkeypatch.chdir(one)
    words = arguments.format(one=one, other=in_tmp / "other").split()
    assert reason in error_of(2, "average", *words)


def test_models_of_different_tasks(tiny_models: Models, in_tmp: Path) -> None:
    one, other = tiny_models("translation"), tiny_models("couplet")
    message = error_of(1, "average", one, other, "--out", "mean")
    assert f"{other} is a model for couplet, {one} one for translation" in message
    assert list(in_tmp.iterdir()) == []


@pytest.mark.parametrize(
    ("section", "key", "value", "shown"),
    [
        ("model", "nhead", 2, "model.nhead = 2, {one} has 4"),
        ("data", "bpe_dropout", 0.5, "data.bpe_dropout = 0.5, {one} has 0.0"),
        ("generation", "beam_size", 9, "generation.beam_size = 9, {one} has 1"),
    ],
)
def test_models_of_different_configurations(
    section: str, key: str, value: object, shown: str, tiny_models: Models, in_tmp: Path
) -> None:
    one = tiny_models("translation")
    other = shutil.copytree(one, in_tmp / "other")
    edit_config(other, section, key, value)
    message = error_of(1, "average", one, other, "--out", "mean")
    assert f"{other} has {shown.format(one=one)}" in message


def test_how_models_were_trained_may_differ(tiny_models: Models, in_tmp: Path) -> None:
    one = tiny_models("couplet")
    other = shutil.copytree(one, in_tmp / "other")
    edit_config(other, "train", "epochs", 99)
    average([one, other], in_tmp / "mean")


@pytest.mark.parametrize("name", ["vocabulary.txt", "sentencepiece.model", "classes.txt"])
@pytest.mark.parametrize("is_missing", [False, True])
def test_models_of_different_vocabularies(
    name: str, is_missing: bool, tiny_models: Models, in_tmp: Path
) -> None:
    """Of the same shape: the mean would be nonsense that loads."""
    one = tiny_models("classification")
    other = shutil.copytree(one, in_tmp / "other")
    path = other / name
    if is_missing:
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-3] + b"xy\n")
    seal(other)
    message = error_of(1, "average", one, other, "--out", "mean")
    assert f"{other} and {one} differ in {name}" in message


def test_weights_of_different_shapes(tiny_models: Models, in_tmp: Path) -> None:
    one = tiny_models("couplet")
    other = shutil.copytree(one, in_tmp / "other")
    tensors = load_tensors(other / "model.safetensors")
    name = "generator.bias"
    save_tensors(other / "model.safetensors", {**tensors, name: tensors[name][:-1]})
    message = error_of(1, "average", one, other, "--out", "mean")
    size = len(tensors[name])
    assert f"{name} has shape [{size - 1}], not [{size}]" in message


def test_a_damaged_file_is_named(tiny_models: Models, in_tmp: Path) -> None:
    one = tiny_models("couplet")
    other = shutil.copytree(one, in_tmp / "other")
    content = bytearray((other / "model.safetensors").read_bytes())
    content[-1] ^= 1
    (other / "model.safetensors").write_bytes(content)
    for order in ((one, other), (other, one)):
        message = error_of(1, "average", *order, "--out", "mean")
        assert f"{other / 'model.safetensors'}: damaged" in message
    assert not Path("mean").exists()


def test_files_that_are_no_checkpoint(tiny_models: Models, in_tmp: Path) -> None:
    one = tiny_models("couplet")
    for path in (one / "model.safetensors", one / "training" / "state.safetensors"):
        message = error_of(1, "average", path, one, "--out", "mean")
        assert f"{path}: neither a checkpoint folder nor" in message
    assert "none: not a checkpoint folder" in error_of(1, "average", "none", one, "--out", "mean")
    lone = in_tmp / "training" / "epoch-001.safetensors"
    assert "no config.json" in error_of(1, "average", lone, one, "--out", "mean")


def test_a_folder_that_is_there_is_left_alone(tiny_models: Models, in_tmp: Path) -> None:
    one = tiny_models("couplet")
    other = shutil.copytree(one, in_tmp / "other")
    Path("mean").mkdir()
    assert "mean: already exists" in error_of(1, "average", one, other, "--out", "mean")
    assert list(Path("mean").iterdir()) == []


def test_nothing_is_left_of_a_mean_that_cannot_be_written(
    tiny_models: Models, in_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise CheckpointError("the disk is full")

    one = tiny_models("couplet")
    other = shutil.copytree(one, in_tmp / "other")
    monkeypatch.setattr("tasks.runs.averaging.save_weights", fail)
    assert "the disk is full" in error_of(1, "average", one, other, "--out", "mean")
    assert list(in_tmp.iterdir()) == [other]


def test_the_model_of_a_folder_has_its_weights(task: str, tiny_models: Models) -> None:
    model = registry.load_model(task, tiny_models(task), device="cpu")
    weights = load_tensors(tiny_models(task) / "model.safetensors")
    parameters = dict(model.named_parameters())
    assert all(torch.equal(parameters[name], weights[name]) for name in parameters)
