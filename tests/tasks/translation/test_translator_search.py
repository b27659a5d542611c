"""What users can ask of a translator's search: alternatives, sampling, prefixes, rules."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from core.errors import ConfigError
from data.codec import CodecConfig, TextCodec
from tasks.translation.predict import Translation, Translator, known_ids

SENTENCES = ["Ein Hund sieht das Boot.", "Eine Frau malt das Meer.", "Ein Kind hört die Straße."]
TEXTS = [SENTENCES[0], "", " ".join(SENTENCES), SENTENCES[1]]


@pytest.fixture(scope="module")
def translator(tiny_models: Callable[[str], Path]) -> Translator:
    return Translator.load(tiny_models("translation"), device="cpu")


def texts_of(found: list[Translation]) -> list[list[str]]:
    return [[one.text for one in translation.hypotheses] for translation in found]


def test_the_best_come_first_and_the_first_is_the_translation(translator: Translator) -> None:
    plain = translator.translate_scored(TEXTS, beam_size=5)
    several = translator.translate_scored(TEXTS, beam_size=5, n_best=4)
    assert [(t.text, t.score, t.segments, t.others) for t in plain] == [
        (t.text, t.score, t.segments, ()) for t in several
    ]
    assert [len(t.hypotheses) for t in several] == [4, 1, 4, 4]
    for translation in several:
        scores = [one.score for one in translation.hypotheses]
        assert scores == sorted(scores, reverse=True)
        assert {one.segments for one in translation.hypotheses} == {translation.segments}
    assert plain[0].record() == several[0].record()
    assert list(plain[0].record()) == [
        "translation",
        "score",
        "segments",
        "confidence",
        "familiarity",
        "unfamiliar",
    ]


def test_alternatives_to_a_long_text_are_made_of_its_sentences(translator: Translator) -> None:
    (long,) = translator.translate_scored(TEXTS[2:3], beam_size=3, n_best=3)
    alone = translator.translate_scored(SENTENCES, beam_size=3, n_best=3)
    assert long.text == " ".join(one.text for one in alone)
    # The next best text has the sentence in the place of which another costs least.
    costs = [one.score - one.others[0].score for one in alone]
    cheapest = costs.index(min(costs))
    expected = [one.others[0].text if i == cheapest else one.text for i, one in enumerate(alone)]
    assert long.others[0].text == " ".join(expected)
    assert long.others[0].score == pytest.approx(long.score - min(costs))


def test_diverse_alternatives_differ_in_every_sentence(translator: Translator) -> None:
    """Two sentences once stood without a space: the second began with a subword inside a word."""
    options = {"beam_size": 3, "n_best": 3, "diversity": 5.0}
    (long,) = translator.translate_scored(TEXTS[2:3], **options)
    alone = translator.translate_scored(SENTENCES, **options)
    ranks = [[one.hypotheses[rank].text for one in alone] for rank in range(2)]
    assert [one.text for one in long.hypotheses[:2]] == [" ".join(rank) for rank in ranks]
    assert all(first != second for first, second in zip(*ranks, strict=True))


def test_a_translation_begins_as_it_is_told_to(translator: Translator) -> None:
    for options in ({}, {"beam_size": 4, "n_best": 3}, {"sample": True}):
        found = translator.translate_scored(TEXTS, prefix="A cat sees", **options)
        assert found[1].text == ""
        for translation in (found[0], found[2], found[3]):
            assert all(one.text.startswith("A cat sees") for one in translation.hypotheses)


@pytest.mark.parametrize("prefix", ["", " \t"])
def test_a_prefix_of_nothing_is_refused(translator: Translator, prefix: str) -> None:
    with pytest.raises(ConfigError, match="prefix must be a text of at least one word"):
        translator.translate(SENTENCES, prefix=prefix)


def test_a_prefix_may_have_characters_outside_the_vocabulary(translator: Translator) -> None:
    """They are bytes for a model with byte fallback."""
    found = translator.translate(SENTENCES, prefix="A 猫 🐕 sees")
    assert all(text.startswith("A 猫 🐕 sees") for text in found)


def test_a_prefix_that_a_model_cannot_write_is_refused_by_its_word(tmp_path: Path) -> None:
    codec = TextCodec.build(["a cat sees"] * 9, tmp_path, CodecConfig(vocab_size=20))
    with pytest.raises(ConfigError, match="prefix 'a 猫 sees': the model does not know '猫'"):
        known_ids("a 猫 sees", codec)


def test_options_that_cannot_be_are_refused_before_there_is_a_text(translator: Translator) -> None:
    for options in ({"top_p": 0.5}, {"n_best": 9}, {"beam_size": 2, "sample": True}):
        with pytest.raises(ConfigError, match=r"generation\."):
            translator.translate([], **options)
    for wrong, right in (("beem_size", "beam_size"), ("bean", "beam"), ("diversty", "diversity")):
        with pytest.raises(ConfigError, match=f"unknown option '{wrong}'; did you mean '{right}'"):
            translator.translate([], **{wrong: 4})


def test_a_constraint_can_tell_texts_apart(translator: Translator) -> None:
    """Here the text of the number 1 stays empty, in all of its sentences; an empty one counts."""
    words = len(translator.target.vocabulary)

    def silence(outputs: Tensor, numbers: Tensor) -> Tensor:
        is_word = torch.arange(words) != 3
        return (numbers == 1).unsqueeze(1) & is_word

    texts = ["", TEXTS[2], TEXTS[0], TEXTS[2]]
    plain = translator.translate(texts)
    found = translator.translate(texts, constraint=silence)
    assert found == ["", "", *plain[2:]]
    found = translator.translate(texts, constraint=silence, numbers=[0, 2, 1, 3])
    assert found == ["", plain[1], "", plain[3]]
