"""Traces: what they show is what the predictors do, and no text breaks out of the page."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from core.errors import TextError
from tasks.classification.explain import explain
from tasks.classification.predict import Classifier
from tasks.translation.predict import Translator
from tests.commands.command_line import run
from tests.tasks.tiny_models import NEWS, untrained_classifier, untrained_translator
from tests.tasks.tiny_writers import LEVELS, OBLIQUES, WRITERS

TEXT = "der Hund sieht das Haus"
LINE = "风天山，云"
HOSTILE = "</script><script>alert(1)</script>\"'&\u202e\u2066"
SEARCHES: list[dict[str, Any]] = [
    {},
    {"beam_size": 1},
    {"beam_size": 3, "length_penalty": 0.0, "n_best": 2},
    {"beam_size": 3, "diversity": 1.0},
    {"sample": True, "n_best": 3, "seed": 4},
    {"prefix": "das Haus"},
]


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    return untrained_translator(tmp_path_factory.mktemp("translator"), max_len=80)


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Classifier:
    return untrained_classifier(tmp_path_factory.mktemp("classifier"))


@pytest.mark.parametrize("options", SEARCHES)
def test_a_trace_is_the_search_that_translates(translator: Translator, options: Any) -> None:
    trace, expected = translator.trace(TEXT, **options), translator.predict(TEXT, **options)[0]
    (tree,) = trace.searches
    assert trace.output == tree.output == expected.text
    assert tree.hypotheses[0].score == pytest.approx(expected.score, abs=1e-6)
    tokens = [i for _, i in trace.target[1:]]
    nodes = [tree.node(tokens[:length]) for length in range(1, 1 + len(tokens))]
    own = [math.log(node.probability) for node in nodes if node]
    assert own == pytest.approx(translator.score(TEXT, expected.text).log_probs[:-1], abs=1e-3)


def test_the_weights_are_those_of_attention(translator: Translator) -> None:
    trace, (expected,) = translator.trace(TEXT), translator.attention(TEXT)
    assert [token for token, _ in trace.source] == expected.source
    assert [token for token, _ in trace.target] == expected.target
    assert (trace.weights["decoder"][:, :, trace.hidden["decoder"]] == 0.0).all()
    for kind, weights in trace.weights.items():
        np.testing.assert_allclose(weights, getattr(expected, kind), atol=1e-6)
    assert Translator._join([translator, translator]).trace(TEXT).weights == {}


def test_what_if_another_word_had_been_chosen(translator: Translator) -> None:
    """The words that were given have the probability that the model gives them."""
    own, trace = translator.trace(TEXT), translator.trace(TEXT, prefix="das Haus")
    first = trace.searches[0].node([trace.target[1][1]])
    assert first is not None
    assert first.log_prob == 0.0
    (other,) = [n for n in own.searches[0].nodes[0].following if n.token == first.token]
    assert first.probability == pytest.approx(other.probability, rel=1e-3)


def test_other_beams_beside_it(translator: Translator) -> None:
    others = [translator.trace(TEXT, beam_size=width) for width in (1, 3)]
    trace = translator.trace(TEXT, sample=True).beside(*others)
    assert [search.output for search in trace.searches[1:]] == [each.output for each in others]
    assert {node.token for search in trace.searches for node in search.nodes} <= trace.words.keys()


@pytest.mark.parametrize(
    "options", [{}, {"beam_size": 3}, {"candidates": 2}, {"keep": "花？？？？"}]
)
@pytest.mark.parametrize("line", [LINE, "風天山，雲"])
def test_a_couplet_and_what_its_form_forbids(line: str, options: Any) -> None:
    writer = WRITERS[0]
    trace = writer.trace(line, **options)
    words, tree, expected = (
        len(LEVELS + OBLIQUES) + 2,
        trace.searches[0],
        writer.predict(line, **options),
    )
    assert trace.output == expected[0].second
    assert tree.hypotheses[tree.chosen].score == pytest.approx(expected[0].score, abs=1e-5)
    assert len(trace.places) == len(line)
    for length, place in enumerate(trace.places):
        assert sum(place.counts.values()) == words
        node = tree.node([i for _, i in trace.target[1 : 1 + length]])
        assert node is not None
        assert {n.token for n in node.following if not n.allowed} == set(place.forbidden)
        assert all(place.forbidden.values())
    assert trace.places[3].counts == {"": 1, "punctuation": words - 1}
    assert trace.places[0].counts["given" if "keep" in options else "characters"] > 3


def test_a_classification(classifier: Classifier) -> None:
    trace, expected = classifier.trace(NEWS[2]), classifier.classify_scored(NEWS[2])
    decision = trace.decision
    assert decision is not None
    assert trace.output == expected.label
    assert decision.probabilities == expected.probabilities
    scores = torch.tensor(decision.scores["together"]) / decision.temperature
    shown = [decision.probabilities[name] for name in classifier.classes]
    assert scores.softmax(0).tolist() == pytest.approx(shown, abs=1e-5)
    assert trace.weights["encoder"].sum(-1) == pytest.approx(1.0, abs=1e-5)
    (explanation,) = explain(classifier, NEWS[2])
    assert decision.words == [(w.word, w.contribution) for w in explanation.words]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Hund " * 61, "the text has 61 tokens; a trace shows 1 to 60"),
        ("der Hund rennt .\nder Hund .", "the text has 2 sentences; a trace shows one"),
        ("", "the model reads nothing of the text"),
    ],
)
def test_texts_that_cannot_be_shown(translator: Translator, text: str, reason: str) -> None:
    with pytest.raises(TextError, match=reason):
        translator.trace(text)


def test_a_text_that_the_classifier_cannot_show(classifier: Classifier) -> None:
    for text, count in (("", 0), ("a " * 61, 61)):
        with pytest.raises(TextError, match=f"the text has {count} tokens"):
            classifier.trace(text)


def test_json_and_page_have_no_text_of_others(
    translator: Translator, classifier: Classifier
) -> None:
    """All texts are in one element of data, where nothing but ASCII and no "<" is."""
    for trace in (translator.trace(HOSTILE), classifier.trace(HOSTILE), WRITERS[0].trace(LINE)):
        record = json.loads(trace.to_json())
        assert (record["text"], record["output"]) == (trace.text, trace.output)
        before, _, rest = trace.html().partition('<script type="application/json" id="trace">')
        data = rest.partition("</script>")[0]
        assert json.loads(data) == record
        assert data.isascii()
        assert "<" not in data
        assert "alert" not in before
        shown = trace._repr_html_()
        assert shown.count("<") == shown.count(">") == 2  # of the frame alone


def test_the_command_writes_a_page(in_tmp: Path) -> None:
    done = run("plot", "inside", "Ein Hund rennt.", "--output", "trace.html")
    assert (done.exit_code, done.stdout) == (0, "trace.html\n"), done.stderr
    assert len((in_tmp / "trace.html").read_text(encoding="utf-8")) < 1_500_000
    done = run("plot", "inside", "Ein Hund rennt.", "--output", "trace.png")
    assert "the page's name must end in .html" in done.stderr
