"""Occlusion: what it promises, and that it agrees with integrated gradients."""

import re
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tasks.classification.explain import MAX_WORDS, Contribution, Explanation, explain, words_of
from tasks.classification.predict import Classifier

Models = Callable[[str], Path]


@pytest.fixture(scope="module")
def classifier(tiny_models: Models) -> Classifier:
    return Classifier.load(tiny_models("classification"), device="cpu")


def test_a_contribution_is_the_difference_without_the_word(classifier: Classifier) -> None:
    text = "goal coach market final"
    (found,) = explain(classifier, [text])
    assert "".join(word.word for word in found.words) == text

    def log_odds(text: str) -> float:
        return float(
            np.log(p := classifier.classify_scored(text).probabilities[found.label]) - np.log1p(-p)
        )

    expected = log_odds(text) - log_odds("goal coach final")
    assert found.words[2].contribution == pytest.approx(expected, abs=1e-2)
    assert found.record()[2] == {"word": "market", "contribution": found.words[2].contribution}


def test_words_of_all_scripts_and_lengths(classifier: Classifier) -> None:
    assert words_of("oil prices  rise. 油价 up") == [
        "oil ",
        "prices  ",
        "rise. ",
        "油",
        "价 ",
        "up",
    ]
    one, empty, long = explain(classifier, ["goal", " ", "goal " * 1000])
    assert len(one.words) == 1
    assert (empty.label, empty.words) == ("", ())
    assert len(long.words) == MAX_WORDS
    assert explain(classifier, "goal") == [one]  # each of its letters was a text


def test_words_are_shown_as_written(classifier: Classifier) -> None:
    lowercase = copy(classifier)
    data = replace(classifier.config.data, lowercase=True)
    lowercase.config = replace(classifier.config, data=data)
    written, lower = explain(lowercase, ["GOAL for Market", "goal for market"])
    assert [word.word for word in written.words] == ["GOAL ", "for ", "Market"]
    assert [w.contribution for w in written.words] == [w.contribution for w in lower.words]


def test_html_is_escaped_and_colored() -> None:
    words = (Contribution("<b>", 3.0), Contribution("&", -3.0), Contribution("x", 0.0))
    page = Explanation("<i>", 0.5, words).html()
    assert '"><b>' not in page
    assert re.findall(r"rgb\((.*?)\)", page) == ["95, 165, 115", "215, 104, 104", "255, 255, 255"]
    assert "&lt;b&gt;</span>" in page
    assert "<b>&lt;i&gt;</b> 0.5000" in page
