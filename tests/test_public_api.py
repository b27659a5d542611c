"""The names of the public package: complete, imported lazily, and used as people type them."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas
import pytest

import transformer_suite
from tests.tasks.tiny_models import measured
from transformer_suite import (
    ClassificationModel,
    Classifier,
    ConfigError,
    CoupletModel,
    CoupletWriter,
    TextError,
    TranslationModel,
    Translator,
)

ROOT = Path(__file__).resolve().parents[1]
Models = Callable[[str], Path]

SENTENCE = "Ein Hund sieht das Boot."
FIRST = "天地山水"


@pytest.mark.parametrize("name", transformer_suite.__all__)
def test_every_name_is_what_its_module_defines(name: str) -> None:
    value = getattr(transformer_suite, name)
    assert value.__name__ == name
    assert value.__module__ == transformer_suite._MODULES[name]
    assert value.__doc__


def test_the_list_of_names_is_complete() -> None:
    assert sorted(transformer_suite._MODULES) == transformer_suite.__all__
    assert set(transformer_suite.__all__) <= set(dir(transformer_suite))
    with pytest.raises(AttributeError, match="has no attribute 'Translater'"):
        transformer_suite.Translater  # noqa: B018


def test_importing_the_package_imports_no_torch() -> None:
    program = (
        "import sys, transformer_suite\n"
        "assert 'torch' not in sys.modules\n"
        "assert 'Translator' in dir(transformer_suite)\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)


# A string is one text


@pytest.fixture(scope="module")
def translator(tiny_models: Models) -> Translator:
    return Translator.load(str(tiny_models("translation")), device="cpu")


@pytest.fixture(scope="module")
def writer(tiny_models: Models) -> CoupletWriter:
    return CoupletWriter.load(str(tiny_models("couplet")), device="cpu")


@pytest.fixture(scope="module")
def classifier(tiny_models: Models) -> Classifier:
    return Classifier.load(str(tiny_models("classification")), device="cpu")


def test_a_string_is_one_text(
    translator: Translator, writer: CoupletWriter, classifier: Classifier
) -> None:
    """``translate("Ein Hund rennt.")`` returned fifteen translations, one of each letter."""
    assert translator.translate(SENTENCE) == translator.translate([SENTENCE])[0]
    assert translator.translate_scored(SENTENCE) == translator.translate_scored([SENTENCE])[0]
    assert writer.answer(FIRST) == writer.answer([FIRST])[0]
    assert writer.answer_scored(FIRST) == writer.answer_scored([FIRST])[0]
    assert classifier.classify(SENTENCE) == classifier.classify([SENTENCE])[0]
    assert classifier.classify_scored(SENTENCE) == classifier.classify_scored([SENTENCE])[0]
    score = translator.score(SENTENCE, "A dog sees the boat.")
    assert [score] == translator.score([SENTENCE], ["A dog sees the boat."])
    assert translator.translate(iter([SENTENCE, ""])) == translator.translate((SENTENCE, ""))
    for empty in ("", []):
        assert translator.translate(empty) == empty
        assert writer.answer(empty) == empty
        assert classifier.classify(empty) == empty


@pytest.mark.parametrize(
    ("texts", "error", "message"),
    [
        (None, TypeError, r"expected a text \(str\) or .* \(list of str\), not NoneType"),
        (b"Hund", TypeError, r"expected a text \(str\) or .*, not bytes"),
        (5, TypeError, r"expected a text \(str\) or .*, not int"),
        ({"line": "Hund"}, TypeError, r"expected a text \(str\) or .*, not dict"),
        (pandas.DataFrame({"line": ["Hund"]}), TypeError, "expected a text .*, not DataFrame"),
        (["Hund", 5], TypeError, "text 2 must be a str, not int"),
        ([b"Hund"], TypeError, "text 1 must be a str, not bytes"),
        ([["Hund"]], TypeError, "text 1 must be a str, not list"),
        ("ein \ud800", TextError, r"text 1 is not valid Unicode: .* \(U\+D800\) at character 5"),
        (["", "\udcff"], TextError, r"text 2 is not valid Unicode: .* \(U\+DCFF\)"),
    ],
)
def test_what_is_no_text_is_refused(
    texts: Any,
    error: type[Exception],
    message: str,
    translator: Translator,
    writer: CoupletWriter,
    classifier: Classifier,
) -> None:
    """A lone surrogate ended in a traceback of the tokenizer, bytes were read as numbers."""
    for predict in (translator.translate, writer.answer, classifier.classify):
        with pytest.raises(error, match=message):
            predict(texts)
    assert issubclass(TextError, ValueError)


def test_a_series_of_pandas_comes_back_with_its_index(
    translator: Translator, writer: CoupletWriter, classifier: Classifier
) -> None:
    """The results had lost their rows, and a missing value ended in an error, also in a list."""
    texts = ["天地", None, pandas.NA]
    for predict in (translator.translate, writer.answer, classifier.classify):
        series = pandas.Series(texts, index=[7, 3, 5], name="line")
        with pytest.warns(UserWarning, match=r"2 of 3 texts are missing \(None or NaN\)"):
            found = predict(series)
        with pytest.warns(UserWarning, match="2 of 3 texts are missing"):
            assert predict([*texts[:2], float("nan")]) == [*found]  # type: ignore[list-item]
        expected = [*predict(["天地", ""]), ""]  # type: ignore[list-item]
        pandas.testing.assert_series_equal(
            found, pandas.Series(expected, index=[7, 3, 5], name="line", dtype=object)
        )
    assert classifier.classify_scored(series[:1])[7].label


def test_predictors_say_what_they_are(
    translator: Translator, writer: CoupletWriter, classifier: Classifier
) -> None:
    count = r"[0-9.,]+( M)? parameters, cpu\)"
    assert re.fullmatch(rf"Translator\(de -> en, {count}", repr(translator))
    assert re.fullmatch(rf"Classifier\([0-9]+ classes, {count}", repr(classifier))
    assert re.fullmatch(rf"CoupletWriter\({count}", repr(writer))
    assert repr(Translator.load(device="cpu")) == "Translator(de -> en, 9.9 M parameters, cpu)"


def test_a_classifier_explains(classifier: Classifier) -> None:
    (found,) = classifier.explain("oil prices")
    assert found.label == classifier.classify("oil prices")
    assert [word.word for word in found.words] == ["oil ", "prices"]


def test_pairs_that_are_no_pairs_are_refused(translator: Translator) -> None:
    with pytest.raises(ValueError, match="each source needs one target: 2 sources, 1 targets"):
        translator.score(["Hund", "Haus"], ["dog"])
    with pytest.raises(TypeError, match="two strings or two lists of strings"):
        translator.score("Hund", ["dog"])  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="target 1 must be a str, not int"):
        translator.score(["Hund"], [5])  # type: ignore[list-item]
    with pytest.raises(TextError, match="source 1 is not valid Unicode"):
        translator.score("\ud800", "dog")
    for prefix, error in (("\ud800", TextError), (5, TypeError)):
        with pytest.raises(error, match="the prefix"):
            translator.translate(SENTENCE, prefix=prefix)


# One name for each option


def test_options_have_the_names_of_the_command_line_as_well(translator: Translator) -> None:
    """README promised the same names everywhere, and ``beam`` and ``diverse`` were unknown."""
    options = {"n_best": 3, "length_penalty": 0.5}
    short = translator.translate_scored(SENTENCE, beam=3, diverse=0.5, **options)
    assert short == translator.translate_scored(SENTENCE, beam_size=3, diversity=0.5, **options)
    with pytest.raises(ConfigError, match="beam_size is given twice"):
        translator.translate(SENTENCE, beam=3, beam_size=3)


# Folders are strings


def test_a_run_has_measured_what_an_evaluation_measures(
    task: str, tiny_models: Models, tiny_corpora: dict[str, Path]
) -> None:
    """Its folder is a string here: evaluating took ``Path`` objects alone, loading took both."""
    found = measured(task, str(tiny_models(task)), tiny_corpora[task])
    expected = json.loads((tiny_models(task) / "metrics.json").read_text("utf-8"))["test"]
    for name in ("baseline_accuracy", "baseline_gap_error"):  # a run compares with a linear model
        expected.pop(name, None)
    expected["headline"] = expected["headline"].partition(" (a linear model")[0]
    # A training run measures the model before its weights are packed: sums round differently.
    error = found.pop("calibration_error", None)
    assert error == pytest.approx(expected.pop("calibration_error", None), abs=1e-6)
    assert found == expected


# Models from plain sizes


def test_models_are_made_from_plain_sizes() -> None:
    sizes = {"d_model": 8, "nhead": 2, "dim_feedforward": 16, "num_encoder_layers": 1}
    translation = TranslationModel(30, 20, num_decoder_layers=2, share_embeddings=False, **sizes)
    assert len(translation.transformer.decoder.layers) == 2
    assert len(translation.transformer.encoder.layers) == 1
    assert CoupletModel(30, **sizes).config.d_model == 8
    model = ClassificationModel(30, 4, concat_type="avg", **sizes)
    assert (model.config.concat_type, model.config.nhead) == ("avg", 2)
    assert TranslationModel(9, 9, translation.config, nhead=4).config.num_decoder_layers == 2
    with pytest.raises(ConfigError, match="unknown option 'n_head'; did you mean 'nhead'"):
        TranslationModel(30, 30, n_head=2)
