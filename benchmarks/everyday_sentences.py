#!/usr/bin/env python3
"""Translates everyday sentences and shows which translations a reader judged right.

The sentences are in ``everyday/sentences.tsv``, with the translation that a person would expect.
None of them, in either language, is a line of the training corpora. There are three sets of fifty.
The second and the third have what people write: mail, recipes, reviews, news, and lines of two
sentences; their column ``must`` lists what a translation has to say. The second was written before
the models that it compares were trained, but writers of later training pairs were given its kinds
of text. So a writer who knew neither the models nor the first two sets wrote the third.

A judgment belongs to a sentence and one translation of it, whichever model made it:
``everyday/judgments.tsv`` has the columns german, translation, verdict ("right" or "wrong") and
reason. A translation is right if a reader of English who does not see the German understands what
the German says, without a serious error of grammar; in the later sets, it also says everything
that the column ``must`` lists, and nothing that contradicts the German. American and British
words, 12- and 24-hour times, and notations of numbers are equal. The reader does not know which
model a translation is from. Translations without a judgment are printed with "?".

    python -m benchmarks.everyday_sentences --model FOLDER
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from tasks.commands.options import PATH
from tasks.translation.predict import Translator

FOLDER = Path(__file__).with_name("everyday")


def read_table(path: Path) -> list[dict[str, str]]:
    """Returns the rows of a table of tab-separated values with a header."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def read_judgments() -> dict[tuple[str, str], str]:
    """Returns the verdict for each judged pair of a sentence and its translation."""
    rows = read_table(FOLDER / "judgments.tsv")
    return {(row["german"], row["translation"]): row["verdict"] for row in rows}


def judge(
    sources: Sequence[str],
    translations: Sequence[str],
    judgments: Mapping[tuple[str, str], str],
) -> list[str]:
    """Returns one verdict for each translation: "right", "wrong", or "?" without a judgment."""
    pairs = zip(sources, translations, strict=True)
    return [judgments.get(pair, "?") for pair in pairs]


@click.command()
@click.option("--model", type=PATH, help="A checkpoint folder; by default the model that ships.")
def main(model: Path | None) -> None:
    rows = read_table(FOLDER / "sentences.tsv")
    sources = [row["german"] for row in rows]
    translations = Translator.load(model, device="cpu").translate(sources)
    verdicts = judge(sources, translations, read_judgments())
    counts: dict[str, Counter[str]] = {}
    for row, verdict, translation in zip(rows, verdicts, translations, strict=True):
        print(verdict, row["german"], translation, sep="\t")
        counts.setdefault(row["set"], Counter())[verdict] += 1
    for name, of_set in counts.items():
        of_all = f"of {of_set.total()} right"
        print(f"set {name}: {of_set['right']} {of_all}, {of_set['?']} not judged")


if __name__ == "__main__":
    main()
