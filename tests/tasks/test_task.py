"""The tasks by name, and the configuration of a run from preset, file and command line."""

from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks import couplet_preferences, translation_mixture
from core.config import to_mapping
from core.errors import ConfigError
from tasks.classification.model import ClassificationModel
from tasks.couplet.model import CoupletModel
from tasks.runs.checkpoint_folder import model_folder, read_config, read_metrics
from tasks.runs.config import make_config
from tasks.task import task_named
from tasks.translation.model import TranslationModel
from tests.tasks.tiny_models import tiny_config

LONGEST_RUNS = {
    "translation": (translation_mixture.RECIPE / "distilled.toml", 5467),
    "couplet": (couplet_preferences.RECIPE / "written.toml", 7150),
}
"""The recipe and the steps of the longest of several runs of a shipped model."""


def make(task: str, *assignments: str, preset: str = "tiny", file: Path | None = None) -> Any:
    return tiny_config(task, *assignments, preset=preset, config_file=file)


@pytest.mark.parametrize("preset", ["tiny", "small", "default", "best", "paper"])
def test_every_preset_makes_a_model(task: str, preset: str) -> None:
    config = make(task, preset=preset)
    with torch.device("meta"):  # sizes without memory
        if task == "translation":
            model = TranslationModel(50, 50, config.model)
        elif task == "classification":
            model = ClassificationModel(50, 4, config.model, tokens=[*map(str, range(50))])
        else:
            model = CoupletModel(50, config.model)
    layers = [name for name, _ in model.named_parameters() if "linear1.weight" in name]
    assert len(layers) == config.model.num_encoder_layers + getattr(
        config.model, "num_decoder_layers", 0
    )


def test_the_papers_preset_is_the_papers_base_model(task: str) -> None:
    model = make(task, preset="paper").model
    assert (model.d_model, model.nhead, model.dim_feedforward) == (512, 8, 2048)
    assert (model.num_encoder_layers, model.dropout, model.norm_first) == (6, 0.1, False)


def test_the_best_preset_is_that_of_the_shipped_model(task: str) -> None:
    """All but what depends on the machine, and on the files of the run.

    The share of the warm-up gives the number of its steps, in the run of the shipped model. Where
    this had several runs, the preset is the longest, with the epochs of its recipe.
    """
    shipped = to_mapping(read_config(model_folder(task, None), task, task_named(task).config_class))
    preset = to_mapping(make(task, preset="best"))
    steps = read_metrics(model_folder(task, None))["steps"]
    if task in LONGEST_RUNS:
        file, steps = LONGEST_RUNS[task]
        recipe = make_config(task_named(task), config_file=file)
        shipped["train"] = to_mapping(recipe)["train"]
        shipped["model"]["dropout"] = recipe.model.dropout
    assert preset["model"] == shipped["model"]
    for section, other in (
        ("data", ("extra", "extra_weights")),
        ("train", ("precision", "save_every")),
    ):
        for values in (preset[section], shipped[section]):
            for name in other:
                values.pop(name, None)
        if section == "train":
            warmup_steps = shipped[section].pop("warmup_steps")
            chosen = preset[section].pop("warmup_steps")
            expected = preset[section]["warmup"] * steps if chosen is None else chosen
            assert warmup_steps == pytest.approx(expected, rel=0.01)
            shipped[section]["warmup"] = preset[section]["warmup"]
        assert preset[section] == shipped[section]


def test_presets_file_and_assignments_come_in_that_order(tmp_path: Path) -> None:
    file = tmp_path / "my.toml"
    file.write_text('[train]\nepochs = 7\nseed = 9\n[data]\nsrc = "fr"\n')
    config = make("translation", "train.seed=11", "data.tgt=cs", file=file)
    assert (config.train.epochs, config.train.seed) == (7, 11)
    assert (config.data.src, config.data.tgt) == ("fr", "cs")
    tiny = make("translation")
    assert config.model == tiny.model
    file.write_text('[data]\ntokenizer = "whitespace"\nvocab_size = "none"\n')
    assert make("translation", file=file).data.vocab_size is None
    assert config.train.batch_tokens == tiny.train.batch_tokens


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("my.toml", b"[trian]\nepochs = 7\n", "unknown option 'trian'; did you mean 'train'"),
        ("my.toml", b"[train]\nepoch = 7\n", r"'train\.epoch'; did you mean .*epochs"),
        ("my.toml", b"[train]\nepochs = 'many'\n", r"train\.epochs must be a whole number"),
        ("my.toml", b"train = 7\n", "train is a section"),
        ("my.toml", b"[train\n", "not valid TOML"),
        ("my.toml", b"\xff", "not valid UTF-8"),
        ("my.toml", b"a = " + b"[" * 100_000, "nested too deeply|not valid TOML"),
        ("my.json", b"{", "not valid JSON"),
        ("my.json", b"[]", "not a configuration"),
        ("my.json", b'{"task": "couplet"}', "a configuration for couplet, not for translation"),
        ("my.json", b'{"train": {"epoch": 1}}', "did you mean"),
        ("my.json", b"[" * 100_000, "nested too deeply|not valid JSON"),
    ],
)
def test_a_bad_file_is_named_with_its_fault(
    name: str, content: bytes, message: str, tmp_path: Path
) -> None:
    """Deep nesting was a RecursionError."""
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigError, match=rf"{name}: .*({message})"):
        make("translation", file=tmp_path / name)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"my\.toml: cannot read: No such file"):
        make("translation", file=tmp_path / "my.toml")


def test_unknown_names_are_answered_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'translation'"):
        task_named("translate")
    with pytest.raises(
        ConfigError, match=r"one of tiny, small, default, best, paper, not 'papr'.*'paper'"
    ):
        make("couplet", preset="papr")
    with pytest.raises(ConfigError, match=r"did you mean 'data\.extra'"):
        make("couplet", "data.extras=verse")


@pytest.mark.parametrize(
    ("task", "assignment", "message"),
    [
        ("translation", "data.max_tokens=0", r"data\.max_tokens must be at least 1"),
        ("translation", "data.augment=2", r"data\.augment must be"),
        ("classification", "data.columns=", r"data\.columns must be one column or more"),
        ("classification", "data.columns=title,title", r"data\.columns must be .*each once"),
        ("classification", "data.columns=titel", "did you mean 'title'"),
        ("classification", "data.max_sen_len=0", r"data\.max_sen_len must be"),
        ("classification", "data.max_sen_len=longest", r"data\.max_sen_len must be"),
        ("classification", "data.val_share=1", r"data\.val_share must be"),
        ("classification", "data.token_dropout=-0.5", r"data\.token_dropout must be"),
        ("classification", "model.concat_type=mean", r"model\.concat_type must be one of"),
        ("couplet", "data.min_freq=0", r"data\.min_freq must be"),
        ("couplet", "data.val_share=-1", r"data\.val_share must be"),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(task: str, assignment: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make(task, assignment)
