"""The everyday sentences are no training data, and their judgments are of these sentences."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from benchmarks.everyday_sentences import FOLDER, judge, read_judgments, read_table
from benchmarks.translation_mixture import RECIPE, WRITTEN, held_out


def letters(text: str) -> str:
    """Returns the letters, digits and line breaks of a text, in lower case."""
    return re.sub(r"[^\w\n]+", "", text.lower())


OTHER_BYTES = bytes(set(range(256)) - set(b"abcdefghijklmnopqrstuvwxyz0123456789_\n"))


def lines_like(path: Path, texts: set[str]) -> Iterator[str]:
    """Yields the lines of a file that have the same ASCII letters as one of ``texts``.

    A hundred million bytes are compared five times as fast in this way.
    """
    content = path.read_bytes()
    keys = content.lower().translate(None, OTHER_BYTES).split(b"\n")
    wanted = {text.encode().translate(None, OTHER_BYTES) for text in texts}
    for key, line in zip(keys, content.split(b"\n"), strict=True):
        if key in wanted:
            yield line.decode()


IN_A_CORPUS = "ichhabeheutekeinezeit"
"""Of the first set, in a corpus that came later: the mixture leaves the pair out."""


def test_different_sentences_are_in_no_corpus(shared_data: Path) -> None:
    rows = read_table(FOLDER / "sentences.tsv")
    ours = {letters(row[language]) for row in rows for language in ("german", "english")}
    assert len(ours) == 2 * len(rows) == 300
    assert ours <= held_out(shared_data)
    corpora = [
        *(shared_data / "multi30k").glob("*.??"),
        *(shared_data / "multi30k_captions").glob("captions.??"),
        *(shared_data / "tatoeba").glob("*.??"),
        *(shared_data / "de_en").glob("*/*.??"),
    ]
    assert len(corpora) >= 16
    for path in corpora:
        found = ours.intersection(map(letters, lines_like(path, ours)))
        assert found <= ({IN_A_CORPUS} if path.parent.name == "tatoeba_challenge" else set()), path


def test_pairs_written_for_the_training_have_none_of_them() -> None:
    rows = read_table(FOLDER / "sentences.tsv")
    ours = {letters(row[language]) for row in rows for language in ("german", "english")}
    texts = [(RECIPE / f"{name}.tsv").read_text("utf-8") for name in WRITTEN]
    pairs = [line.split("\t") for text in texts for line in text.splitlines()]
    assert len({letters(german) for german, _ in pairs}) == len(pairs) > 30_000
    assert ours.isdisjoint(letters(side) for pair in pairs for side in pair)


def test_each_sentence_of_the_later_sets_has_a_list_of_what_must_be_said() -> None:
    rows = read_table(FOLDER / "sentences.tsv")
    assert [row["set"] for row in rows] == ["1"] * 50 + ["2"] * 50 + ["3"] * 50
    assert all(row["must"] for row in rows[50:])


def test_each_judgment_is_of_one_of_the_sentences() -> None:
    sources = {row["german"] for row in read_table(FOLDER / "sentences.tsv")}
    for (source, translation), verdict in read_judgments().items():
        assert source in sources
        assert translation and verdict in ("right", "wrong")


def test_only_the_judged_translation_gets_its_verdict() -> None:
    judgments = {("Ja.", "Yes."): "right", ("Ja.", "No."): "wrong"}
    sources, translations = ["Ja.", "Ja.", "Ja."], ["Yes.", "No.", "Yes!"]
    assert judge(sources, translations, judgments) == ["right", "wrong", "?"]
