"""Temperature and calibration error: equal to other ways to compute them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from tasks.classification.config import MIN_TEMPERATURE
from tasks.classification.decision import calibration_error, fit_temperature, most_probable, scaled
from tasks.classification.predict import Classifier
from tasks.task import task_named
from tests.tasks.tiny_models import measured


def ece(probabilities: Tensor, labels: Tensor) -> float:
    return calibration_error(*most_probable(probabilities, labels))


def texts_of_temperature(temperature: float) -> tuple[Tensor, Tensor]:
    """Probabilities at temperature 1 of texts whose classes are drawn at another one."""
    rng = torch.Generator().manual_seed(1)
    log_probabilities = (2.0 * torch.randn(20_000, 5, generator=rng)).log_softmax(dim=1)
    labels = torch.multinomial(scaled(log_probabilities.exp(), temperature), 1, generator=rng)
    return log_probabilities.exp(), labels.squeeze(1)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_the_temperature_is_found_and_calibrates(temperature: float) -> None:
    probabilities, labels = texts_of_temperature(temperature)
    found = fit_temperature(probabilities, labels)
    assert found == pytest.approx(temperature, rel=0.05)
    error = ece(scaled(probabilities, found), labels)
    assert error < 0.01
    if temperature != 1.0:
        assert ece(probabilities, labels) > 10 * error


def test_the_temperature_minimizes_the_loss() -> None:
    probabilities, labels = (x[:50] for x in texts_of_temperature(2.0))
    truth = torch.full((50, 5), 1 / 52 / 5).scatter(1, labels.unsqueeze(1), 51 / 52 + 1 / 52 / 5)

    def loss(temperature: float) -> float:
        return -(truth * scaled(probabilities, temperature).log()).sum().item()

    best = minimize_scalar(loss, bounds=(0.05, 20.0), method="bounded")
    assert fit_temperature(probabilities, labels) == pytest.approx(best.x, rel=1e-2)


def test_few_texts_do_not_make_a_model_certain() -> None:
    probabilities = torch.tensor([[0.8, 0.1, 0.1]] * 5)
    labels = torch.zeros(5, dtype=torch.long)
    temperature = fit_temperature(probabilities, labels)
    assert temperature > MIN_TEMPERATURE
    assert scaled(probabilities, temperature)[0, 0] < 0.96


def test_the_calibration_error_equals_a_loop_over_the_bins() -> None:
    probabilities, labels = texts_of_temperature(2.0)
    confidence, predicted = probabilities.double().max(dim=1)
    expected = 0.0
    for low, high in zip(np.arange(15) / 15, np.arange(1, 16) / 15, strict=True):
        is_inside = (confidence > low) & (confidence <= high)
        if is_inside.any():
            accuracy = (predicted == labels)[is_inside].double().mean()
            gap = (accuracy - confidence[is_inside].mean()).abs()
            expected += (gap * is_inside.double().mean()).item()
    assert ece(probabilities, labels) == pytest.approx(expected)
    certain = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    assert ece(certain, torch.tensor([0, 1])) == 0.0
    assert ece(certain, torch.tensor([1, 0])) == 1.0


def test_a_run_saves_the_temperature_and_prediction_uses_it(
    tiny_models: Callable[[str], Path], tiny_corpora: dict[str, Path]
) -> None:
    from tasks.classification.predict import Classifier

    folder = tiny_models("classification")
    temperature = json.loads((folder / "config.json").read_text())["prediction"]["temperature"]
    assert temperature != 1.0
    classifier = Classifier.load(folder, device="cpu")
    src = torch.tensor([[4], [5], [6]])
    with torch.no_grad():
        expected = (classifier.model(src) / temperature).softmax(dim=1)
    torch.testing.assert_close(classifier.outputs([[4, 5, 6]]).probabilities, expected)
    report = task_named("classification").evaluate(folder, tiny_corpora["classification"])
    error = report.record()["calibration_error"]
    assert 0.0 <= error <= 1.0
    assert f"{100 * error:.2f}%" in report.table()


def test_a_report_takes_one_pass_over_the_texts(
    tiny_models: Callable[[str], Path],
    tiny_corpora: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The probabilities before and after calibration are from the same scores."""
    folder, counts, outputs = tiny_models("classification"), list[int](), Classifier.outputs

    def counted(self: Classifier, texts: Any, **options: Any) -> Any:
        counts.append(len(texts))
        return outputs(self, texts, **options)

    monkeypatch.setattr(Classifier, "outputs", counted)
    report = measured("classification", folder, tiny_corpora["classification"], report_in=tmp_path)
    assert counts == [report["texts"]]
    before, after = json.loads((tmp_path / "report.json").read_text())["reliability"].values()
    assert before != after
