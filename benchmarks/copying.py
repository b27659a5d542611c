"""What a German-English model copies: the share of names, numbers, addresses, emoji that survive.

    python -m benchmarks.copying [--model FOLDER] [--show]

There are two sets of 200 sentences: in each, forty literals that must not change, each in five
sentences. A literal survives if the translation contains it exactly, as often as the source does.
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


SETS = {
    "first": (SENTENCES, LITERALS),
    "second": (
        {
            "names": (
                "Am Montag hat {} Geburtstag.",
                "Hast du mit {} schon gesprochen?",
                "Der Brief an {} liegt auf dem Schreibtisch.",
                "Wir gratulieren {} zur bestandenen Prüfung!",
                "{} wohnt seit einem Jahr in unserem Haus.",
            ),
            "numbers": (
                "Die Antwort lautet {}.",
                "Auf der Rechnung steht {}.",
                "Sein Passwort endet mit {}.",
                "Können Sie {} noch einmal wiederholen?",
                "Mit {} haben wir nicht gerechnet.",
            ),
            "addresses": (
                "Bitte melden Sie sich unter {} an.",
                "Alle Termine stehen auf {}.",
                "Fragen beantworten wir gern: {}",
                "Leider ist {} zurzeit nicht erreichbar.",
                "Kennst du {}?",
            ),
            "other characters": (
                "Schönes Wochenende {}",
                "Wir haben gewonnen! {}",
                "Mein Nachbar schreibt {} an die Tür.",
                "Wie spricht man {} aus?",
                "{} Bis morgen im Büro.",
            ),
        },
        {
            "names": "Lena Okonkwo Çelik Jürgensen Szczepański McAllister d'Artagnan Đorđević Zhang"
            " Leutheusser-Schnarrenberger",
            "numbers": "613 10115 2031 08:15 A380 1/4 65% 5.3.1 H2O 0221/5550199",
            "addresses": "https://www.stadt-beispiel.de/termine www.example.net example.at"
            " http://test.example.com:8080 bit.ly/3xYz kontakt@praxis-beispiel.de"
            " a.b.c@example.co.uk svenja_k@post.example.org #feierabend @stadtwerke_test",
            "other characters": "😂 🎉🎉 🙋🏻‍♀️ ☕ 🇩🇪 Спасибо 北京 ありがとう Αθήνα مرحبا",
        },
    ),
}
"""The sentences and the literals of each set, by kind."""


def sources(name: str) -> Iterator[tuple[str, str, str]]:
    """Yields kind, literal and sentence of the set ``name``."""
    sentences, literals = SETS[name]
    for kind, frames in sentences.items():
        for literal in literals[kind].split():
            for frame in frames:
                yield kind, literal, frame.format(literal)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--model", help="a checkpoint folder; else the shipped model")
    parser.add_argument("--show", action="store_true", help="print what does not survive")
    options = parser.parse_args()
    translator = Translator.load(options.model)
    for name in SETS:
        rows = [*sources(name)]
        translations = translator.translate([text for *_, text in rows])
        survived: dict[str, list[bool]] = {kind: [] for kind, *_ in rows}
        for (kind, literal, text), translation in zip(rows, translations, strict=True):
            survived[kind].append(translation.count(literal) == text.count(literal))
            if options.show and not survived[kind][-1]:
                print(f"{text}\n    {translation}")
        print(f"{name} set")
        for kind, results in survived.items():
            print(f"{kind:20}{sum(results):4} of {len(results)}")
        total = [result for results in survived.values() for result in results]
        print(f"{'all':20}{sum(total):4} of {len(total)}")


if __name__ == "__main__":
    main()
