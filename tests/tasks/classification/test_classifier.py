"""The classifier: probabilities, long texts, and how it is measured."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score

from core.errors import CheckpointError, ConfigError, CorpusError
from core.model.dropout import private_rng
from data.examples import IdLists
from data.vocabulary import UNK_ID
from tasks.classification import evaluate
from tasks.classification.dataset import LabeledTexts, LoadSentenceClassificationDataset
from tasks.classification.predict import Classifier
from tasks.classification.train import measure_texts, text_loss
from tests.tasks.tiny_models import CLASSES, measured, untrained_classifier, without_digests
from tests.tasks.tiny_models import NEWS as TEXTS

Models = Callable[[str], Path]
Corpora = dict[str, Path]


def test_probabilities_are_of_all_classes_and_add_up_to_one(tmp_path: Path) -> None:
    found = untrained_classifier(tmp_path).classify_scored(TEXTS)
    for result in found:
        assert set(result.probabilities) == set(CLASSES)
        values = list(result.probabilities.values())
        assert sum(values) == pytest.approx(1.0, abs=1e-5)
        assert values == sorted(values, reverse=True)
        assert result.label == next(iter(result.probabilities))
        assert result.probability == values[0]
    assert len({result.label for result in found}) > 1


def test_an_early_exit_changes_no_certain_answer_of_the_shipped_model() -> None:
    """Texts that the encoder does not read have no familiarity; others have all as before."""
    texts = [
        "The striker scored twice as the home team won the cup final.",
        "Some thing or other",
        "",
    ]
    whole = Classifier.load(device="cpu").classify_scored(texts)
    early = Classifier.load(device="cpu", early_exit=0.9).classify_scored(texts)
    assert [each.label for each in early] == [each.label for each in whole]
    assert early[0].familiarity is None and "familiarity" not in early[0].record()
    assert early[0].probability >= 0.9
    for one, other in zip(early[1:], whole[1:], strict=True):
        assert one.probabilities == pytest.approx(other.probabilities, abs=1e-5)
        assert one.familiarity == other.familiarity
    assert whole[1].familiarity is not None


def test_an_early_exit_needs_ngrams_and_a_probability(tiny_models: Models) -> None:
    with pytest.raises(ConfigError, match="early_exit needs a model with n-grams"):
        Classifier.load(tiny_models("classification"), early_exit=0.9)
    for wrong in (0.0, 1.1, float("nan")):
        with pytest.raises(ConfigError, match="early_exit must be above 0 and at most 1"):
            Classifier.load(early_exit=wrong)


def test_texts_keep_their_order_and_empty_ones_their_place(tmp_path: Path) -> None:
    classifier = untrained_classifier(tmp_path, clean=True)
    texts = [TEXTS[2], "", TEXTS[0], " \t", "&lt;br&gt;", TEXTS[1]]
    alone = [classifier.classify_scored([text])[0] for text in texts]
    for batch_tokens in (1, 8, 1000):
        found = classifier.classify_scored(texts, batch_tokens=batch_tokens)
        assert [f.label for f in found] == [a.label for a in alone]
        for one, other in zip(found, alone, strict=True):
            assert one.probabilities == pytest.approx(other.probabilities, abs=1e-5)
    assert [f.label == "" for f in alone] == [False, True, False, True, True, False]
    assert alone[1].probabilities == {}
    assert classifier.classify(texts) == [a.label for a in alone]
    assert classifier.classify([]) == []


@pytest.mark.parametrize("how", ["model.max_len", "data.max_sen_len"])
def test_long_texts_are_classified_in_pieces_weighted_by_length(how: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"max_len": 4} if how == "model.max_len" else {"max_sen_len": 4}
    classifier = untrained_classifier(tmp_path, **options)
    words = ["a minister and an", "army at the border", "bank shares"]
    counts: list[int] = []
    (whole,) = classifier.classify_scored([" ".join(words)], on_batch=counts.append)
    parts = classifier.classify_scored(words)
    for name in CLASSES:
        expected = sum(
            weight * part.probabilities[name]
            for weight, part in zip((0.4, 0.4, 0.2), parts, strict=True)
        )
        assert whole.probabilities[name] == pytest.approx(expected, abs=1e-5)
    assert sum(counts) == 3
    counts.clear()
    (endless,) = classifier.classify_scored([" ".join(words * 500)], on_batch=counts.append)
    assert sum(counts) == 1250
    assert sum(endless.probabilities.values()) == pytest.approx(1.0, abs=1e-5)


def test_what_scars_is_cleaned_in_prediction_as_in_training(tmp_path: Path) -> None:
    classifier = untrained_classifier(tmp_path, clean=True)
    one, other = classifier.classify_scored(["shares&lt;br&gt;fall", "shares fall"])
    assert one == other


def test_a_text_of_unknown_words_is_classified(tmp_path: Path) -> None:
    (result,) = untrained_classifier(tmp_path, tokenizer="basic_english").classify_scored([";;"])
    assert result.label in CLASSES


# measuring

TRUTH = list("aaaabbbccd")
GIVEN = list("aaabbbaccc")


def report_of(scores: evaluate.Scores) -> evaluate.ClassificationReport:
    interval = [0.0, 1.0]
    return evaluate.ClassificationReport(
        split="test",
        texts=2,
        calibration_error=0.125,
        accuracy_interval=interval,
        macro_f1_interval=interval,
        **vars(scores),
    )


def test_scores_equal_those_worked_out_by_hand() -> None:
    """a: 3 of 4 found, 4 given. b: 2 of 3, 3 given. c: 2 of 2, 3 given. d: 0 of 1, none given."""
    report = evaluate.score(GIVEN, TRUTH, list("abcde"))
    assert report.accuracy == 0.7
    assert report.confusion == [
        [3, 1, 0, 0, 0],
        [1, 2, 0, 0, 0],
        [0, 0, 2, 0, 0],
        [0, 0, 1, 0, 0],
        [0, 0, 0, 0, 0],
    ]
    figures = {n: (f["precision"], f["recall"], f["f1"]) for n, f in report.classes.items()}
    assert figures["a"] == pytest.approx((3 / 4, 3 / 4, 3 / 4))
    assert figures["b"] == pytest.approx((2 / 3, 2 / 3, 2 / 3))
    assert figures["c"] == pytest.approx((2 / 3, 1.0, 4 / 5))
    assert figures["d"] == figures["e"] == (0.0, 0.0, 0.0)
    # As in scikit-learn, e, which occurs nowhere, does not count.
    assert report.macro_f1 == pytest.approx((3 / 4 + 2 / 3 + 4 / 5) / 4)
    assert report.macro_f1 == f1_score(TRUTH, GIVEN, average="macro")
    assert [f["texts"] for f in report.classes.values()] == [4, 3, 2, 1, 0]


def test_the_report_is_json_and_a_table(tmp_path: Path) -> None:
    report = report_of(evaluate.score(["财经", "World"], ["财经", "财经"], CLASSES))
    record = report.record()
    assert json.loads(json.dumps(record)) == record
    lines = report.table().splitlines()
    assert lines[0] == "split     test (2 texts)"
    assert lines[1] == "accuracy  50.00%  (95% interval 0.00% to 100.00%)"
    (row,) = [line for line in lines if line.startswith("财经") and "%" in line]
    assert row.split() == ["财经", "100.00%", "50.00%", "66.67%", "2"]
    assert lines[-3].split() == ["财经", "1", "0", "1", "0", "0"]


def test_the_report_on_thousands_of_classes_is_short() -> None:
    """The confusion matrix of 8,000 classes was 705 MB of JSON and took 6.4 GB of memory."""
    names = [f"class {i}" for i in range(8000)]
    truth = names * 2
    predicted = ["class 1", "class 1", *names[2:], "class 1", *names[:-1]]
    report = report_of(evaluate.score(predicted, truth, names))
    mistakes = report.confused or []
    assert report.confusion is None
    assert mistakes[0] == {"true": "class 0", "predicted": "class 1", "texts": 2}
    assert len(mistakes) == evaluate.MAX_MATRIX
    assert report.accuracy == sum(map(str.__eq__, truth, predicted)) / 16_000
    assert len(json.dumps(report.record())) < 2_000_000
    assert "the most frequent mistakes" in report.table()
    right = report_of(evaluate.score(names, names, names))
    assert right.table().endswith("mistakes\nnone")


def test_classes_without_rows_are_reported(
    tiny_models: Models, tiny_corpora: Corpora, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A class that no test row has halved macro F1 without a word."""
    shutil.copytree(tiny_corpora["classification"], tmp_path, dirs_exist_ok=True)
    rows = (tmp_path / "test.csv").read_text().splitlines(keepends=True)
    first = rows[0].split(",")[0]
    (tmp_path / "test.csv").write_text("".join(r for r in rows if not r.startswith(first)))
    measured("classification", tiny_models("classification"), tmp_path)
    assert "test: no row has 1 of 3 classes: " in capsys.readouterr().err


def test_validation_goes_the_way_of_prediction(tmp_path: Path) -> None:
    """Texts above max_sen_len were judged whole in validation, but piece by piece in prediction."""
    classifier = untrained_classifier(tmp_path, max_sen_len=3)
    texts = IdLists.of(map(classifier.codec.encode, TEXTS))
    measured = measure_texts(classifier, LabeledTexts(texts, np.arange(4)), batch_tokens=7)
    found = classifier.classify_scored(TEXTS)
    probabilities = [f.probabilities[CLASSES[i]] for i, f in enumerate(found)]
    loss = -torch.tensor(probabilities).log().mean().item()
    right = sum(f.label == CLASSES[i] for i, f in enumerate(found))
    assert measured["val_loss"] == pytest.approx(loss, rel=1e-4)
    assert measured["val_accuracy"] == pytest.approx(right / 4)


def test_an_impossible_class_costs_a_finite_loss(tmp_path: Path) -> None:
    classifier = untrained_classifier(tmp_path)
    with torch.no_grad():
        classifier.model.classifier[3].bias.copy_(torch.tensor([1e4, 0.0, 0.0, 0.0, 0.0]))
    examples = LabeledTexts(IdLists.of([[4]]), np.array([1]))
    measured = measure_texts(classifier, examples, batch_tokens=7)
    assert 80 < measured["val_loss"] < 100
    assert measured["val_accuracy"] == 0.0


def test_the_loss_is_cross_entropy_smoothed(tmp_path: Path) -> None:
    model = untrained_classifier(tmp_path).model
    src, labels = torch.tensor([[4, 5], [6, 7]]), torch.tensor([2, 0])
    log_probs = model(src).log_softmax(dim=1)
    right = log_probs[torch.arange(2), labels]
    total, count = text_loss(model, 0.2, 0.0)((src, labels))
    assert count == 2
    torch.testing.assert_close(total, -(0.8 * right + 0.2 * log_probs.mean(dim=1)).sum())


def test_token_dropout_hides_words_and_never_padding(tmp_path: Path) -> None:
    seen: list[torch.Tensor] = []
    model = untrained_classifier(tmp_path).model
    model.embedding.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    src = torch.full((50, 40), 5)
    src[30:] = model.pad_id
    torch.manual_seed(1)
    text_loss(model, 0.0, 0.25)((src, torch.zeros(40, dtype=torch.long)))
    assert (seen[0][30:] == model.pad_id).all()
    assert set(seen[0][:30].unique().tolist()) == {UNK_ID, 5}
    assert 0.2 < (seen[0][:30] == UNK_ID).float().mean() < 0.3
    assert (src[:30] == 5).all()


def test_microbatches_drop_tokens_by_random_numbers_of_their_own(tmp_path: Path) -> None:
    """They shared a generator, and which of them was first was left to chance: with two threads, no
    two runs of a classifier were the same."""
    model = untrained_classifier(tmp_path).model
    seen: list[torch.Tensor] = []
    model.embedding.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    before = torch.get_rng_state()
    for _ in range(2):
        with private_rng(7):
            text_loss(model, 0.0, 0.25)((torch.full((50, 40), 5), torch.zeros(40).long()))
    assert torch.equal(*seen)
    assert torch.equal(torch.get_rng_state(), before)


# with a trained model


def test_the_report_is_about_what_the_classifier_says(
    tiny_models: Models, tiny_corpora: Corpora
) -> None:
    model, corpus = tiny_models("classification"), tiny_corpora["classification"]
    report = measured("classification", model, corpus)
    classifier = Classifier.load(model, device="cpu")
    dataset = LoadSentenceClassificationDataset(
        corpus, classifier.config.data, seed=1, codec=classifier.codec
    )
    rows = dataset.read("test")
    found = classifier.classify([dataset.text_of(row) for row in rows])
    truth = [dataset.classes[row.label] for row in rows]
    right = sum(a == b for a, b in zip(found, truth, strict=True)) / len(rows)
    assert report["accuracy"] == right > 0.5
    assert report["headline"] == f"accuracy {100 * right:.2f}% on test"
    assert report["texts"] == 30
    split = measured("classification", model, corpus, split="val", batch_tokens=20)
    assert split["texts"] == 12


def test_other_classes_are_refused(
    tiny_models: Models, tiny_corpora: Corpora, tmp_path: Path
) -> None:
    shutil.copytree(tiny_corpora["classification"], tmp_path, dirs_exist_ok=True)
    (tmp_path / "classes.txt").write_text("Business\nSports\nWorld\n")
    with pytest.raises(CorpusError, match=r"classes\.txt: the classes are Business"):
        measured("classification", tiny_models("classification"), tmp_path)


def test_what_is_missing_or_wrong_in_a_folder_is_named(tiny_models: Models, tmp_path: Path) -> None:
    shutil.copytree(tiny_models("classification"), tmp_path, dirs_exist_ok=True)
    Classifier.load(tmp_path, device="cpu")
    (tmp_path / "classes.txt").write_text("World\nSports\nBusiness\nArts\n")
    without_digests(tmp_path)
    with pytest.raises(CheckpointError, match=r"model\.safetensors: .*: classifier.* has shape"):
        Classifier.load(tmp_path, device="cpu")
    (tmp_path / "classes.txt").unlink()
    with pytest.raises(CheckpointError, match=r"classes\.txt"):
        Classifier.load(tmp_path, device="cpu")
