"""The recipe of the training corpora: what it leaves out, and what it makes of other pairs."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from benchmarks.translation_distillation import LINES
from benchmarks.translation_mixture import GROUPS, RECIPE, WRITTEN, Filter, Names, fault, sentences
from tasks.runs.config import make_config
from tasks.task import task_named


@pytest.mark.parametrize(
    ("german", "english", "expected"),
    [
        ("Die war will hat.", "The war will hat.", ""),  # words of both languages
        ("Der Hund schläft auf dem Sofa.", "The dog is asleep on the sofa.", ""),
        ("...", "Yes.", "no words"),
        ("Hotel", "hotel", ""),
        ("Guten Tag, Welt!", "guten Tag Welt", "equal sides"),
        ("<b>Name</b> {0} = %s", "<b>Names</b> {0} = %s", "markup"),
        ("Ja, das ist es.", "Yes, that is what he said to all of us yesterday.", "length"),
        ("He said that it would be fine.", "Er sagte, dass es gut wird.", "language"),
    ],
)
def test_a_pair_that_teaches_nothing_good_has_a_fault(
    german: str, english: str, expected: str
) -> None:
    assert fault(german, english) == expected


def test_a_filter_keeps_each_pair_once_and_none_that_is_held_out() -> None:
    chosen = Filter(frozenset({"wiegehtes"}))
    pairs = [("Ja.", "Yes."), ("Ja!", "yes"), ("Wie geht es?", "How are you?"), ("Ja.", "Yeah.")]
    assert [*chosen.good("set", pairs)] == [("Ja.", "Yes."), None, None, ("Ja.", "Yeah.")]
    assert chosen.counts["set"] == {"": 2, "twice": 1, "held out": 1}


@pytest.fixture
def names(tmp_path: Path) -> Names:
    lists = {
        "first_names_male.txt": "Jürgen",
        "first_names_female.txt": "Wiebke",
        "surnames.txt": "Häring",
        "german_cities.txt": "Kiel",
        "places_languages_currencies.tsv": "Ungarn\tHungary\tiso_3166-1",
    }
    for name, line in lists.items():
        (tmp_path / name).write_text(line + "\n", encoding="utf-8")
    return Names(tmp_path, random.Random(1))


def test_names_are_the_same_on_both_sides(names: Names) -> None:
    for _ in range(20):
        german, english = names.filled(("Ich sah Tom.", "I saw Tom.")) or ("", "")
        assert german.removeprefix("Ich sah ") == english.removeprefix("I saw ")
        assert german in ("Ich sah Jürgen.", "Ich sah Häring.", "Ich sah Jürgen Häring.")


def test_a_place_has_its_name_in_either_language(names: Names) -> None:
    found = {names.filled(("Er lebt in Boston.", "He lives in Boston.")) for _ in range(20)}
    assert found == {
        ("Er lebt in Kiel.", "He lives in Kiel."),
        ("Er lebt in Ungarn.", "He lives in Hungary."),
    }


def test_news_loses_its_markup_and_its_agency() -> None:
    text = (
        "ROME (Reuters) - The bank #39;s profit fell\\by 3%. It &lt;b&gt;closed&lt;/b&gt; at noon."
    )
    assert sentences(text) == ["The bank's profit fell by 3%.", "It closed at noon."]


@pytest.mark.parametrize("path", sorted(RECIPE.glob("*.toml")), ids=lambda path: path.stem)
def test_each_stage_of_the_recipe_is_a_configuration(path: Path) -> None:
    config = make_config(task_named("translation"), config_file=path)
    made = {*GROUPS, "names", "neighbors", "copies", "vocabulary", *WRITTEN}
    made |= {"bt_news", "bt_captions"}
    made |= {f"{name}_distilled" for name in LINES}
    assert {Path(extra.path).name for extra in config.data.extra} <= made
    assert path.stem in ("reverse", "written", "large_batches") or config.data.tags == ["bt"]
