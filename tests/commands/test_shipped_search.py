"""Searches with the shipped models: real sentences, in any batch, of any length."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tasks.translation.predict import Translator
from tests.commands.command_line import lines_of

GERMAN = [
    "Ein Hund rennt am Strand.",
    "",
    "Zwei Kinder spielen im Schnee und lachen. Eine Frau liest ein Buch.",
    "Ein Mann in einem blauen Hemd steht auf einer Leiter und putzt ein Fenster.",
]


@cache
def translator() -> Translator:
    return Translator.load(device="cpu")


@pytest.fixture(scope="module")
def sentences(shared_data: Path) -> list[str]:
    """Returns the thousand test sentences, every tenth one first."""
    path = shared_data / "multi30k" / "test_2016_flickr.de"
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line for start in range(10) for line in lines[start::10]]


def in_groups(texts: Sequence[str], size: int, **options: Any) -> list[str]:
    """Returns the translations of ``texts``, ``size`` of them per call."""
    groups = (texts[start : start + size] for start in range(0, len(texts), size))
    return [text for group in groups for text in translator().translate(group, **options)]


GREEDY: dict[str, Any] = {"beam_size": 1}


@pytest.mark.parametrize(
    ("count", "options"),
    [
        (60, GREEDY),
        (16, {}),
        pytest.param(400, GREEDY, marks=pytest.mark.figures),
        pytest.param(60, {}, marks=pytest.mark.figures),
    ],
)
def test_a_translation_does_not_depend_on_its_batch(
    count: int, options: dict[str, Any], sentences: list[str]
) -> None:
    """Each sentence is translated in three batches: in large ones, in small ones, and a third time.

    The third time, some sentences are alone in a call, some are alone in a batch, some are in a
    call with 6 others, and some in a call with 63 others.
    """
    texts = sentences[:count]
    expected = translator().translate(texts, **options)
    assert len(set(expected)) > 0.9 * count
    assert translator().translate(texts, batch_tokens=300, **options) == expected
    alone = min(50, count // 4)
    middle = alone + count // 2
    found = [
        *in_groups(texts[:alone], 1, **options),
        *translator().translate(texts[alone : 2 * alone], batch_tokens=1, **options),
        *in_groups(texts[2 * alone : middle], 7, **options),
        *in_groups(texts[middle:], 64, **options),
    ]
    assert found == expected


def test_samples_do_not_depend_on_their_batch(sentences: list[str]) -> None:
    options = {"sample": True, "top_p": 0.95, "n_best": 2}
    drawn, apart = (
        translator().translate_scored(sentences[:12], seed=1, batch_tokens=size, **options)
        for size in (3000, 100)
    )
    assert [[one.text for one in found.hypotheses] for found in drawn] == [
        [one.text for one in found.hypotheses] for found in apart
    ]
    other = translator().translate(sentences[:12], seed=2, **options)
    assert sum(a != b.text for a, b in zip(other, drawn, strict=True)) > 6


def test_a_text_is_no_less_familiar_for_what_it_keeps() -> None:
    """Placeholders made every text with an address or a term of a glossary unfamiliar."""
    texts = ["Ich habe einen BMW gekauft.", "Schreib mir bitte an <anna@beispiel.de>."]
    results = Translator.load(device="cpu").translate_scored(texts, glossary={"gekauft": "bought"})
    assert all(result.familiarity > 0.3 and result.confidence > 0.5 for result in results)
    assert results[1].text.endswith(" <anna@beispiel.de>.")


def test_couplets_are_the_best_of_ranked_candidates() -> None:
    (plain,) = lines_of("couplet", "夏夜乘凉数星斗")
    ranked = [line.split("\t") for line in lines_of("couplet", "--candidates", 3, "夏夜乘凉数星斗")]
    assert [row[1] for row in ranked] == ["1", "2", "3"]
    scores = [float(row[2]) for row in ranked]
    assert scores == sorted(scores, reverse=True)
    assert plain == ranked[0][3]
    (found,) = lines_of("couplet", "--beam", 5, "夏夜乘凉数星斗")
    assert found not in (plain, "")


def test_very_long_and_empty_texts(sentences: list[str], tmp_path: Path) -> None:
    words = " ".join(sentences).split()[:1000]
    source = tmp_path / "in.txt"
    source.write_text(f"{' '.join(words)}\n\n{GERMAN[0]}\n", encoding="utf-8")
    command = ("translate", "--beam", 2, "--input", source)
    best = [line.split("\t") for line in lines_of(*command, "--n-best", 2, has_notes=True)]
    assert [number for number, *_ in best] == ["1", "1", "2", "3", "3"]
    assert len(best[0][2].split()) > 800
    assert best[0][2] != best[1][2]
    assert best[2][1:] == ["0.0000", ""]
    assert best[3][2] == "A dog runs on the beach."
