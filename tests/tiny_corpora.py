"""Corpora that a test can write in no time and a tiny model can learn something from."""

import random
from collections.abc import Iterable
from itertools import product
from pathlib import Path

_SUBJECTS = {
    "Ein Hund": "A dog",
    "Eine Frau": "A woman",
    "Ein Kind": "A child",
    "Ein Mann": "A man",
    "Eine Katze": "A cat",
    "Ein Junge": "A boy",
}
_VERBS = {"sieht": "sees", "sucht": "looks for", "malt": "paints", "hört": "hears"}
_OBJECTS = {
    "einen Ball": "a ball",
    "ein Haus": "a house",
    "einen Vogel": "a bird",
    "das Meer": "the sea",
    "die Straße": "the street",
    "einen Freund": "a friend",
    "das Boot": "the boat",
    "ein Fahrrad": "a bicycle",
}
_TOPICS = {
    "World": "minister election border treaty embassy president talks army",
    "Sports": "goal coach season league striker final medal tournament",
    "Business": "shares profit bank market merger oil prices investors",
}
_CHARACTERS = "天地山水花月风云春秋日夜江河松竹红绿高深来去开落一千万里家国人心"


def write_translation(folder: Path) -> Path:
    """192 sentence pairs: 160 train, 16 val, 16 test_tiny."""
    pairs = [
        tuple(" ".join(words) + "." for words in zip(*parts, strict=True))
        for parts in product(_SUBJECTS.items(), _VERBS.items(), _OBJECTS.items())
    ]
    random.Random(1).shuffle(pairs)
    for name, part in (("train", pairs[32:]), ("val", pairs[:16]), ("test_tiny", pairs[16:32])):
        for language, lines in zip(("de", "en"), zip(*part, strict=True), strict=True):
            _write(folder / f"{name}.{language}", lines)
    return folder


def write_classification(folder: Path) -> Path:
    """150 labeled rows in three classes, 120 in train.csv and 30 in test.csv."""
    generator = random.Random(1)
    rows = []
    for number in range(150):
        label = number % len(_TOPICS)
        words = list(_TOPICS.values())[label].split()
        title, text = (" ".join(generator.sample(words, size)) for size in (3, 6))
        rows.append(f'"{label + 1}","{title}","{text}."')
    _write(folder / "train.csv", rows[30:])
    _write(folder / "test.csv", rows[:30])
    _write(folder / "classes.txt", _TOPICS)
    return folder


def write_couplet(folder: Path) -> Path:
    """160 couplets of four, five or seven characters: 128 train, 16 val, 16 test."""
    generator = random.Random(1)

    def line(length: int) -> str:
        return " ".join(generator.sample(_CHARACTERS, length))

    pairs = [(line(length), line(length)) for length in generator.choices((4, 5, 7), k=160)]
    for name, part in (("train", pairs[32:]), ("val", pairs[:16]), ("test", pairs[16:32])):
        for side, lines in zip(("in", "out"), zip(*part, strict=True), strict=True):
            _write(folder / name / f"{side}.txt", lines)
    return folder


WRITERS = {
    "translation": write_translation,
    "classification": write_classification,
    "couplet": write_couplet,
}


def _write(path: Path, lines: Iterable[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
