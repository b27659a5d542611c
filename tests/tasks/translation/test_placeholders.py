"""Addresses, emoji and the like arrive as they were, whatever the model does to rare characters."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.decoding.search import Hypothesis
from tasks.seq2seq import generation
from tasks.translation.placeholders import (
    FALLBACK,
    PLACEHOLDERS,
    line_parts,
    restored,
    with_placeholders,
)
from tasks.translation.predict import Translator
from tasks.translation.spelling import readable, usual_case
from tests.tasks.tiny_models import untrained_translator
from tests.tasks.translation.test_translator import echo, search_in_order

__all__ = ["echo"]  # a fixture

LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZäöüß0123456789.,:/@-„“\"'")
FIRST, SECOND, *_ = PLACEHOLDERS


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    folder = tmp_path_factory.mktemp("bytes")
    options = {"tokenizer": "sentencepiece", "vocab_size": 400, "byte_fallback": True}
    return untrained_translator(folder, **options)


@pytest.mark.parametrize(
    "literal",
    [
        "https://www.example.org/a?b=1#c",
        "www.hallo-welt.de",
        "t.me/abc",
        "example.com",
        "anna.schmidt@firma.de",
        "<anna@firma.de>",
        "max_99@mail.co.uk",
        "@transformer",
        "#wetter",
        "0170-4455667",
        "+491704455667",
        "24.12.2025",
        "192.168.0.1",
        "DE89370400440532013000",
        "NATO",
        "DVD",
        "東京",
        "Ελλάδα",
        "👨‍👩‍👧",
        "❤️",
    ],
)
@pytest.mark.parametrize("frame", ["Siehe {}, bitte.", "Ist das „{}“?", "Was ({}) ist das"])
def test_a_placeholder_stands_for_what_has_no_translation(literal: str, frame: str) -> None:
    sentence = frame.format(literal)
    assert with_placeholders(sentence, LETTERS) == (
        frame.format(FIRST),
        {FIRST: (literal, literal)},
    )
    assert restored(frame.format(FIRST), {FIRST: literal}) == sentence


@pytest.mark.parametrize(
    "sentence",
    [
        "Am 24.12. um 18:30 Uhr kosten 1.500.000 Stück 12.500,00 Euro.",
        "Das 20. Jahrhundert, die 1990er und ein 20-jähriger Mann.",
        "Vor dem Haus von Dr.Müller z.B. ist/war es grau.",
        "Ein T-Shirt (rot) - und @ und # und 7 ...",
        "Er sagte:„Komm!“",
    ],
)
def test_other_words_are_translated(sentence: str) -> None:
    assert with_placeholders(sentence, LETTERS) == (sentence, {})


def test_placeholders_run_out() -> None:
    """A sentence of addresses has as many placeholders as there are; the model reads the rest."""
    text, literals = with_placeholders("a@b.de " * 6, LETTERS)
    assert literals == dict.fromkeys(PLACEHOLDERS, ("a@b.de", "a@b.de"))
    assert text.split() == [*PLACEHOLDERS, "a@b.de", "a@b.de"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Danke! 😀", [("", ["Danke!"]), (" 😀", [])]),
        ("❤️ Danke😀", [("", []), ("❤️ ", ["Danke"]), ("😀", [])]),
        ("Ja. 👍🏽 Gut. Nein.", [("", ["Ja."]), (" 👍🏽 ", ["Gut.", "Nein."])]),
        ("Ja. ... Gut.", [("", ["Ja."]), (" ... ", ["Gut."])]),
        ("Ja. 我爱你。 Gut.", [("", ["Ja."]), (" 我爱你。 ", ["Gut."])]),
        ("???", [("", []), ("???", [])]),
        ("3,50 €", [("", []), ("3,50 €", [])]),
        ("", [("", [])]),
    ],
)
def test_what_no_model_reads(line: str, expected: list[tuple[str, list[str]]]) -> None:
    assert line_parts(line, LETTERS) == expected


@given(st.text("aB. !?😀\u200d3我。\t", max_size=30))
def test_parts_are_the_whole_line(line: str) -> None:
    found = line_parts(line, LETTERS)
    joined = "".join(kept + "".join(of_part) for kept, of_part in found)
    assert joined.replace(" ", "").replace("\t", "") == "".join(line.split())


@pytest.mark.parametrize(
    "line",
    [
        "Schreib an anna@firma.de oder besuche https://a.org/x?y=1.",
        "Hund! 😀",
        "❤️ Hund rennt 👍🏽",
        "Auf dem Haus steht 東京, nicht ❤️.",
        "...",
        "😀",
        "我爱你。",
        "Ruf 0170-4455667 an. Jetzt! 👨‍👩‍👧 Er rennt.",
    ],
)
def test_nothing_is_lost(translator: Translator, echo: list[list[int]], line: str) -> None:
    """An emoji of several characters lost some of them, and "..." was translated to "Open it"."""
    assert translator.translate(line) == line
    read = [translator.source.decode(ids) for ids in echo]
    assert not any(character in text for text in read for character in "東❤👍我😀")


Reading = Callable[[str], list[str]]
"""From a sentence to what a model makes of it: its hypotheses, the best first."""


@pytest.fixture
def reads(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Reading], list[str]]:
    """Makes the translator read as it is told; returns the list of what it has read."""

    def install(reading: Reading) -> list[str]:
        read: list[str] = []

        def search(search: Any, segments: Sequence[Any]) -> Any:
            texts = [translator.source.decode(segment.ids) for segment in segments]
            read.extend(texts)
            count = search.config.n_best
            return [
                generation.SegmentResult(
                    [
                        Hypothesis(translator.target.encode(one), -1.0 - rank, -1.0 - rank)
                        for rank, one in enumerate(reading(text)[:count])
                    ],
                    None,
                )
                for text in texts
            ]

        search_in_order(monkeypatch, search)
        return read

    return install


def test_only_the_placeholder_that_is_lost_is_read_by_the_model(
    translator: Translator, reads: Callable[[Reading], list[str]]
) -> None:
    """The whole text was read again without any placeholder, its other sentences too."""
    read = reads(lambda text: [text.replace(FIRST, "Haus") if "Siehe" in text else text])
    source = "Hund an e@f.de. Siehe a@b.de oder c@d.de! Hund rennt."
    assert translator.translate(["Hund", source]) == ["Hund", source]
    sentences = ["Hund", f"Hund an {FIRST}.", f"Siehe {FIRST} oder {SECOND}!", "Hund rennt."]
    assert read == [*sentences, f"Siehe {FALLBACK} oder {SECOND}!"]


def test_a_literal_that_is_never_copied_is_read_by_the_model(
    translator: Translator, reads: Callable[[Reading], list[str]]
) -> None:
    read = reads(lambda text: [text.replace(FIRST, "es").replace(FALLBACK, "es")])
    assert translator.translate("Siehe a@b.de!") == "Siehe a@b.de!"
    assert read == [f"Siehe {FIRST}!", f"Siehe {FALLBACK}!", "Siehe a@b.de!"]


def test_the_best_translation_does_not_depend_on_the_number_of_others(
    translator: Translator, reads: Callable[[Reading], list[str]]
) -> None:
    """One alternative without its placeholder had all of them searched for again."""
    read = reads(lambda text: [text, text.replace(FIRST, "Haus"), f"{text} Hund"])
    found = translator.translate_scored("Siehe a@b.de", beam_size=3, n_best=3)
    assert [one.text for one in found.hypotheses] == ["Siehe a@b.de", "Siehe a@b.de Hund"]
    assert translator.translate("Siehe a@b.de", beam_size=3) == "Siehe a@b.de"
    assert read == [f"Siehe {FIRST}"] * 2


def test_a_prefix_leaves_every_character_to_the_model(
    translator: Translator, echo: list[list[int]]
) -> None:
    with pytest.raises(Exception, match="prefix"):  # this search ignores it
        translator.translate("Siehe a@b.de", prefix="Hund")
    translator.translate("Siehe a@b.de", placeholders=False)
    assert {translator.source.decode(ids) for ids in echo} == {"Siehe a@b.de"}


@pytest.mark.parametrize("unit", ["a", "a.", "a@", "www.", "1-", "A1-", "😀", "😀 ", "我", "«"])
def test_hostile_lines_take_linear_time(unit: str, translator: Translator) -> None:
    start = time.process_time()
    line = readable(unit * 100_000, LETTERS)
    usual_case(line.upper(), translator.source, LETTERS)
    for _, of_part in line_parts(line, LETTERS):
        for sentence in of_part:
            with_placeholders(sentence, LETTERS)
    assert time.process_time() - start < 5.0
