"""Lines in capitals become readable, with the vocabulary of the shipped model."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.codec import TextCodec
from data.tokenizers import Whitespace
from tasks.runs.checkpoint_folder import PRETRAINED
from tasks.translation.capitals import usual_case, with_capitals


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
    ],
)
def test_capitals(line: str, usual: str, codec: TextCodec) -> None:
    assert usual_case(line, codec) == usual


def test_other_tokenizers_read_the_line_as_it_is(codec: TextCodec) -> None:
    plain = TextCodec(Whitespace(), codec.vocabulary)
    assert usual_case("ICH HABE ZEIT", plain) == "ICH HABE ZEIT"


@given(st.text(alphabet="aß1_. !?…\n-", max_size=12))
def test_every_sentence_begins_with_a_capital(text: str) -> None:
    """The search began anew at every mark: twice as many marks took four times as long."""
    first = re.compile(r"(?:\A|(?<=[.!?…] ))\W*[^\W\d_]")
    assert with_capitals(text) == first.sub(lambda match: match[0].upper(), text)
