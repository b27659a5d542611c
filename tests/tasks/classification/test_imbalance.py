"""Weights of classes and thresholds: equal to scikit-learn's, and what they promise."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.utils.class_weight import compute_class_weight

from core.errors import ConfigError
from tasks.classification.decision import class_weights, decide
from tasks.classification.model import ClassificationModel
from tasks.classification.train import text_loss

CLASSES = ["ham", "spam", "a=b"]


def test_balanced_weights_equal_those_of_sklearn() -> None:
    labels = [0] * 70 + [1] * 25 + [2] * 5
    theirs = compute_class_weight("balanced", classes=np.arange(3), y=labels)
    assert class_weights(["balanced"], CLASSES, labels).tolist() == pytest.approx(theirs)
    assert class_weights(["spam=5", "a=b=2"], CLASSES, labels).tolist() == [1.0, 5.0, 2.0]


def test_the_loss_is_weighted() -> None:
    torch.manual_seed(1)
    model = ClassificationModel(9, 3, d_model=8, nhead=2, num_encoder_layers=1, dropout=0.0).eval()
    src, labels = torch.tensor([[4, 5], [6, 7]]), torch.tensor([2, 0])
    weights = torch.tensor([1.0, 2.0, 5.0])
    total, count = text_loss(model, 0.0, 0.0, weights=weights)((src, labels))
    each = F.cross_entropy(model(src), labels, reduction="none")
    assert count == 2
    torch.testing.assert_close(total, 5 * each[0] + each[1])


def test_a_class_with_a_threshold_is_chosen_exactly_when_it_is_reached() -> None:
    probabilities = torch.tensor([[0.7, 0.25, 0.05], [0.8, 0.1, 0.1], [0.1, 0.5, 0.4]])
    assert decide(probabilities, CLASSES, []).tolist() == [0, 0, 1]
    assert decide(probabilities, CLASSES, ["spam=0.2"]).tolist() == [1, 0, 1]
    assert decide(probabilities, CLASSES, ["spam=0.6"]).tolist() == [0, 0, 2]
    everyone = ["ham=0.9", "spam=0.9", "a=b=0.3"]
    assert decide(probabilities, CLASSES, everyone).tolist() == [0, 0, 2]


@pytest.mark.parametrize(
    ("items", "message"),
    [
        (["spma=0.5"], r"thresholds must be one of .* did you mean 'spam'"),
        (["spam=1.5"], r"LABEL=NUMBER, above 0 and at most 1"),
        (["spam=nan"], r"LABEL=NUMBER"),
        (["spam=0.1", "spam=0.2"], r"has 'spam' twice"),
    ],
)
def test_wrong_thresholds_are_refused(items: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        decide(torch.ones(1, 3) / 3, CLASSES, items)
