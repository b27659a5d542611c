"""Addresses, emoji and the like arrive as they were, whatever the model does to rare characters."""

import time
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.decoding.search import Hypothesis
from tasks.seq2seq import generation
from tasks.translation.placeholders import (
    PLACEHOLDERS,
    line_parts,
    restored,
    with_placeholders,
)
from tasks.translation.predict import Translator
from tasks.translation.typography import readable
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
        "max_99@mail.co.uk",
        "@transformer",
        "#wetter",
        "0170-4455667",
        "+491704455667",
        "DE89370400440532013000",
        "東京",
        "Ελλάδα",
        "👨‍👩‍👧",
        "❤️",
    ],
)
@pytest.mark.parametrize("frame", ["Siehe {}, bitte.", "Ist das „{}“?", "Was ({}) ist das"])
def test_a_placeholder_stands_for_what_has_no_translation(literal: str, frame: str) -> None:
    sentence = frame.format(literal)
    assert with_placeholders(sentence, LETTERS) == (frame.format(FIRST), (literal,))
    assert restored(frame.format(FIRST), (literal,)) == sentence


@pytest.mark.parametrize(
    "sentence",
    [
        "Am 24.12.2025 um 18:30 Uhr kostet es 12.500,00 Euro.",
        "Das 20. Jahrhundert, die 1990er und ein 20-jähriger Mann.",
        "Vor dem Haus von Dr.Müller z.B. ist/war es grau.",
        "Ein T-Shirt (rot) - und @ und # und 7 ...",
        "Er sagte:„Komm!“",
    ],
)
def test_other_words_are_translated(sentence: str) -> None:
    assert with_placeholders(sentence, LETTERS) == (sentence, ())


def test_placeholders_run_out() -> None:
    """A sentence of addresses has as many placeholders as there are; the model reads the rest."""
    text, literals = with_placeholders("a@b.de " * 6, LETTERS)
    assert literals == ("a@b.de",) * len(PLACEHOLDERS)
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


def test_a_placeholder_that_is_lost_was_never_there(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that cannot copy placeholders reads the text as it is."""
    read = []

    def without_addresses(search: object, segments: Sequence[Any]) -> Any:
        texts = [translator.source.decode(segment.ids) for segment in segments]
        read.extend(texts)
        kept = [text.replace(FIRST, "Haus") for text in texts]
        found = [[Hypothesis(translator.target.encode(text), -1.0, -0.5)] for text in kept]
        return [generation.SegmentResult(hypotheses, None) for hypotheses in found]

    search_in_order(monkeypatch, without_addresses)
    sources = ["Hund", "Siehe a@b.de oder c@d.de.", "Hund rennt"]
    assert translator.translate(sources) == sources
    assert read == ["Hund", f"Siehe {FIRST} oder {SECOND}.", "Hund rennt", sources[1]]


def test_a_prefix_leaves_every_character_to_the_model(
    translator: Translator, echo: list[list[int]]
) -> None:
    with pytest.raises(Exception, match="prefix"):  # this search ignores it
        translator.translate("Siehe a@b.de", prefix="Hund")
    translator.translate("Siehe a@b.de", placeholders=False)
    assert {translator.source.decode(ids) for ids in echo} == {"Siehe a@b.de"}


@pytest.mark.parametrize("unit", ["a", "a.", "a@", "www.", "1-", "A1-", "😀", "😀 ", "我", "«"])
def test_hostile_lines_take_linear_time(unit: str) -> None:
    start = time.process_time()
    line = readable(unit * 100_000, LETTERS)
    for _, of_part in line_parts(line, LETTERS):
        for sentence in of_part:
            with_placeholders(sentence, LETTERS)
    assert time.process_time() - start < 5.0


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Fuß\u00adball", "Fußball"),
        ("\ufeffIch\u200b bin", "Ich bin"),
        ("»Hallo«, sagte er.", "„Hallo“, sagte er."),
        ("«Hallo», sagte er.", "„Hallo“, sagte er."),
        ("Er sagte ›ja‹.", "Er sagte 'ja'."),
    ],
)
def test_typography_is_read_as_what_it_means(line: str, expected: str) -> None:
    """A model without guillemets in its vocabulary translated »Hallo« to "Elderly manage"."""
    assert readable(line, LETTERS) == expected
    assert readable(line, LETTERS | {*"«»‹›"}) == line.translate({0xAD: "", 0xFEFF: "", 0x200B: ""})
