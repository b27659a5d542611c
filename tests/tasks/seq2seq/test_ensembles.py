"""Several trained models as one: what they must share, and what becomes of their probabilities."""

import json
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from core.errors import CheckpointError, ConfigError
from core.inference.ensemble import mean_log_probs
from core.storage.checkpoint import save_weights
from data.vocabulary import Vocabulary
from tasks.couplet.predict import CoupletWriter
from tasks.runs import checkpoint_folder as folders
from tasks.task import SEARCHING_TASKS
from tasks.translation.config import TranslationConfig
from tasks.translation.model import TranslationModel
from tasks.translation.predict import Translator
from tests.tasks.tiny_models import measured, network, spread, without_digests

Models = Callable[[str], Path]

GERMAN = ["Ein Hund sieht das Boot.", "", "Eine Frau malt das Meer. Ein Kind hört die Straße."]


def changed(folder: Path, out: Path, **data: Any) -> Path:
    """A copy of a model's folder with other options of the section ``data``."""
    shutil.copytree(folder, out)
    path = out / "config.json"
    config = json.loads(path.read_text())
    config["data"] |= data
    path.write_text(json.dumps(config))
    return out


def reweighed(folder: Path, out: Path, **sizes: Any) -> Path:
    """A model like that in ``folder``, but for its weights, and the named sizes."""
    shutil.copytree(folder, out)
    config = folders.read_config(folder, "translation", TranslationConfig)
    config = replace(config, model=replace(config.model, **sizes))
    folders.write_config(out, "translation", config)
    torch.manual_seed(2)
    model = TranslationModel(*[len(Translator.load(folder).source.vocabulary)] * 2, config.model)
    spread(model)
    save_weights(out / "model.safetensors", model)
    return out


# Probabilities


def test_the_logits_are_the_mean_probabilities_logarithms() -> None:
    first, second = network(), network()
    with torch.no_grad():
        second.generator.bias += torch.arange(20.0) / 3
        src, tgt = torch.tensor([[5, 6], [7, 1]]), torch.tensor([[2, 2], [8, 9], [9, 1]])
        found = mean_log_probs([first(src, tgt), second(src, tgt)])
        expected = (first(src, tgt).softmax(dim=-1) + second(src, tgt).softmax(dim=-1)) / 2
    assert torch.allclose(found.exp(), expected, atol=1e-6)


def test_a_snapshot_is_made_once(tiny_models: Models) -> None:
    translator = Translator.load(tiny_models("translation"), device="cpu")
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda n: translator.step_model(), range(40)))
    assert len({id(model) for model in made}) == 1


# Translators


def test_a_translator_twice_translates_as_it_does_alone(tiny_models: Models) -> None:
    folder = tiny_models("translation")
    alone = Translator.load([folder], device="cpu")
    twice = Translator.load([folder, str(folder)], device="cpu")
    for options in ({}, {"beam_size": 3, "n_best": 3}, {"sample": True, "seed": 3}):
        one, two = (t.translate_scored(GERMAN, **options) for t in (alone, twice))
        assert [[h.text for h in found.hypotheses] for found in one] == [
            [h.text for h in found.hypotheses] for found in two
        ]
        for first, second in zip(one, two, strict=True):
            assert first.score == pytest.approx(second.score, rel=1e-4)
    with pytest.raises(ConfigError, match="at least one model"):
        Translator.load([], device="cpu")


def test_an_ensemble_is_measured_as_a_whole(
    tiny_models: Models, tiny_corpora: dict[str, Path]
) -> None:
    for task in SEARCHING_TASKS:
        folder, corpus = tiny_models(task), tiny_corpora[task]
        one = measured(task, folder, corpus, split="val")
        two = measured(task, [folder, folder], corpus, split="val")
        assert one["bleu"] == two["bleu"]
        assert one["loss"] == pytest.approx(two["loss"], rel=1e-5)


def test_every_model_has_influence(tiny_models: Models, tmp_path: Path) -> None:
    """And the shortest model limits the length of a segment."""
    folder = tiny_models("translation")
    other = reweighed(folder, tmp_path / "other", max_len=9)
    together = Translator.load([folder, other], device="cpu")
    scores = [
        Translator.load(each, device="cpu").translate_scored(GERMAN[:1])[0].score
        for each in (folder, [folder, other])
    ]
    assert scores[0] != pytest.approx(scores[1], rel=0.01)
    assert together.max_source_tokens == 8
    assert Translator.load(folder, device="cpu").max_source_tokens > 8
    (found,) = together.translate_scored([" ".join(GERMAN * 9)])
    assert found.segments > 27


def test_models_of_other_texts_are_refused(tiny_models: Models, tmp_path: Path) -> None:
    folder = tiny_models("translation")
    french = changed(folder, tmp_path / "french", src="fr")
    with pytest.raises(CheckpointError) as caught:
        Translator.load([folder, french], device="cpu")
    message = f"{folder} and {french} cannot search as one: their source language differs"
    assert str(caught.value) == message
    plain = changed(folder, tmp_path / "plain", tokenizer="whitespace", vocab_size=None)
    with pytest.raises(CheckpointError, match="their tokenizer differs"):
        Translator.load([folder, folder, plain], device="cpu")


def test_models_of_other_words_are_refused(tiny_models: Models, tmp_path: Path) -> None:
    folder = tiny_models("couplet")
    words = list(Vocabulary.load(folder / "vocabulary.txt").itos)
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    words[5] = "🙂"
    Vocabulary(words).save(other / "vocabulary.txt")
    without_digests(other)
    with pytest.raises(CheckpointError) as caught:
        CoupletWriter.load([folder, other], device="cpu")
    assert f"{folder} and {other}" in str(caught.value)
    assert str(caught.value).endswith("their vocabulary differs")
