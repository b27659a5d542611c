"""How often the terms of a glossary arrive, and whether the rest of the sentence is unharmed.

    python -m benchmarks.glossary_terms [--model FOLDER] [--show]

``glossary/terms.tsv`` has forty terms: names of products, and words that a house translates in one
way. ``glossary/sentences.tsv`` has five sentences with each of them, with the translation that a
person would expect. A term has arrived if its translation stands in the output once. BLEU of the
rest is that of outputs and references without the translations of terms.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path

from sacrebleu import BLEU

from tasks.translation.evaluate import score
from tasks.translation.placeholders import Glossary, read_glossary
from tasks.translation.predict import Translator

FOLDER = Path(__file__).with_name("glossary")


def has_once(text: str, term: str) -> bool:
    """Returns whether a term, with capitals or without, stands in a text once."""
    return len(re.findall(rf"(?<!\w){re.escape(term)}(?!\w)", text, re.IGNORECASE)) == 1


def without(term: str, text: str) -> str:
    """Returns a text without a term."""
    return " ".join(re.sub(rf"(?<!\w){re.escape(term)}(?!\w)", " ", text, flags=re.I).split())


def figures(outputs: Sequence[str], references: Sequence[str], terms: Sequence[str]) -> str:
    """Returns a line with the terms that arrived, BLEU, and BLEU of the rest."""
    arrived = sum(map(has_once, outputs, terms))
    rest = [list(map(without, terms, texts)) for texts in (outputs, references)]
    bleu, signature = score(BLEU(), outputs, references)
    of_rest = score(BLEU(), *rest)[0]
    return (
        f"{arrived} of {len(terms)} terms, BLEU {bleu:.1f}, of the rest {of_rest:.1f} ({signature})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", help="A checkpoint folder; by default the model that ships.")
    parser.add_argument("--show", action="store_true", help="Print the sentences without the term.")
    options = parser.parse_args()
    glossary = read_glossary(FOLDER / "terms.tsv")
    lines = (FOLDER / "sentences.tsv").read_text("utf-8").splitlines()
    sources, references = zip(*(line.split("\t") for line in lines), strict=True)
    found = Glossary(glossary)
    terms = [found.translation(found.split(source)[1]) for source in sources]
    translator = Translator.load(options.model, device="cpu")
    plain = translator.translate(sources)
    outputs = translator.translate(sources, glossary=glossary)
    print("without a glossary:", figures(plain, references, terms))
    print("with it:           ", figures(outputs, references, terms))
    if options.show:
        for source, output, term in zip(sources, outputs, terms, strict=True):
            if not has_once(output, term):
                print(term, source, output, sep="\t")


if __name__ == "__main__":
    main()
