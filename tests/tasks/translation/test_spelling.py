"""How lines are read: capitals and typography, with the vocabulary of the shipped model."""

from pathlib import Path

import pytest

from data.codec import TextCodec
from data.tokenizers import Whitespace
from tasks.runs.checkpoint_folder import PRETRAINED
from tasks.translation.placeholders import known_letters
from tasks.translation.spelling import readable, usual_case

LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZäöüß0123456789.,:/@-„“\"'")


@pytest.fixture(scope="module")
def codec() -> TextCodec:
    return TextCodec.load(Path(PRETRAINED, "translation"), tokenizer="sentencepiece")


@pytest.mark.parametrize(
    ("line", "usual"),
    [
        ("WO IST DER SCHLÜSSEL FÜR DAS AUTO?", "Wo ist der Schlüssel für das Auto?"),
        ("ICH HABE HEUTE KEINE ZEIT.", "Ich habe heute keine Zeit."),
        ("HALT! DER ZUG KOMMT. ER IST DA.", "Halt! Der Zug kommt. Er ist da."),
        ("- DAS WETTER", "- Das Wetter"),
        ("Der HUND", "Der HUND"),
        ("DHL", "DHL"),
        ("B 12, A 7", "B 12, A 7"),
        ("", ""),
        ("DAS GELD AUF DE89370400440532013000.", "Das Geld auf DE89370400440532013000."),
        ("(HTTPS://GROSS.DE/ABC-X) IST DA", "(HTTPS://GROSS.DE/ABC-X) ist da"),
        ("anna@firma.de IST DAS HAUS", "anna@firma.de ist das Haus"),
        ("DIE NATO, DIE USA UND DIE EU", "Die NATO, die USA und die EU"),
        ("DIE AFD, DIE LKWS DER GMBH", "Die AfD, die LKWs der GmbH"),
    ],
)
def test_capitals(line: str, usual: str, codec: TextCodec) -> None:
    """Addresses and account numbers lost their capitals, and NATO became Nato."""
    assert usual_case(line, codec, known_letters(codec)) == usual


def test_other_tokenizers_read_the_line_as_it_is(codec: TextCodec) -> None:
    plain = TextCodec(Whitespace(), codec.vocabulary)
    assert usual_case("ICH HABE ZEIT", plain, None) == "ICH HABE ZEIT"


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
