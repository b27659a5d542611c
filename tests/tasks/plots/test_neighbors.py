"""Neighbors in an embedding: the list and the map, against numpy's own computation."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from matplotlib.figure import Figure

from core.errors import ConfigError
from data.vocabulary import SPECIALS
from tasks.classification.predict import Classifier
from tasks.plots.learned import nearest
from tests.commands.command_line import error_of, lines_of

Plot = Callable[..., Figure]

CPU = ("--device", "cpu", "--threads", "1")


def test_the_nearest_are_those_of_the_smallest_angle() -> None:
    tokens = [*SPECIALS, "east", "also east", "north", "west", "north-east"]
    special = [[1.0, 0.0]] * 4  # as near as can be, but no words
    rows = [*special, [1.0, 0.0], [9.0, 0.9], [0.0, 0.1], [-1.0, 0.0], [5.0, 5.0]]
    vectors = F.normalize(torch.tensor(rows), dim=1)
    ids, similarities = nearest(vectors, 4, 4)
    assert [tokens[i] for i in ids] == ["also east", "north-east", "north", "west"]
    assert similarities == pytest.approx([9 / 81.81**0.5, 0.5**0.5, 0.0, -1.0], abs=1e-6)
    with pytest.raises(ConfigError, match="count must be at most 4, not 5"):
        nearest(vectors, 4, 5)


def test_the_words_are_at_their_points_and_the_table_is_on_stdout(plot: Plot) -> None:
    figure = plot("neighbors", "--task", "classification", "OIL", "--count", "4", *CPU)
    axes, bar = figure.axes
    classifier = Classifier.load(device="cpu")
    tokens, table = classifier.codec.vocabulary.itos, classifier.model.embedding.weight
    vectors = table.detach().numpy()
    vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    similarities = vectors @ vectors[tokens.index("▁oil")]
    order = [i for i in np.argsort(-similarities) if i >= len(SPECIALS)][:5]
    assert [text.get_text() for text in axes.texts] == [tokens[i] for i in order]
    neighbors, word = axes.collections
    assert np.allclose(neighbors.get_array(), similarities[order[1:]], atol=1e-5)
    places = [*word.get_offsets().tolist(), *neighbors.get_offsets().tolist()]
    assert np.allclose([text.xy for text in axes.texts], places)
    # The two components keep as much of the distances as any plane can.
    centered = vectors[order] - vectors[order].mean(axis=0)
    variances = np.linalg.svd(centered, compute_uv=False) ** 2
    assert (np.array(places) ** 2).sum() == pytest.approx(variances[:2].sum(), abs=1e-4)
    assert f"({variances[0] / variances.sum():.0%} of the variance)" in axes.get_xlabel()
    assert bar.get_ylabel() == "cosine similarity to ▁oil"
    *lines, name = lines_of(
        "plot", "neighbors", "--task", "classification", "oil", "--count", "4", *CPU
    )
    assert name == "neighbors.png"
    for line, index in zip(lines, order[1:], strict=True):
        token, similarity = line.split()
        assert token == tokens[index]
        assert float(similarity) == pytest.approx(similarities[index], abs=6e-4)


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (("Strandkorbverleih",), 1, "tokens: ask for one of ▁Strand"),
        (("",), 1, "'' is not in the vocabulary"),
        (("--task", "couplet", "--side", "target", "龘"), 1, "'龘' is not in the vocabulary"),
        (("--task", "classification", "oil", "--side", "target"), 2, "side must be one of source"),
        (("Hund", "--count", "0"), 2, "1<=x<=100"),
    ],
)
def test_what_cannot_be_drawn_is_refused(
    arguments: tuple[str, ...], code: int, reason: str
) -> None:
    assert reason in error_of(code, "plot", "neighbors", *arguments, *CPU)
