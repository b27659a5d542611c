"""The report: intervals equal to scipy's, and a page that shows strangers' texts as text."""

import json
import re
from base64 import b64decode
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import bootstrap
from sklearn.calibration import calibration_curve
from sklearn.metrics import f1_score

from tasks import pictures
from tasks.classification import evaluate, report
from tasks.classification.decision import calibration_error, most_probable

CLASSES = ["ham", "<b>spam</b>", "eggs"]


@pytest.fixture(autouse=True)
def with_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "embedded", pictures.embedded)


def test_intervals_equal_those_of_drawing_texts() -> None:
    rng = np.random.default_rng(1)
    truth = rng.choice([0, 2, 5], size=400, p=[0.6, 0.3, 0.1])
    predicted = np.where(rng.random(400) < 0.8, truth, rng.choice([0, 2, 5], size=400))
    found = report.bootstrap_intervals(predicted, truth)

    def macro_f1(given: np.ndarray, true: np.ndarray) -> float:
        return float(f1_score(true, given, average="macro"))

    def accuracy(given: np.ndarray, true: np.ndarray) -> float:
        return float((given == true).mean())

    for name, statistic in (("accuracy", accuracy), ("macro_f1", macro_f1)):
        theirs = bootstrap(
            (predicted, truth), statistic, paired=True, vectorized=False, n_resamples=300,
            method="percentile", rng=np.random.default_rng(2),
        ).confidence_interval  # fmt: skip
        assert found[f"{name}_interval"] == pytest.approx(list(theirs), abs=0.015)


def test_reliability_equals_sklearns_curve_and_adds_up_to_the_error() -> None:
    torch.manual_seed(1)
    probabilities = torch.rand(500, 3).softmax(dim=1) ** 2
    probabilities /= probabilities.sum(dim=1, keepdim=True)
    labels = torch.randint(3, (500,))
    bins = report.reliability(probabilities, labels)
    confidence, predicted = probabilities.double().max(dim=1)
    accuracies, confidences = calibration_curve(predicted == labels, confidence, n_bins=15)
    assert [b["accuracy"] for b in bins] == pytest.approx(accuracies.tolist())
    assert [b["confidence"] for b in bins] == pytest.approx(confidences.tolist())
    error = sum(b["texts"] * abs(b["confidence"] - b["accuracy"]) for b in bins) / 500
    assert error == pytest.approx(calibration_error(*most_probable(probabilities, labels)))


def test_the_most_confident_mistakes_come_first() -> None:
    probabilities = torch.tensor([[0.9, 0.1, 0], [0.6, 0.3, 0.1], [0.2, 0.7, 0.1], [0, 0, 1.0]])
    predicted = probabilities.argmax(dim=1)
    labels = torch.tensor([0, 1, 2, 2])
    found = report.confident_mistakes([*"abcd"], labels, predicted, probabilities, CLASSES)
    assert [(m["text"], m["label"]) for m in found] == [("c", "eggs"), ("b", "<b>spam</b>")]


def test_telling_words_are_those_of_one_class() -> None:
    texts = ["the goal of the coach", "the final goal"] * 20
    texts += ["the bank", "财 the market bank"] * 20
    words = report.telling_words(texts, ["sports"] * 40 + ["business"] * 40)
    assert words["sports"][0] == "goal"
    assert set(words["business"]) == {"bank", "market", "财"}
    assert "the" not in words["sports"] + words["business"]


def test_words_of_small_classes_are_told() -> None:
    """A word in six texts of one class, and in no other text, was not listed."""
    texts = [f"{word} a{number}" for word in ("ich", "the", "une", "el") for number in range(6)]
    words = report.telling_words(texts, [text.split()[0].upper() for text in texts])
    assert words == {"ICH": ["ich"], "THE": ["the"], "UNE": ["une"], "EL": ["el"]}


def test_the_page_is_complete_and_shows_texts_as_text(tmp_path: Path) -> None:
    torch.manual_seed(1)
    labels = torch.randint(3, (60,))
    one_hot = torch.nn.functional.one_hot(labels, 3)
    probabilities = (torch.rand(60, 3) + 0.5 * one_hot).softmax(dim=1)
    predicted = probabilities.argmax(dim=1)
    texts = ['<script>alert("x")</script> & 文字' for _ in labels]
    names = [[CLASSES[i] for i in numbers.tolist()] for numbers in (predicted, labels)]
    figures = {"split": "test", "texts": 60, "calibration_error": 0.1}
    figures |= vars(evaluate.score(*names, CLASSES))
    figures |= report.bootstrap_intervals(predicted.numpy(), labels.numpy())
    report.write_report(
        tmp_path, figures, texts=texts, labels=labels, predicted=predicted,
        probabilities=probabilities, temperature=1.0,
    )  # fmt: skip
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "<b>spam" not in page
    pictures = re.findall(r'src="data:image/png;base64,(\S+)">', page)
    assert len(pictures) == 2
    assert all(b64decode(picture).startswith(b"\x89PNG") for picture in pictures)
    assert not re.search(r"src=(?!\"data:)|href=|url\(|@import", page)
    saved = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert saved["confusion"] == figures["confusion"]
    wrong = int((predicted != labels).sum())
    assert len(saved["mistakes"]) == min(wrong, 30) > 0


def test_the_page_of_thousands_of_classes_is_short(tmp_path: Path) -> None:
    names = [f"class {i}" for i in range(3000)]
    numbers = torch.arange(3000)
    figures = {"split": "test", "texts": 3000, "calibration_error": 0.1}
    scores = vars(evaluate.score([*names[1:], names[0]], names, names))
    figures |= {name: value for name, value in scores.items() if value is not None}
    figures |= report.bootstrap_intervals(numbers.roll(-1).numpy(), numbers.numpy())
    probabilities = torch.full((3000, 3000), 1 / 3000)
    report.write_report(
        tmp_path, figures, texts=names, labels=numbers, predicted=numbers.roll(-1),
        probabilities=probabilities, temperature=1.0,
    )  # fmt: skip
    assert (tmp_path / "report.html").stat().st_size < 200_000
