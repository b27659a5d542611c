"""Confidence: a logistic regression whose probabilities mean what they say."""

import math
import random
from pathlib import Path

import pytest
import torch

from core.decoding.search import Hypothesis
from core.errors import CheckpointError
from core.storage.checkpoint import save_tensors
from tasks.classification.decision import binned, calibration_error
from tasks.runs.checkpoint_folder import CONFIDENCE_FILE
from tasks.translation.confidence import Confidence, are_good, capped, features_of


def drawn(count: int, seed: int) -> tuple[list[list[int]], list[Hypothesis], list[bool]]:
    """Segments whose translation is good with probability sigmoid(4 + 3 * mean log-probability)."""
    rng = random.Random(seed)
    segments, hypotheses, is_good = [], [], []
    for _ in range(count):
        source, target, mean = rng.randint(2, 20), rng.randint(2, 20), -3 * rng.random()
        segments.append([7] * source)
        hypotheses.append(Hypothesis([8] * target, mean * (target + 1), -1.0))
        is_good.append(rng.random() < 1 / (1 + math.exp(-4 - 3 * mean)))
    return segments, hypotheses, is_good


def fitted(count: int, seed: int) -> Confidence:
    segments, hypotheses, is_good = drawn(count, seed)
    pairs = zip(segments, hypotheses, strict=True)
    return Confidence.fit([features_of(*pair) for pair in pairs], is_good)


def test_the_features_are_worked_out_by_hand() -> None:
    found = features_of([5, 6, 7], Hypothesis([8], -3.0, -1.0))
    assert found == pytest.approx([-1.5, math.log(4), math.log(0.5)])


def test_it_finds_the_probability_that_the_data_was_drawn_with() -> None:
    confidence = fitted(20_000, seed=1)
    assert confidence.weights.tolist() == pytest.approx([3.0, 0.0, 0.0, 4.0], abs=0.2)
    segments, hypotheses, is_good = drawn(5000, seed=2)
    pairs = zip(segments, hypotheses, strict=True)
    found = torch.tensor([confidence.of([ids], [hypothesis]) for ids, hypothesis in pairs])
    assert calibration_error(found, torch.tensor(is_good)) < 0.03
    assert calibration_error(1 - found, torch.tensor(is_good)) > 0.3


def test_a_text_has_the_mean_of_its_segments_weighted_by_tokens() -> None:
    confidence = Confidence(torch.tensor([1.0, 0.0, 0.0, 0.0]))
    sure, unsure = Hypothesis([8], 0.0, 0.0), Hypothesis([8], -1e9, 0.0)
    assert confidence.of([[5]], [sure]) == 0.5
    assert confidence.of([[5]], [unsure]) == 0.0
    assert confidence.of([[5], [5, 6, 7]], [unsure, sure]) == 0.375


def test_a_translation_is_good_from_a_chrf_of_sixty() -> None:
    reference = "A dog runs on the beach."
    translations = [reference, "A dog is running on the beach.", "Two women sleep."]
    assert are_good(translations, [reference] * 3) == [True, True, False]


def test_the_reliability_is_worked_out_by_hand() -> None:
    found = torch.tensor([0.05, 0.82, 0.88, 1.0]), torch.tensor([False, True, False, True])
    bins = binned(*found, bins=10)
    assert bins[0].tolist() == pytest.approx([0.05, 0, 1])
    assert bins[8].tolist() == pytest.approx([1.7, 1, 2])
    assert bins[9].tolist() == pytest.approx([1.0, 1, 1])
    assert bins[:, 2].sum() == 4
    assert calibration_error(*found, bins=10) == pytest.approx((0.05 + 2 * 0.35 + 0.0) / 4)


def test_it_is_saved_and_a_wrong_file_is_refused(tmp_path: Path) -> None:
    assert Confidence.load(tmp_path) is None
    confidence = fitted(100, seed=1)
    confidence.save(tmp_path)
    loaded = Confidence.load(tmp_path)
    assert loaded is not None
    assert loaded.weights.equal(confidence.weights)
    for weights in (torch.zeros(9), torch.full((4,), math.nan)):
        save_tensors(tmp_path / CONFIDENCE_FILE, {"weights": weights})
        with pytest.raises(CheckpointError, match=CONFIDENCE_FILE):
            Confidence.load(tmp_path)


@pytest.mark.parametrize(
    ("source", "translation", "familiarity", "most"),
    [
        ("Ein Hund", "A dog", 0.5, 1.0),
        ("Ein Hund", "A dog", None, 1.0),
        ("Ein Hund", "A dog", 0.1, 0.3),
        ("Ein Hund", "days Days, days", 0.5, 0.2),
        ("nein nein nein", "no no no", 0.5, 1.0),
        ("Ein Hund", "a b a b a b a b a", 0.5, 1.0),
        ("Ein Hund", "a b a b a b a b a b", 0.5, 0.2),
        ("我爱你和她", "one two three four five six seven eight nine ten eleven", 0.5, 1.0),
    ],
)
def test_what_is_strange_or_loops_is_not_trusted(
    source: str, translation: str, familiarity: float | None, most: float
) -> None:
    """A model of one's own had a confidence of 0.995 in nonsense."""
    assert capped(0.9, source, translation, familiarity) == min(0.9, most)
    assert capped(0.1, source, translation, familiarity) == 0.1
