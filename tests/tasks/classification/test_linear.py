"""Few texts: a logistic regression in the n-grams, what follows from the rows, the baseline."""

import json
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from benchmarks.small_tables import Row as TableRow
from benchmarks.small_tables import linear_accuracy
from core.config import override
from core.storage.checkpoint import WEIGHTS_FILE
from data.batching import pad_sequence
from data.examples import Examples, IdLists
from data.vocabulary import SPECIALS
from tasks.classification.config import ClassificationData, small
from tasks.classification.dataset import Example, LoadSentenceClassificationDataset, TextData
from tasks.classification.linear import baseline_is_right, fitted_weights
from tasks.classification.ngrams import HashedNgrams
from tasks.classification.predict import Classifier
from tasks.classification.sources import Row
from tasks.classification.train import with_epochs
from tests.tasks.tiny_models import train

TOKENS = (*SPECIALS, "the", "cats", "bank", "cup", "final", "s")


def ngrams_for(classes: int) -> HashedNgrams:
    return HashedNgrams(TOKENS, classes, order=2, characters=4, num_weights=classes << 16)


def random_texts(count: int) -> list[list[int]]:
    rng = random.Random(1)
    return [[rng.randrange(4, 10) for _ in range(rng.randint(1, 9))] for _ in range(count)]


@pytest.mark.parametrize("classes", [2, 3])
def test_fitted_ngrams_are_a_logistic_regression_over_weighed_counts(classes: int) -> None:
    texts, ngrams = random_texts(60), ngrams_for(classes)
    labels = [sum(text) % classes for text in texts]
    counts = np.zeros((len(texts), len(ngrams.weight)), np.float32)
    rows, numbers = ngrams.rows(pad_sequence(texts))
    np.add.at(counts, (numbers.numpy(), rows.numpy()), 1.0)
    counts = counts[:, counts.any(axis=0)]
    rarity = np.log(61 / (1 + (counts > 0).sum(axis=0))) + 1
    features = counts * rarity / np.sqrt(counts.sum(axis=1, keepdims=True))
    model = LogisticRegression(C=10.0, fit_intercept=False, max_iter=300).fit(features, labels)
    ngrams.weight.data = fitted_weights(ngrams, IdLists.of(texts), labels)
    found = ngrams(pad_sequence(texts)).softmax(dim=1)
    np.testing.assert_allclose(found.detach(), model.predict_proba(features), atol=2e-3)


def test_a_class_without_texts_is_never_chosen_and_weights_of_classes_count() -> None:
    texts, ngrams = random_texts(60), ngrams_for(3)
    labels = [2 * (len(text) % 2) for text in texts]

    def chosen(weights: torch.Tensor | None = None) -> list[int]:
        table = fitted_weights(ngrams, IdLists.of(texts), labels, weights)
        ngrams.weight = torch.nn.Parameter(table, requires_grad=False)
        return torch.bincount(ngrams(pad_sequence(texts)).argmax(dim=1), minlength=3).tolist()

    equal, weighed = chosen(), chosen(torch.tensor([1.0, 1.0, 100.0]))
    assert equal[1] == weighed[1] == 0
    assert weighed[2] > equal[2]


@pytest.mark.parametrize("is_chinese", [False, True])
def test_the_baseline_is_that_of_the_benchmark(is_chinese: bool) -> None:
    rng = random.Random(1)
    words = "天地山水风云" if is_chinese else ["oil", "prices", "goal", "coach", "bank", "cup"]

    def rows(count: int) -> list[tuple[str, int]]:
        texts = [rng.choices(words, k=5) for _ in range(count)]
        labels = [int(words[0] in text or rng.random() < 0.3) for text in texts]
        join = "" if is_chinese else " "
        return [(join.join(text), label) for text, label in zip(texts, labels, strict=True)]

    splits = rows(80), rows(40)
    right = baseline_is_right(*([Row(label, text) for text, label in split] for split in splits))
    named = ([TableRow(text, str(label)) for text, label in split] for split in splits)
    assert 100 * right.mean() == pytest.approx(linear_accuracy(*named, is_chinese=is_chinese))


def write_table(path: Path, rows: Sequence[tuple[str, str]]) -> Path:
    path.write_text("".join(f"{text},{label}\n" for text, label in [("text", "label"), *rows]))
    return path


def test_the_validation_share_leaves_enough_rows(tmp_path: Path) -> None:
    """With 3% of 200 rows, a class of ten had no validation row at all."""
    for rows, classes, expected in ((200, 4, 40), (2000, 4, 100), (2000, 20, 200)):
        numbered = [(f"t {i}", f"c{i % classes}") for i in range(rows)]
        table = write_table(tmp_path / "t.csv", numbered)
        data = ClassificationData(text=("text",), vocab_size=300, test_share=0.0)
        dataset = LoadSentenceClassificationDataset(table, data, seed=1, save_to=tmp_path)
        assert len(dataset.read("val")) == expected


def test_few_texts_have_no_sentences_as_subwords(tmp_path: Path) -> None:
    """A vocabulary of 16,000 had every training line of couplets as one subword."""
    rng = random.Random(1)
    lines = ["".join(rng.choices("天地山水风云日月花鸟春秋", k=7)) for _ in range(300)]
    table = write_table(tmp_path / "t.csv", [(line, str(i % 2)) for i, line in enumerate(lines)])
    data = ClassificationData(text=("text",))
    dataset = LoadSentenceClassificationDataset(table, data, seed=1, save_to=tmp_path)
    assert len(dataset.codec.vocabulary) < 500
    assert max(map(len, dataset.codec.vocabulary.itos[len(SPECIALS) :])) < 6


SMALL = (
    "data.text=text",
    "data.val_share=none",
    "model.ngrams=2",
    "model.char_ngrams=4",
    "model.ngram_weights=40000",
)


@pytest.mark.parametrize(
    ("texts", "length", "epochs"), [(100, 10, 40), (1000, 20, 20), (9000, 50, 3)]
)
def test_epochs_follow_from_the_texts(texts: int, length: int, epochs: int) -> None:
    """A table of 1,000 rows needs many more than 100,000 news do."""
    labels = np.zeros(texts, np.int64)
    examples: Examples[Example] = Examples(IdLists.of([[4] * length] * texts), labels)
    data = TextData(examples, batch_tokens=256, seed=1)
    found = with_epochs(small(), data).train
    assert (found.epochs, found.patience) == (epochs, 5)
    assert with_epochs(override(small(), ["train.patience=2"]), data).train.patience == 2


def test_a_small_table_gets_fitted_ngrams_and_a_baseline(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = random.Random(1)
    rows = [(f"{rng.choice(['oil up', 'bank down'])} {i}", "money") for i in range(60)]
    rows += [(f"{rng.choice(['goal scored', 'cup final'])} {i}", "sport") for i in range(60)]
    table, out = write_table(tmp_path / "t.csv", rows), tmp_path / "run"
    metrics = train("classification", table, out, *SMALL)
    config = json.loads((out / "config.json").read_text())
    assert config["prediction"]["ngram_weight"] == 1.0  # they make no error that another avoids
    assert metrics["test"]["accuracy"] == metrics["test"]["baseline_accuracy"] == 1.0
    assert metrics["test"]["headline"] == "accuracy 100.00% on test (a linear model: 100.00%)"
    assert "a linear model</td><td>100.00%" in (out / "report.html").read_text()
    assert Classifier.load(out, device="cpu").classify("bank up") == "money"
    before = (out / WEIGHTS_FILE).read_bytes()
    assert train("classification", table, out, *SMALL, resume=True)["test"] == metrics["test"]
    assert (out / WEIGHTS_FILE).read_bytes() == before
    assert "linear model is" not in capsys.readouterr().err


def test_a_model_that_loses_to_the_baseline_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [(f"oil bank goal cup {i % 7}", "aabab"[i % 5]) for i in range(100)]
    rows = [(f"{text} {'left' if label == 'a' else 'right'}", label) for text, label in rows]
    table = write_table(tmp_path / "t.csv", rows)
    options = ("data.text=text", "data.test_share=0.3", "train.epochs=1")
    metrics = train("classification", table, tmp_path / "run", *options)
    assert metrics["test"]["accuracy"] < 0.9 < metrics["test"]["baseline_accuracy"]
    assert "points better than this one: " in capsys.readouterr().err
