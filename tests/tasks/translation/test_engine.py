"""Translating with CTranslate2: the same texts around another search."""

import hashlib
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch

from core.errors import ConfigError, UserError
from core.parallel import at_most
from core.storage.checkpoint import WEIGHTS_FILE, load_tensors, save_tensors
from tasks.runs.checkpoint_folder import PRETRAINED, file_digests
from tasks.translation import engine, predict
from tasks.translation.predict import Translator
from tests.commands.command_line import error_of, lines_of, run

pytest.importorskip("ctranslate2", reason="the extra `export` is not installed")

TEXTS = [
    "Ein Hund rennt am Strand.",
    "",
    "Zwei Kinder spielen im Schnee und lachen. Eine Frau liest ein Buch.",
    "- EIN MANN IN EINEM BLAUEN HEMD STEHT AUF EINER LEITER.\n- Das ist anna@firma.de 👍",
    "This is a sentence in English already.",
    "Die Bundesregierung hat am Dienstag neue Maßnahmen beschlossen.",
]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def _cached(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRANSFORMER_SUITE_DATA", str(cache))


@pytest.fixture
def ours() -> Translator:
    return Translator.load(device="cpu")


@pytest.fixture
def theirs() -> Translator:
    return Translator.load(device="cpu", engine="ctranslate2")


def test_two_programs_may_export_at_once(
    ours: Translator, theirs: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    export = engine.cached_export(ours, PRETRAINED / "translation")
    monkeypatch.setattr(engine, "exists", Mock(side_effect=[False, True]))
    assert engine.cached_export(ours, PRETRAINED / "translation") == export
    monkeypatch.setattr(engine, "exists", lambda path: False)
    with pytest.raises(UserError, match="is there already"):
        engine.cached_export(ours, PRETRAINED / "translation")


@pytest.mark.parametrize("options", [{"beam_size": 1}, {"beam_size": 1, "prefix": "A"}], ids=str)
def test_greedy_outputs_are_the_same(
    options: dict[str, Any], ours: Translator, theirs: Translator
) -> None:
    expected = ours.translate_scored(TEXTS, **options)
    found = theirs.translate_scored(TEXTS, confidence=True, **options)
    assert [one.text for one in found] == [one.text for one in expected]
    for one, other in zip(found, expected, strict=True):
        assert one.score == pytest.approx(other.score, abs=1e-3)
        assert one.confidence == pytest.approx(other.confidence, abs=2e-3)
        assert one.familiarity == pytest.approx(other.familiarity, abs=0.011)


@pytest.mark.parametrize("count", [150, pytest.param(1000, marks=pytest.mark.figures)])
def test_greedy_outputs_of_captions_are_the_same(
    count: int, shared_data: Path, ours: Translator, theirs: Translator
) -> None:
    """But for ties that rounding breaks."""
    path = shared_data / "multi30k" / "test_2016_flickr.de"
    texts = path.read_text(encoding="utf-8").splitlines()[:count]
    pairs = (each.translate_scored(texts, beam_size=1) for each in (ours, theirs))
    different = [(a, b) for a, b in zip(*pairs, strict=True) if a.text != b.text]
    assert len(different) <= 1 + count // 1000
    assert all(abs(a.score - b.score) < 1e-4 for a, b in different)
    if count == 1000:  # of beam search, 84 of a hundred were the same
        wide = (each.translate(texts[:100], beam_size=5) for each in (ours, theirs))
        assert sum(a == b for a, b in zip(*wide, strict=True)) >= 80


def test_beam_search_is_nearly_the_same(ours: Translator, theirs: Translator) -> None:
    """CTranslate2 normalizes by another length, and ends a search sooner."""
    found = theirs.translate_scored(TEXTS[0], n_best=3, length_penalty=0.0)
    expected = ours.translate_scored(TEXTS[0], n_best=3, length_penalty=0.0)
    assert found.text == expected.text
    assert found.score == pytest.approx(expected.score, abs=1e-3)
    assert len({one.text for one in found.hypotheses}) == 3
    assert found.hypotheses == tuple(sorted(found.hypotheses, key=lambda one: -one.score))
    scores = {one.text: one.score for one in found.hypotheses}
    for one in expected.hypotheses:
        assert scores.get(one.text, one.score) == pytest.approx(one.score, abs=1e-3)


def test_every_output_has_its_own_limit(ours: Translator, theirs: Translator) -> None:
    """CTranslate2 has one for a call, that of the longest text."""
    options = {"beam_size": 1, "max_length_ratio": 0.5, "max_length_extra": 0}
    assert theirs.translate(TEXTS, **options) == ours.translate(TEXTS, **options)


def test_a_turn_of_the_service_begins_few_tokens(
    theirs: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It began 256 rows, whatever their lengths: a long text took nine seconds."""
    monkeypatch.setattr(engine, "_TURN_TOKENS", 40)
    expected = theirs.translate(TEXTS, beam_size=2)
    own = theirs._engine
    assert isinstance(own, engine.CTranslate2Engine)
    search = Mock(wraps=own._engine.translate_batch)
    monkeypatch.setattr(own, "_engine", Mock(translate_batch=search))
    on_step = Mock()
    assert theirs.translate(TEXTS, beam_size=2, on_step=on_step) == expected
    assert on_step.call_count == sum(len(call.args[0]) for call in search.call_args_list)
    begun = [[len(source) for source in call.args[0]] for call in search.call_args_list]
    assert max(map(len, begun)) > 1
    most = 40 * own._workers
    assert all(len(part) == 1 or 2 * max(part) * len(part) <= most for part in begun)


def test_texts_are_searched_in_parts(ours: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch keeps its threads: CTranslate2 left it one, and other models were slower."""
    monkeypatch.setattr(predict, "_PART", 60)
    with at_most(1):  # and afterwards as before
        torch.set_num_threads(2)
        own, finished = Translator.load(device="cpu", engine="ctranslate2"), Mock()
        assert torch.get_num_threads() == 2
        found = own.translate(TEXTS, beam_size=1, on_batch=finished)
    assert found == ours.translate(TEXTS, beam_size=1)
    assert [call.args for call in finished.call_args_list] == [(2,)] * 3


def test_confidence_is_computed_when_it_is_asked_for(theirs: Translator) -> None:
    plain = theirs.translate_scored(TEXTS[0])
    assert (plain.confidence, plain.familiarity) == (None, None)
    asked = theirs.translate_scored(TEXTS[0], confidence=True)
    assert asked.confidence is not None and asked.familiarity is not None


@pytest.mark.parametrize(
    ("option", "value"),
    [("sample", True), ("diversity", 0.5), ("min_length_ratio", 0.5), ("constraint", print)],
)
def test_what_it_cannot_do_is_refused(option: str, value: Any, theirs: Translator) -> None:
    with pytest.raises(ConfigError, match=f"{option} is not for the engine ctranslate2"):
        theirs.translate("Hund", **{option: value})


def test_an_ensemble_is_refused() -> None:
    folder = PRETRAINED / "translation"
    options = ("--model", folder, "--model", folder, "--engine", "ctranslate2")
    message = error_of(2, "translate", *options, "Hund")
    assert message == "error: --engine cannot be ctranslate2 for an ensemble"
    message = error_of(2, "translate", "--engine", "torch", "--int8", "Hund")
    assert message == "error: --int8 is for the engine ctranslate2"


def test_without_the_package_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    message = error_of(1, "translate", "--int8", "Hund")
    assert message.endswith("is needed: pip install 'transformer-suite[export]'")


def test_the_export_is_kept_by_the_bytes_of_the_weights(
    tiny_models: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRANSFORMER_SUITE_DATA", str(tmp_path))
    folder = tiny_models("translation")
    translate = ("translate", "--model", folder, "--engine", "ctranslate2", "Ein Hund.")
    first = lines_of(*translate)
    (export,) = (tmp_path / "ctranslate2").iterdir()
    digest = hashlib.sha256((folder / WEIGHTS_FILE).read_bytes())
    digest.update(repr(Translator.load(folder, device="cpu").config.model).encode())
    assert export.name == digest.hexdigest()
    time = (export / "model.bin").stat().st_mtime_ns
    assert lines_of(*translate, "--int8") == first
    assert (export / "model.bin").stat().st_mtime_ns == time
    if os.getuid() == 0:
        os.chown(export, 12345, -1)
    else:
        monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(UserError, match="belongs to another user"):
        Translator.load(folder, device="cpu", engine="ctranslate2")


def test_weights_that_overflow_are_refused(
    tiny_models: Callable[[str], Path], tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(tiny_models("translation"), folder)
    tensors = load_tensors(folder / WEIGHTS_FILE)
    tensors["src_embedding.embedding.weight"].fill_(3e38)
    save_tensors(folder / WEIGHTS_FILE, tensors, digests=file_digests(folder))
    for options in ((), ("--engine", "ctranslate2"), ("--int8", "--beam", 1)):
        message = error_of(1, "translate", "--model", folder, *options, "Hund")
        assert "NaN or infinite logits" in message


def test_the_commands_have_the_engine(
    tiny_models: Callable[[str], Path], tiny_corpora: dict[str, Path], in_tmp: Path
) -> None:
    model, corpus = tiny_models("translation"), tiny_corpora["translation"]
    engine = ("--model", model, "--int8")
    assert run("evaluate", "translation", *engine, "--data", corpus).exit_code == 0
    source = corpus / "test_tiny.de"
    assert run("synthesize", *engine, "--input", source, "--out", "pairs").exit_code == 0
    assert '"engine": "ctranslate2 int8"' in (in_tmp / "pairs" / "synthesis.json").read_text()
    assert "--engine" in run("serve", "--help").stdout
