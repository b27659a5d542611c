"""Fine-tuning: runs that start from an existing model (``train --init``)."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from core.errors import CheckpointError, ConfigError, Interrupted, UserError
from core.storage.checkpoint import load_tensors
from core.training.fit import Trainer
from data.codec import TextCodec
from tasks.runs.checkpoint_folder import text_files
from tests.commands.command_line import error_of, run
from tests.tasks.tiny_models import tiny_config, train, train_with

Models = Callable[[str], Path]
Corpora = dict[str, Path]

STILL = ("train.learning_rate=1e-9", "train.epochs=1")
# A run that starts from a model fits no n-grams; its configuration says so.
NOT_FITTED = {"classification": ("data.fit_ngrams=0",)}
"""Nearly no training: the weights are still those of the initial model."""


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_tensors(folder / "model.safetensors")


def assert_close(first: Path, second: Path, *, but_not: str = " ") -> None:
    """Asserts that two checkpoints have the same weights, apart from those named ``but_not``."""
    ours, theirs = weights(first), weights(second)
    assert ours.keys() == theirs.keys()
    for name, weight in ours.items():
        if name.startswith(but_not):
            assert weight.shape != theirs[name].shape or not torch.equal(weight, theirs[name])
        else:
            torch.testing.assert_close(weight, theirs[name], rtol=0, atol=1e-6)


def test_a_run_starts_from_the_weights_and_the_vocabulary_of_a_model(
    task: str,
    tiny_models: Models,
    tiny_corpora: Corpora,
    in_tmp: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """From the command line, with the default preset: the model section is that of the model."""
    init, out = tiny_models(task), in_tmp / "run"
    settings = [f"--set={setting}" for setting in STILL]
    done = run("train", task, "--init", init, "--data", tiny_corpora[task], "--out", out, *settings)
    assert done.exit_code == 0, done.output
    assert_close(out, init)
    assert text_files(out) == text_files(init)
    config, initial_config = (json.loads((f / "config.json").read_text()) for f in (out, init))
    assert config["model"] == initial_config["model"]
    assert config["train"]["schedule"] == "cosine"  # of the preset
    assert json.loads((out / "metrics.json").read_text())["init"] == str(init)
    assert f"starting from the model in {init}" in done.stderr


def test_a_vocabulary_that_cannot_be_copied_is_one_line(
    tiny_models: Models, tiny_corpora: Corpora, tmp_path: Path
) -> None:
    """It was a traceback, and on a full disk a message about standard output."""
    (tmp_path / "run" / "vocabulary.txt").mkdir(parents=True)
    with pytest.raises(UserError, match=r"vocabulary\.txt: cannot write: not a regular file"):
        train("couplet", tiny_corpora["couplet"], tmp_path / "run", init=tiny_models("couplet"))


def test_a_fine_tuned_run_is_resumed_without_its_initial_model(
    task: str, tiny_models: Models, tiny_corpora: Corpora, tmp_path: Path
) -> None:
    init = shutil.copytree(tiny_models(task), tmp_path / "init")
    parts = tmp_path / "parts"
    constant = ("train.schedule=constant", *NOT_FITTED.get(task, ()))
    straight = train(task, tiny_corpora[task], tmp_path / "straight", *constant, init=init)
    train(task, tiny_corpora[task], parts, *constant, "train.epochs=1", init=init)
    moved = init.rename(tmp_path / "moved")
    resumed = train(task, tiny_corpora[task], parts, *constant, init=moved, resume=True)
    assert resumed["init"] == str(init)
    assert (resumed["steps"], resumed["test"]) == (straight["steps"], straight["test"])
    for name, weight in weights(parts).items():
        assert torch.equal(weight, weights(tmp_path / "straight")[name])


def test_a_run_that_was_stopped_before_its_first_step_starts_from_the_model(
    tiny_models: Models, tiny_corpora: Corpora, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    init = shutil.copytree(tiny_models("couplet"), tmp_path / "init")
    data, out = tiny_corpora["couplet"], tmp_path / "run"

    def stopped(*arguments: object) -> None:
        raise Interrupted("stopped")

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "train_epoch", stopped)
        with pytest.raises(Interrupted):
            train("couplet", data, out, *STILL, init=init)
    moved = init.rename(tmp_path / "moved")
    resumed = train("couplet", data, out, *STILL, init=moved, resume=True)
    assert resumed["init"] == str(init)
    assert_close(out, moved)


def other_classes(corpus: Path, folder: Path, names: list[str]) -> Path:
    """Returns a copy of a labeled corpus with other names of classes."""
    shutil.copytree(corpus, folder)
    (folder / "classes.txt").write_text("".join(f"{name}\n" for name in names))
    return folder


@pytest.mark.parametrize(
    "names", [["Good", "Bad", "Ugly"], ["World", "Sports", "Business", "Weather"]]
)
def test_a_classifier_for_other_classes_gets_a_new_last_layer(
    names: list[str],
    tiny_models: Models,
    tiny_corpora: Corpora,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    init, out = tiny_models("classification"), tmp_path / "run"
    corpus = other_classes(tiny_corpora["classification"], tmp_path / "corpus", names)
    train("classification", corpus, out, *STILL, init=init)
    said = capsys.readouterr().err
    message = f"the classes are not those of {init}: the last layer is newly initialized\n"
    assert said.count(message) == 1
    assert (out / "classes.txt").read_text().split() == names
    assert (out / "vocabulary.txt").read_bytes() == (init / "vocabulary.txt").read_bytes()
    assert_close(out, init, but_not="classifier.3.")
    assert len(weights(out)["classifier.3.bias"]) == len(names)
    epochs = ("train.learning_rate=1e-9", "train.epochs=2", *NOT_FITTED["classification"])
    assert train("classification", corpus, out, *epochs, init=init, resume=True)["epochs"] == 2


def test_a_fitting_model_is_better_than_a_new_one(
    tiny_models: Models, tiny_corpora: Corpora, tmp_path: Path
) -> None:
    data = tiny_corpora["classification"]
    settings = ("data.vocab_size=100", "train.epochs=1")
    scratch = train("classification", data, tmp_path / "scratch", *settings)
    init = tiny_models("classification")
    tuned = train("classification", data, tmp_path / "tuned", *settings, init=init)
    assert tuned["validation"]["val_loss"] < 0.5 * scratch["validation"]["val_loss"]


@pytest.mark.parametrize(
    ("task", "options", "message"),
    [
        ("translation", ("--src", "fr"), "data.src = de, not fr"),
        ("translation", ("--set=data.vocab_size=200",), "data.vocab_size = 400, not 200"),
        ("couplet", ("--set=model.d_model=64",), "model.d_model = 32, not 64"),
        ("classification", ("--set=model.nhead=2",), "model.nhead = 4, not 2"),
    ],
)
def test_a_model_that_does_not_suit_is_refused_by_name(
    task: str,
    options: tuple[str, ...],
    message: str,
    tiny_models: Models,
    tiny_corpora: Corpora,
    in_tmp: Path,
) -> None:
    init, data = tiny_models(task), tiny_corpora[task]
    command = ("train", task, "--init", init, "--data", data, "--out", "run")
    said = error_of(2, *command, *options)
    assert f"{init}: cannot start from this model: it has {message}" in said
    assert list(in_tmp.iterdir()) == []


def test_another_task_or_no_model_is_refused(
    tiny_models: Models, tiny_corpora: Corpora, in_tmp: Path
) -> None:
    other = tiny_models("classification")
    command = ("train", "couplet", "--data", tiny_corpora["couplet"], "--out", "run", "--init")
    message = error_of(1, *command, other)
    assert f"{other}: a model for classification, not for couplet" in message
    assert "nowhere: there is no such folder" in error_of(1, *command, "nowhere")
    assert "leave out --init" in error_of(2, *command, other, "--resume")
    arguments = ("couplet", tiny_config("couplet"), tiny_corpora["couplet"], Path("run"))
    with pytest.raises(CheckpointError, match="a model for classification"):
        train_with(*arguments, init=other)
    with pytest.raises(ConfigError, match="leave out init"):
        train_with(*arguments, init=other, resume=True)
    assert list(in_tmp.iterdir()) == []


def test_the_shipped_model_can_be_named(in_tmp: Path) -> None:
    command = ("train", "translation", "--preset", "small", "--show-config")
    assert "vocab_size = 4000\n" in run(*command).stdout
    assert "vocab_size = 12000\n" in run(*command, "--init", "default").stdout


def test_dropout_may_change(tiny_models: Models, tiny_corpora: Corpora, tmp_path: Path) -> None:
    init = tiny_models("couplet")
    free = ("model.dropout=0.3", "model.max_len=80")
    train("couplet", tiny_corpora["couplet"], tmp_path / "run", *STILL, *free, init=init)
    assert_close(tmp_path / "run", init)


def test_a_plain_couplet_model_gets_an_aligned_decoder(
    tiny_corpora: Corpora, tmp_path: Path
) -> None:
    """The alignment is new and zero; a run that starts from the aligned model takes all of it."""
    data = tiny_corpora["couplet"]
    plain, aligned, again = (tmp_path / name for name in ("plain", "aligned", "again"))
    train("couplet", data, plain, "train.epochs=1", "model.aligned=false")
    train("couplet", data, aligned, "train.epochs=1", "model.aligned=true", init=plain)
    new = weights(aligned).keys() - weights(plain).keys()
    assert new == {"alignment.linear.weight", "alignment.linear.bias"}
    train("couplet", data, again, *STILL, "model.aligned=true", init=aligned)
    assert weights(again)["alignment.linear.weight"].any()
    assert_close(again, aligned)


@pytest.mark.parametrize("task", ["translation", "couplet"])
def test_a_new_vocabulary_starts_from_the_vectors_of_the_old_one(
    task: str, tiny_models: Models, tiny_corpora: Corpora, tmp_path: Path
) -> None:
    """Shared tokens keep their vectors; a new word starts from the mean of its old subwords."""
    init, data, out = tiny_models(task), tmp_path / "corpus", tmp_path / "run"
    shutil.copytree(tiny_corpora[task], data)
    languages = task == "translation"
    for name in ("train.de", "train.en") if languages else ("train/in.txt", "train/out.txt"):
        with (data / name).open("a") as file:
            file.write("龍 鳳 Hundehaus\n" * 9 if languages else "龍 鳳\n" * 9)
    settings = ("data.vocab_size=700", "data.byte_fallback=true") if languages else ()
    changes = [f"--set={each}" for each in (*STILL, *settings)]
    command = ("train", task, "--preset=tiny", "--data", data, "--out", out, *changes)
    assert run(*command, "--init", init, "--new-vocabulary").exit_code == 0
    kind = "sentencepiece" if languages else "characters"
    old, new = (TextCodec.load(folder, tokenizer=kind) for folder in (init, out))
    ours, theirs = weights(out), weights(init)
    parts = {token: [old.vocabulary.stoi.get(token, -1)] for token in new.vocabulary.itos}
    if languages:
        parts["▁Hundehaus"] = old.encode("Hundehaus")
        assert len(parts["▁Hundehaus"]) > 1
    assert parts["龍"] == [-1]
    compared = [token for token, ids in parts.items() if -1 not in ids]
    assert len(compared) > 20
    for name in ("src_embedding.embedding.weight", "generator.bias"):
        for token in compared:
            expected = theirs[name][parts[token]].mean(0)
            row = ours[name][new.vocabulary.stoi[token]]
            torch.testing.assert_close(row, expected, rtol=0, atol=1e-6)
    norm = "transformer.encoder.norm.weight"
    torch.testing.assert_close(ours[norm], theirs[norm], rtol=0, atol=1e-6)


def test_an_output_layer_of_its_own_changes_with_the_vocabulary(
    tiny_corpora: Corpora, tmp_path: Path
) -> None:
    data, init, out = (tmp_path / name for name in ("corpus", "init", "run"))
    shutil.copytree(tiny_corpora["couplet"], data)
    train("couplet", data, init, "train.epochs=1", "model.tie_output=false")
    for name in ("train/in.txt", "train/out.txt"):
        with (data / name).open("a") as file:
            file.write("龍 鳳\n" * 9)
    settings = [f"--set={each}" for each in (*STILL, "model.tie_output=false")]
    folders = ("--data", data, "--out", out, "--init", init)
    done = run("train", "couplet", "--preset=tiny", *folders, "--new-vocabulary", *settings)
    assert done.exit_code == 0, done.stderr
    old, new = (TextCodec.load(folder, tokenizer="characters").vocabulary for folder in (init, out))
    assert "龍" in new.stoi.keys() - old.stoi.keys()
    name = "generator.weight"
    ours, theirs = weights(out)[name], weights(init)[name]
    rows = [new.stoi[token] for token in old.itos]
    torch.testing.assert_close(ours[rows], theirs, rtol=0, atol=1e-6)


def test_a_new_vocabulary_is_refused_where_there_can_be_none(
    tiny_models: Models, tiny_corpora: Corpora, in_tmp: Path
) -> None:
    data = tiny_corpora["classification"]
    command = ("train", "classification", "--data", data, "--out", "run", "--new-vocabulary")
    assert "--new-vocabulary needs --init" in error_of(2, *command)
    message = error_of(2, *command, "--init", tiny_models("classification"))
    assert "a model for classification cannot change its vocabulary" in message
    assert list(in_tmp.iterdir()) == []
