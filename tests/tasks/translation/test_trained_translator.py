"""A trained translator: its folder is complete, and the report describes its translations."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import sacrebleu

from core.decoding.config import GenerationConfig
from core.errors import CheckpointError, UserError
from core.storage.checkpoint import load_tensors
from tasks.task import task_named
from tasks.translation.config import TranslationConfig, TranslationData, tiny
from tasks.translation.predict import Translator
from tests.core.small_models import sizes
from tests.tasks.tiny_models import measured, train_with

ROOT = Path(__file__).resolve().parents[3]

Models = Callable[[str], Path]
Corpora = dict[str, Path]


def test_the_report_is_about_what_the_translator_says(
    tiny_models: Models, tiny_corpora: Corpora
) -> None:
    model = tiny_models("translation")
    corpus = tiny_corpora["translation"]
    report = measured("translation", model, corpus, split="val")
    sources = (corpus / "val.de").read_text().splitlines()
    references = (corpus / "val.en").read_text().splitlines()
    translations = Translator.load(model, device="cpu").translate(sources)
    bleu = sacrebleu.corpus_bleu(translations, [references])
    assert report["bleu"] == bleu.score
    assert report["bleu_lowercase"] >= bleu.score > 10
    assert set(report) == {
        "split",
        "sentences",
        "bleu",
        "bleu_signature",
        "bleu_lowercase",
        "bleu_lowercase_signature",
        "chrf",
        "chrf_signature",
        "ter",
        "ter_signature",
        "loops",
        "unfamiliar",
        "token_accuracy",
        "loss",
        "headline",
    }
    assert (report["split"], report["sentences"]) == ("val", 16)
    assert report["headline"] == f"BLEU {bleu.score:.2f} on val"
    assert 0 < report["token_accuracy"] <= 1
    assert report["loss"] > 0
    table = task_named("translation").evaluate(model, corpus, split="val").table()
    assert report["chrf"] == sacrebleu.corpus_chrf(translations, [references]).score
    assert report["ter"] == sacrebleu.corpus_ter(translations, [references]).score
    for shown in (f"{bleu.score:.2f}", report["bleu_signature"], "16 sentences"):
        assert shown in table
    greedy = measured("translation", model, corpus, split="val", beam_size=1, batch_tokens=50)
    assert greedy["loss"] == pytest.approx(report["loss"])
    assert json.loads((model / "metrics.json").read_text())["test"]["split"] == "test_tiny"


def test_a_corpus_without_a_test_split_asks_for_one(
    tiny_models: Models, tiny_corpora: Corpora, tmp_path: Path
) -> None:
    for name in ("train.de", "train.en"):
        shutil.copy(tiny_corpora["translation"] / name, tmp_path)
    with pytest.raises(UserError, match="no test split; name one of: train, val"):
        measured("translation", tiny_models("translation"), tmp_path)


def test_a_corpus_with_sentences_too_long_for_the_model_is_measured(
    tiny_models: Models, tiny_corpora: Corpora, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All texts are translated; loss and accuracy are measured on the pairs that fit."""
    lines = {
        language: (tiny_corpora["translation"] / f"val.{language}").read_text()
        for language in ("de", "en")
    }
    for language, text in lines.items():
        endless = " ".join(text.splitlines() * 5)
        (tmp_path / f"test.{language}").write_text(f"{text}{endless}\n")
    model = tiny_models("translation")
    report = measured("translation", model, tmp_path, beam_size=1)
    assert report["sentences"] == 17
    assert "test: 1 of 17 pairs" in capsys.readouterr().err
    rest = measured("translation", model, tiny_corpora["translation"], split="val", beam_size=1)
    assert report["loss"] == pytest.approx(rest["loss"])


def test_the_folder_is_all_it_takes(tiny_models: Models, tmp_path: Path) -> None:
    """In another process, in another place, without corpus, torchtext or training state."""
    model = tiny_models("translation")
    names = ("config.json", "vocabulary.txt", "sentencepiece.model", "model.safetensors")
    for name in names:
        shutil.copy(model / name, tmp_path)
    text = "Ein Hund sieht das Boot."
    program = (
        "import sys; sys.modules['torchtext'] = None\n"
        "from tasks.translation.predict import Translator\n"
        f"print(Translator.load({str(tmp_path)!r}, device='cpu').translate([{text!r}])[0])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    expected = Translator.load(model, device="cpu").translate([text])
    assert done.stdout == f"{expected[0]}\n"
    for name in names:
        kept = (tmp_path / name).read_bytes()
        (tmp_path / name).unlink()
        with pytest.raises(CheckpointError, match=name.replace(".", r"\.")):
            Translator.load(tmp_path, device="cpu")
        (tmp_path / name).write_bytes(kept)


def test_a_run_without_a_test_split_is_trained_all_the_same(
    tiny_corpora: Corpora, tmp_path: Path
) -> None:
    """And a corpus whose sentences are longer than the model is trained on those that fit."""
    for name in ("train.de", "train.en", "val.de", "val.en"):
        shutil.copy(tiny_corpora["translation"] / name, tmp_path)
    with (tmp_path / "train.de").open("a") as german, (tmp_path / "val.en").open("a") as english:
        german.write("Hund " * 900 + "\n")
        english.write("dog " * 900 + "\n")
    with (tmp_path / "train.en").open("a") as english, (tmp_path / "val.de").open("a") as german:
        english.write("dog\n")
        german.write("Hund\n")
    data = TranslationData(vocab_size=100, augment=0.1, max_tokens=2000)
    config = TranslationConfig(
        model=sizes(max_len=40),
        data=data,
        train=tiny().train,
        # Whatever the search, epochs are compared by greedy translations.
        generation=GenerationConfig(beam_size=2, n_best=2, diversity=0.5),
    )
    metrics = train_with("translation", config, tmp_path, tmp_path / "run")
    assert metrics["test"] == {}
    assert metrics["validation"].keys() == {"val_loss", "val_accuracy", "val_bleu"}
    vocabulary = (tmp_path / "run" / "vocabulary.txt").read_bytes()
    weights = load_tensors(tmp_path / "run" / "model.safetensors")
    train_with("translation", config, tmp_path, tmp_path / "run", resume=True)
    assert (tmp_path / "run" / "vocabulary.txt").read_bytes() == vocabulary
    again = load_tensors(tmp_path / "run" / "model.safetensors")
    assert all((weights[name] == again[name]).all() for name in weights)


def test_a_corpus_to_measure_on_needs_no_training_split(
    tiny_models: Models, tiny_corpora: Corpora, tmp_path: Path
) -> None:
    for name in ("test_tiny.de", "test_tiny.en"):
        shutil.copy(tiny_corpora["translation"] / name, tmp_path)
    report = measured("translation", tiny_models("translation"), tmp_path, beam_size=1)
    assert (report["split"], report["sentences"]) == ("test_tiny", 16)
