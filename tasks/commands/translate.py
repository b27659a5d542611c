"""``translate``: German texts into English, or whatever pair of languages a model has."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from tasks.commands import parameters
from tasks.commands.answering import search_and_answer
from tasks.commands.options import PATH
from tasks.seq2seq.request import GenerationRequest

if TYPE_CHECKING:
    from tasks.translation.predict import Translation

_MOST_NUMBERS = 20


@click.command()
@parameters.texts
@parameters.text
@parameters.layout
@parameters.models
@parameters.output
@parameters.search
@parameters.length
@parameters.engine
@parameters.from_fields(GenerationRequest, "translation")
@click.option(
    "--glossary",
    "glossary_file",
    type=PATH,
    metavar="FILE",
    help="Terms with fixed translations: a term, a tab and its translation a line.",
)
def translate(**options: Any) -> None:
    """Translate each TEXT; the shipped model translates German into English.

    Without TEXT, or with "-", every line of standard input is a text. The results are printed one
    per line, in the order of the input; an empty line stays empty. Put "--" before a text that
    begins with a dash. With --n-best N, each text has up to N lines: its number (from 1), the score
    and the translation, separated by tabs. Texts are translated sentence by sentence; limits on the
    length hold for each sentence.

    With --text, --input is a table (CSV, TSV, JSON Lines or .xlsx). The output is the same table
    with the column "translation".

    With --json, "confidence" is the probability that the translation is good, and "familiarity"
    says how like the training data the text is (0 to 1; below 0.05 it is unlike them), if the model
    has been calibrated (models calibrate). "doubtful" translations, of a confidence below 0.4, are
    probably wrong. Standard error has the numbers of their lines, and says how many lines are
    unlike the training data.

    \b
        translate "Ein Hund rennt." "Zwei Kinder lachen."
        translate --input german.txt --output english.txt
        translate --input my.csv --text body --output out.csv
        translate --n-best 3 --diverse 0.5 "Ein Hund rennt."
        translate --sample --top-p 0.9 --seed 7 "Ein Hund rennt."
    """
    from core.progress import log
    from tasks.familiarity import is_unfamiliar
    from tasks.translation.placeholders import read_glossary

    doubtful: list[int] = []

    def categories(number: int, line: str, result: "Translation") -> Iterator[str]:
        """Yields what a line counts as in :func:`notes`."""
        if line.strip():
            yield "lines"
        if is_unfamiliar(result.familiarity):
            yield "unfamiliar"
        if result.segments == 0 and any(map(str.isalpha, result.text)):
            yield "kept"
        if result.is_doubtful:
            doubtful.append(number + 1)

    glossary = options.pop("glossary_file")
    options["glossary"] = None if glossary is None else read_glossary(glossary)
    counts = search_and_answer(
        "translation",
        lambda line, result: [result.text],
        options,
        column="translation",
        categories=categories,
    )
    for note in notes(counts, doubtful):
        log(note)


def notes(counts: Mapping[str, int], doubtful: Sequence[int]) -> Iterator[str]:
    """Yields notes on a run, from counts of lines by category and numbers of doubtful lines."""
    from tasks.familiarity import unfamiliar_note
    from tasks.translation.confidence import DOUBTFUL

    total, unlike, kept = counts["lines"], counts["unfamiliar"], counts["kept"]
    if note := unfamiliar_note(unlike, total):
        yield note
    if kept:
        yield (
            f"{kept:,} of {total:,} lines stay as they are: in the target language already "
            "(--no-pass-through translates them), or in letters that the model does not know"
        )
    if doubtful:
        first = ", ".join(map(str, doubtful[:_MOST_NUMBERS]))
        more = len(doubtful) - _MOST_NUMBERS
        numbers = f"{first} and {more:,} more" if more > 0 else first
        yield f"probably wrong (confidence below {DOUBTFUL}): line {numbers}"
