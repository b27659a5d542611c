"""Training on judged answers: the loss against its definition, and what it changes."""

import math
from pathlib import Path

import pytest
import torch

from benchmarks import couplet_preferences
from benchmarks.couplet_preferences import BETA, GAP, JudgedLine, JudgedTraining, read_judged
from tasks.couplet.config import tiny
from tasks.runs.training import RunOptions
from tests.tiny_corpora import write_couplet


@pytest.mark.parametrize("points", [[0, 3, 6], [4, 4, 2], [1, 2, 1]])
def test_the_loss_is_the_mean_over_the_pairs_that_are_far_enough_apart(points: list[int]) -> None:
    scores = [-3.0, -7.5, -4.0]
    found = couplet_preferences.preference_loss(torch.tensor(scores), torch.tensor(points))
    pairs = [(i, j) for i in range(3) for j in range(3) if points[i] - points[j] >= GAP]
    losses = [math.log1p(math.exp(-BETA * (scores[i] - scores[j]))) for i, j in pairs]
    assert found.item() == pytest.approx(sum(losses) / max(1, len(losses)), rel=1e-5)


def test_training_makes_the_better_answer_more_probable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_couplet(tmp_path / "corpus")
    judged = [JudgedLine("风花", ["山水", "水山"], [5, 1])] * couplet_preferences.LINES
    monkeypatch.setattr(couplet_preferences, "read_judged", lambda: judged)
    options = RunOptions(data=tmp_path / "corpus", out=tmp_path, device=torch.device("cpu"))
    training = JudgedTraining(tiny(), options, None)
    batch = training.data.batch(training.data.plan(1)[0])
    optimizer = torch.optim.SGD(training.model.parameters(), 0.01)
    before = training.judged_loss(judged)
    for _ in range(8):
        optimizer.zero_grad()
        total, count = training.loss(batch)
        (total / count).backward()
        optimizer.step()
    assert training.judged_loss(judged) < 0.9 * before


def test_the_judged_answers_keep_the_length_and_have_points() -> None:
    judged = read_judged()
    assert len({line.first for line in judged}) == len(judged) > 24_000
    for line in judged:
        assert len(line.answers) == len(line.points) > 3 and {*line.points} <= {*range(7)}
        assert {*map(len, line.answers)} == {len(line.first)}
