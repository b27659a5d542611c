"""What a German-English model copies: the share of names, numbers, addresses, emoji that survive.

    python -m benchmarks.copying [--model FOLDER] [--show]

There are 200 sentences: forty literals that must not change, each in five sentences. A literal
survives if the translation contains it exactly, as often as the source does.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from tasks.translation.predict import Translator

SENTENCES = {
    "names": (
        "Ich heiße {}.",
        "Kennst du {}?",
        "Gestern habe ich {} im Park getroffen.",
        "{} spielt mit einem kleinen Hund.",
        "Sag {}, dass wir um acht Uhr kommen.",
    ),
    "numbers": (
        "Die Nummer ist {}.",
        "Auf dem Trikot des Mannes steht {}.",
        "Bitte merk dir {}.",
        "Das Kind schreibt {} an die Tafel.",
        "Warum steht hier {} und nicht etwas anderes?",
    ),
    "addresses": (
        "Mehr dazu unter {}.",
        "Schreib mir bitte an {}.",
        "Ich habe es auf {} gefunden.",
        "{} funktioniert heute nicht.",
        "Die Frau liest {} auf dem Bildschirm.",
    ),
    "other characters": (
        "Guten Morgen {}",
        "Der Hund rennt am Strand. {}",
        "Auf dem Schild steht {}.",
        "Was bedeutet {}?",
        "{} Danke für das Geschenk!",
    ),
}
LITERALS = {
    "names": "Anna Tom Müller Giulia Krzysztof Nguyen O'Brien Saint-Exupéry Wróblewski Xanthippe",
    "numbers": "7 42 1987 3,14 12.500 18:30 24.12.2025 +49 0170-4455667 99%",
    "addresses": "https://www.example.com http://example.org/a/b?c=1 www.hallo-welt.de t.me/abc"
    " info@example.com anna.schmidt@firma.de max_99@mail.co.uk https://de.wikipedia.org/wiki/Hund"
    " ftp://files.example.net @transformer",
    "other characters": "🙂 👍🏽 👨‍👩‍👧 ❤️ 🐕🎾 Привет 東京 안녕 Ελλάδα שלום",
}


def sources() -> Iterator[tuple[str, str, str]]:
    """Yields kind, literal and sentence."""
    for kind, frames in SENTENCES.items():
        for literal in LITERALS[kind].split():
            for frame in frames:
                yield kind, literal, frame.format(literal)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--model", help="a checkpoint folder; else the shipped model")
    parser.add_argument("--show", action="store_true", help="print what does not survive")
    options = parser.parse_args()
    rows = [*sources()]
    translations = Translator.load(options.model).translate([text for *_, text in rows])
    survived: dict[str, list[bool]] = {kind: [] for kind in SENTENCES}
    for (kind, literal, text), translation in zip(rows, translations, strict=True):
        survived[kind].append(translation.count(literal) == text.count(literal))
        if options.show and not survived[kind][-1]:
            print(f"{text}\n    {translation}")
    for kind, results in survived.items():
        print(f"{kind:20}{sum(results):4} of {len(results)}")
    total = [result for results in survived.values() for result in results]
    print(f"{'all':20}{sum(total):4} of {len(total)}")


if __name__ == "__main__":
    main()
