"""What a trained translator knows of its translations and of the texts that it is given."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from core.errors import CheckpointError, ConfigError
from core.storage.checkpoint import load_tensors
from data.vocabulary import UNK_ID
from tasks.runs.checkpoint_folder import CONFIDENCE_FILE, FAMILIARITY_FILE, LANGUAGE_FILE
from tasks.seq2seq.batches import source_tensor
from tasks.translation.confidence import Confidence
from tasks.translation.config import ExtraCorpus, TranslationData
from tasks.translation.dataset import ParallelCorpus, spaced
from tasks.translation.predict import Translator
from tests.commands.command_line import lines_of, run
from tests.core.decoding.search_tables import forbidding

CALIBRATION_FILES = (CONFIDENCE_FILE, FAMILIARITY_FILE, LANGUAGE_FILE)
GERMAN, ENGLISH = "Ein Hund sieht das Boot.", "A woman hears the sea."
STRANGE = "Qqq xyz 999 天地 &&&."


@pytest.fixture
def model(tiny_models: Callable[[str], Path]) -> Path:
    return tiny_models("translation")


@pytest.fixture
def translator(model: Path) -> Translator:
    return Translator.load(model, device="cpu")


@pytest.fixture
def sharp(model: Path, tmp_path: Path) -> Path:
    """The model as if a text beyond all of the few held-out ones had the familiarity 0."""
    folder = tmp_path / "sharp"
    shutil.copytree(model, folder)
    familiarity = Translator.load(folder, device="cpu").familiarity
    assert familiarity is not None
    farthest = familiarity.quantiles[familiarity.quantiles.isfinite()].max().item()
    familiarity.quantiles = familiarity.quantiles.nan_to_num(posinf=farthest)
    familiarity.save(folder)
    return folder


@pytest.fixture
def uncalibrated(model: Path, tmp_path: Path) -> Path:
    """The model of an older program."""
    folder = tmp_path / "older"
    shutil.copytree(model, folder, ignore=shutil.ignore_patterns(*CALIBRATION_FILES))
    return folder


def test_a_run_ends_with_a_calibration(translator: Translator) -> None:
    texts = [GERMAN, STRANGE, f"{GERMAN} {STRANGE}", ""]
    known, strange, both, empty = translator.translate_scored(texts)
    # All translations of the few validation pairs are good, which says nothing about others.
    assert known.confidence is None
    assert known.familiarity is not None and strange.familiarity is not None
    assert known.familiarity > strange.familiarity
    # One of 17 with the 16 held-out texts is nothing special.
    assert 0.05 < strange.familiarity < 0.07
    assert both.segments == 2
    assert both.familiarity is not None
    assert strange.familiarity < both.familiarity < known.familiarity
    assert (empty.confidence, empty.familiarity) == (None, None)


def test_each_alternative_has_its_own_confidence(translator: Translator) -> None:
    translator.confidence = Confidence(torch.tensor([1.0, 0.0, 0.0, 0.0]))
    known, strange = translator.translate_scored([GERMAN, STRANGE], beam_size=3, n_best=3)
    assert known.confidence is not None and strange.confidence is not None
    assert known.confidence > strange.confidence
    found = [one.confidence for one in known.hypotheses]
    assert len(set(found)) == 3
    assert {one.familiarity for one in known.hypotheses} == {known.familiarity}


def test_batches_and_samples_change_neither(translator: Translator) -> None:
    texts = [GERMAN, STRANGE, "Eine Katze malt das Meer.", GERMAN]
    together = translator.translate_scored(texts)
    alone = [translator.translate_scored(text) for text in texts]
    for one, other in zip(together, alone, strict=True):
        assert one.confidence == pytest.approx(other.confidence, abs=2e-3)
        assert one.familiarity == pytest.approx(other.familiarity, abs=0.011)
    drawn = translator.translate_scored(texts, sample=True, n_best=3)
    assert [one.familiarity for one in drawn] == pytest.approx(
        [one.familiarity for one in together], abs=0.011
    )


def test_the_means_are_those_of_the_encoder_without_padding(translator: Translator) -> None:
    segments = [translator.source.encode(text) for text in (GERMAN, STRANGE, "Hund")]
    model = translator.models[0]
    with torch.no_grad():
        states = [model.encode(source_tensor([ids])).states for ids in segments]
    expected = [each.mean(dim=0).squeeze(0) for each in states]
    found = translator.memory_means(segments)
    torch.testing.assert_close(found, torch.stack(expected), atol=1e-3, rtol=1e-3)


def test_a_model_without_calibration_goes_on_working(uncalibrated: Path, model: Path) -> None:
    (line,) = lines_of("translate", "--model", uncalibrated, "--json", GERMAN)
    record = json.loads(line)
    assert record["confidence"] is None
    assert "familiarity" not in record
    lines = lines_of("translate", "--model", uncalibrated, ENGLISH)
    assert lines != [ENGLISH]
    done = run("translate", "--model", uncalibrated, "--pass-through", ENGLISH)
    assert done.exit_code == 2
    assert "this one has no language.safetensors" in done.stderr


@pytest.mark.parametrize("name", CALIBRATION_FILES)
def test_a_damaged_calibration_is_refused(name: str, model: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(model, tmp_path / "model")
    Confidence(torch.zeros(4)).save(folder)
    path = folder / name
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    with pytest.raises(CheckpointError, match=f"{name}: damaged"):
        Translator.load(folder, device="cpu")


def test_an_ensemble_has_familiarity_and_language_alone(model: Path) -> None:
    known, kept = Translator.load([model, model], device="cpu").translate_scored([GERMAN, ENGLISH])
    assert known.confidence is None
    assert known.familiarity is not None
    assert kept.text == ENGLISH


def test_an_existing_model_is_calibrated_by_a_command(
    uncalibrated: Path, model: Path, tiny_corpora: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("models", "calibrate", uncalibrated, "--data", tiny_corpora["translation"])
    done = run(*command)
    assert done.exit_code == 0, done.stderr
    assert done.stdout == f"{uncalibrated}: calibrated\n"
    assert "no confidence: 16 of 16 validation translations are good" in done.stderr
    for name in {*CALIBRATION_FILES} - {CONFIDENCE_FILE}:
        found, expected = load_tensors(uncalibrated / name), load_tensors(model / name)
        torch.testing.assert_close(found, expected, atol=1e-3, rtol=1e-3)
    assert Translator.load(uncalibrated, device="cpu").confidence is None
    good_and_bad = [True, True, True, False] * 4
    monkeypatch.setattr("tasks.translation.calibration.are_good", lambda *texts: good_and_bad)
    monkeypatch.setattr("tasks.translation.calibration.LEAST_OF_A_KIND", 4)
    assert run(*command).exit_code == 0
    confidence = Translator.load(uncalibrated, device="cpu").translate_scored(GERMAN).confidence
    assert confidence is not None
    assert 0.1 < confidence < 0.99


def test_only_a_translation_model_is_calibrated_by_it(
    tiny_models: Callable[[str], Path], tiny_corpora: dict[str, Path]
) -> None:
    done = run("models", "calibrate", tiny_models("couplet"), "--data", tiny_corpora["translation"])
    assert done.exit_code != 0
    assert "a model for couplet, not for translation" in done.stderr


# Texts that are in the target language already


def test_lines_in_the_target_language_stay_as_they_are(translator: Translator) -> None:
    texts = [f"  {ENGLISH}", f"{GERMAN}\n\n  - {ENGLISH}\n{GERMAN}"]
    kept, document = translator.translate_scored(texts)
    assert (kept.text, kept.segments, kept.confidence) == (f"  {ENGLISH}", 0, None)
    translated = translator.translate(GERMAN)
    assert document.text == f"{translated}\n\n  - {ENGLISH}\n{translated}"
    assert document.segments == 2
    assert translator.translate(ENGLISH, n_best=3, beam_size=3) == [ENGLISH]
    assert translator.translate(ENGLISH, pass_through=False) != ENGLISH


def test_a_prefix_or_a_constraint_asks_for_a_translation(translator: Translator) -> None:
    assert translator.translate(ENGLISH, prefix="A cat").startswith("A cat")
    rule = forbidding(UNK_ID, vocab_size=len(translator.target.vocabulary))
    assert translator.translate(ENGLISH, constraint=rule) != ENGLISH
    with pytest.raises(ConfigError, match="beside a prefix or a constraint"):
        translator.translate(ENGLISH, prefix="A cat", pass_through=True)


def test_the_command_says_once_what_is_unusual(sharp: Path) -> None:
    def notes(*arguments: str) -> list[str]:
        done = run("translate", "--model", sharp, *arguments)
        assert done.exit_code == 0
        return done.stderr.splitlines()

    known = ["Ein Kind malt das Meer.", "Ein Mann sieht das Boot.", ""]
    assert notes(*known) == []
    unlike = "2 of 3 lines look unlike anything that the model was trained on"
    assert notes(known[0], STRANGE, STRANGE) == [unlike]
    kept = (
        "1 of 2 lines stay as they are: in the target language already "
        "(--no-pass-through translates them), or in letters that the model does not know"
    )
    assert notes(known[0], ENGLISH) == [kept]
    Confidence(torch.tensor([0.0, 0.0, 0.0, -9.0])).save(sharp)
    assert notes(*known) == ["probably wrong (confidence below 0.4): line 1, 2"]
    assert notes(*known[:1] * 22)[-1].endswith("18, 19, 20 and 2 more")
    done = run("translate", "--model", sharp, "--json", known[0])
    assert json.loads(done.stdout)["doubtful"] is True
    (sharp / CONFIDENCE_FILE).unlink()
    assert kept not in notes("--no-pass-through", known[0], ENGLISH)


# The texts that a calibration takes


def test_a_sample_is_spread_over_all() -> None:
    assert spaced([*range(10)], 20) == [*range(10)]
    assert spaced([*range(10)], 5) == [0, 2, 4, 6, 8]
    assert spaced([*range(7)], 3) == [0, 2, 4]


def test_training_pairs_come_from_folders_without_a_tag(
    tiny_corpora: dict[str, Path], translator: Translator, tmp_path: Path
) -> None:
    for name in ("natural", "synthetic"):
        (tmp_path / name).mkdir()
        for language in ("de", "en"):
            text = "".join(f"{name} {language} {n}\n" for n in range(160))
            (tmp_path / name / f"train.{language}").write_text(text)
    extra = (
        ExtraCorpus(path=str(tmp_path / "natural"), weight=0.5),
        ExtraCorpus(path=str(tmp_path / "synthetic"), tag="bt"),
    )
    dataset = ParallelCorpus(
        tiny_corpora["translation"],
        TranslationData(extra=extra),
        seed=1,
        source=translator.source,
        target=translator.target,
    )
    pairs = dataset.natural_pairs(60)
    assert len(pairs) == 60
    natural = [pair for pair in pairs if pair[0].startswith("natural")]
    assert len(natural) == 20
    assert natural[1] == ("natural de 8", "natural en 8")
    assert not any(source.startswith("synthetic") for source, _ in pairs)
