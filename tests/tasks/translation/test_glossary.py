"""A user's own terms arrive as the user wants them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core.errors import ConfigError, CorpusError
from tasks.translation.placeholders import (
    FALLBACK,
    PLACEHOLDERS,
    Glossary,
    read_glossary,
    restored,
    with_placeholders,
)
from tasks.translation.predict import Translator
from tests.commands.command_line import error_of, run
from tests.tasks.tiny_models import untrained_translator
from tests.tasks.translation.test_placeholders import LETTERS, Reading, reads, translator

__all__ = ["reads", "translator"]  # fixtures

FIRST, SECOND, *_ = PLACEHOLDERS
TERMS = {"Roter Hund": "Red Dog", "Hund": "Dog One", "C++": "C plus plus", "Straße": "Baker Street"}


@pytest.mark.parametrize(
    ("sentence", "read", "terms"),
    [
        ("Der Hund rennt.", f"Der {FIRST} rennt.", ["Dog One"]),
        ("Ein roter  Hund, ein HUND!", f"Ein {FIRST}, ein {SECOND}!", ["Red Dog", "Dog One"]),
        ("Hunde und https://hund.de/Hund", f"Hunde und {FIRST}", ["https://hund.de/Hund"]),
        ("(Hund) a@b.de", f"({FIRST}) {SECOND}", ["Dog One", "a@b.de"]),
        ("Hund-Haus, Haus.Hund, Hund.", f"Hund-Haus, Haus.Hund, {FIRST}.", ["Dog One"]),
        ("Die Straße, die STRASSE", f"Die {FIRST}, die STRASSE", ["Baker Street"]),
        ("Er kann C++.", f"Er kann {FIRST}.", ["C plus plus"]),
    ],
)
def test_terms_are_whole_words(sentence: str, read: str, terms: list[str]) -> None:
    text, literals = with_placeholders(sentence, LETTERS, Glossary(TERMS))
    assert text == read
    assert [literal.target for literal in literals.values()] == terms


def test_a_term_arrives_once_or_is_read_by_the_model(
    translator: Translator, reads: Callable[[Reading], list[str]]
) -> None:
    lost = {FIRST: "es", FALLBACK: "es"}
    read = reads(lambda text: [restored(text, lost) if "Siehe" in text else text])
    found = translator.translate(["Der Hund rennt.", "Siehe Hund"], glossary=TERMS)
    assert found == ["Der Dog One rennt.", "Siehe Hund"]
    assert read == [f"Der {FIRST} rennt.", f"Siehe {FIRST}", f"Siehe {FALLBACK}", "Siehe Hund"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"glossary": {"": "x"}}, "glossary must be texts of 1 to 200 characters, not ''"),
        ({"glossary": {"a": "x" * 201}}, "glossary must be texts of 1 to 200 characters"),
        ({"glossary": {"a": 1}}, "glossary must be texts of 1 to 200 characters, not 1"),
        ({"glossary": TERMS, "prefix": "Hund"}, "glossary cannot stand beside a prefix"),
        ({"glossary": TERMS, "placeholders": False}, "glossary needs placeholders"),
    ],
)
def test_what_cannot_be_done_is_refused(
    options: dict[str, Any], message: str, translator: Translator
) -> None:
    with pytest.raises(ConfigError, match=message):
        translator.translate("Hund", **options)


def test_it_needs_a_model_of_subwords(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="glossary needs placeholders, and a model of subwords"):
        untrained_translator(tmp_path).translate("Hund", glossary=TERMS)


def test_a_file_of_terms(tmp_path: Path) -> None:
    path = tmp_path / "terms.tsv"
    path.write_text("Hund\tDog One\n\n C++ \t C plus plus \n", encoding="utf-8")
    assert read_glossary(path) == {"Hund": "Dog One", "C++": "C plus plus"}
    for line in ("Hund", "Hund\t", "\tDog", "a\tb\tc", "Hund\tHound"):
        path.write_text(f"Hund\tDog\n{line}\n", encoding="utf-8")
        with pytest.raises(CorpusError, match=r"terms\.tsv:2: expected a term, a tab"):
            read_glossary(path)
    assert error_of(1, "translate", "--glossary", path, "Hund").startswith(f"error: {path}:2: ")


def test_the_command_has_a_glossary(in_tmp: Path) -> None:
    Path("terms.tsv").write_text("Strand\tBEACH X1\n", encoding="utf-8")
    command = ("translate", "--beam", 1, "--glossary", "terms.tsv", "--json")
    done = run(*command, "Ein Hund rennt am Strand.")
    assert json.loads(done.stdout)["translation"].count("BEACH X1") == 1
