"""Splitting texts: at sentences first, never inside a sentence that fits, and without loss."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.translation.segments import encoded_segments, lines, sentences


@pytest.mark.parametrize(
    "expected",
    [
        ["Ein Hund rennt."],
        ["Ein Hund rennt. ", "Zwei Kinder spielen. ", "Ein Mann liest."],
        ["Was ist das? ", "Ein Hund! ", "Wirklich?! ", "Ja… ", "Nein."],
        ["Er rief: „Komm her!“ ", "Dann ging er."],
        ["Ein Satz.\n\n", "  Noch einer.".strip()],
        ["Das war 2004. ", "Danach kam nichts."],
        ["狗在跑。", "猫在看！", "他说：“好。”", "完"],
        ["Ein Satz. ", "„Noch einer.“ ", "(Und der.) ", "Schluss"],
    ],
)
def test_sentences_are_told_apart(expected: list[str]) -> None:
    assert sentences("".join(expected)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "Vor dem Haus von Dr. Müller steht Prof. Schmidt, geb. Maier.",
        "Er zeigt ein Buch in der U.S. Armee, z. B. am 3. Mai.",
        "Kinder stehen bzw. sitzen ca. 5 m entfernt.",
        "Nach Art. 5 Abs. 2 zahlt die Fa. Müller, Bahnhofstr. 3, 50 Euro inkl. MwSt.",
        "auf dem E.S.E. Electronics steht",
        "Das kostet 3.50 Euro bei example.com.Shop",
        "Er sagte nichts ... und ging.",
        "Er ging.  und kam",
        "das 20. Jahrhundert",
        "nur ein Satz.   ",
        "",
        "...",
    ],
)
def test_a_dot_is_not_always_an_end(text: str) -> None:
    assert sentences(text) == ([text] if text else [])


anything = st.text(st.sampled_from(" \t\n\u3000\u2028aHund.,;!?…。！，”\"'3"), max_size=60)


def characters(text: str) -> list[int]:
    return [ord(character) for character in text if not character.isspace()]


@given(text=anything, size=st.integers(1, 9))
def test_the_segments_are_the_whole_text(text: str, size: int) -> None:
    assert "".join(sentences(text)) == text
    segments = encoded_segments(text, characters, size)
    of_lines = "".join(line for _, line in lines(text))
    assert [i for segment in segments for i in segment] == characters(of_lines)
    assert all(0 < len(segment) <= size for segment in segments)


@given(text=anything)
def test_a_sentence_that_fits_is_one_segment(text: str) -> None:
    segments = encoded_segments(text, characters, 60)
    expected = [sentence for _, line in lines(text) for sentence in sentences(line)]
    assert segments == [ids for ids in map(characters, expected) if ids]


@pytest.mark.parametrize(
    "text", ["a" * 300_000, "." * 300_000, "a." * 150_000, '."' * 150_000, ". " * 150_000]
)
def test_endless_texts_are_split_in_no_time(text: str) -> None:
    """A search that tries again from every letter of a word would take hours for the first."""
    started = time.process_time()
    assert "".join(sentences(text)) == text
    assert time.process_time() - started < 5.0


@pytest.mark.parametrize(
    "expected",
    [
        [("", "Ein Hund rennt.")],
        [("- ", "Ein Hund rennt.")],
        [("", "3. Mai: ein Hund")],
        [("  - ", "Ein Hund rennt.")],
        [("\t", "Ein Hund rennt.")],
        [("a) ", "Ein Hund rennt.")],
        [("(12) ", "Ein Hund rennt.")],
        [("## ", "Hunde")],
        [("- [x] ", "Brot kaufen"), ("\n- [ ] ", "Milch kaufen"), ("\n", "#Hund")],
        [("– ", "Wer ist da?"), ("\n– ", "Ich.")],
        [("", "Zutaten:"), ("\n  * ", "Mehl"), ("\n  * ", "Zucker"), ("\n\n", "Fertig.")],
        [("1. ", "Hunde"), ("\n2) ", "Katzen"), ("\n(a) ", "weiße"), ("\nb) ", "graue")],
        [("> > ", "Er kam."), ("\n> ", "Wann?"), ("\r\n\r\n\t", "Gestern."), ("\n", "")],
        [("", "z. B. ein Hund"), ("\n", "-5 Grad und 3.5 Meter"), ("\n", "**fett**")],
    ],
)
def test_lines_begin_with_what_is_no_text(expected: list[tuple[str, str]]) -> None:
    assert lines("".join(start + line for start, line in expected)) == expected


@given(st.text("a-*>1.) \n\r\t", max_size=30))
def test_lines_are_the_whole_text(text: str) -> None:
    joined = "".join(start + line for start, line in lines(text))
    single = re.sub(r"\A\s*[\r\n]", "", text.rstrip())  # with its indentation
    assert joined == (text if {*"\r\n"} & {*text.strip()} else single)


@pytest.mark.parametrize(
    "unit", ["- ", "\n", "> ", "1. ", "\r\n - ", "a\n", "(a) ", " ", "# ", "[x] "]
)
def test_hostile_lines_take_linear_time(unit: str) -> None:
    start = time.process_time()
    lines(unit * 100_000)
    assert time.process_time() - start < 5.0
