#!/usr/bin/env python3
"""Builds the training corpora of the shipped German-English model, as folders for ``data.extra``.

    python -m benchmarks.translation_mixture --data FOLDER --out corpora

``FOLDER`` has ``multi30k``, ``tatoeba``, ``names``, ``ag_news`` and ``de_en``, a folder of many
sets with ``train.de`` and ``train.en`` each. Sets of one kind are joined (``GROUPS``), so that a
run gives each kind a weight. ``--data`` of a run is ``corpora/base``: idiomatic sentences of a
dictionary, and 1,500 pairs of four kinds to validate on. ``corpora/mixture.json`` counts what was
kept and what was left out, and why.

Left out are pairs that teach nothing good: sides of very different lengths, the wrong language,
markup, two equal sides, and every line that a test or validation set has, or one of the everyday
sentences. ``translation_recipe/written*.tsv`` have pairs that were written for this project, of
words and kinds of text that the other corpora hardly have. Three corpora are made of others: names
and places instead of Tatoeba's few ones, two or three neighboring sentences in one line, and
English news with itself as the source. The last one has the tag ``bt``. It shows the decoder how
news is written, and that names are copied (Currey et al. 2017). ``corpora/news.en`` has all of this
news, for back-translations, which take its place later.
"""

from __future__ import annotations

import csv
import html
import json
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import click

from benchmarks.everyday_sentences import FOLDER as EVERYDAY
from benchmarks.everyday_sentences import read_table

Pair = tuple[str, str]

RECIPE = Path(__file__).with_name("translation_recipe")
"""The configurations of the stages; the study in ``tasks/translation`` has the commands."""

GROUPS = {
    "everyday": ("tatoeba", "de_en/tatoeba_challenge", "de_en/tatoeba_pivot"),
    "base": ("de_en/ding_sentences",),
    "captions": ("multi30k",),
    "dialogue": (
        "de_en/xdailydialog",
        "de_en/chat_bcontrast",
        "de_en/chat_customer_service",
        "de_en/woz_restaurant",
        "de_en/cocoa_formality",
        "de_en/qa_questions",
        "de_en/questions_more",
    ),
    "news": ("de_en/newstest_2008_2012", "de_en/newstest_2013_2017"),
    "talks": ("de_en/ted_iwslt17_dev", "de_en/ted_recased"),
    "prose": ("de_en/xnli", "de_en/mucow_mixed", "de_en/mtgeneval", "de_en/wikipedia_postedit"),
    "films": ("de_en/film_dialogue_msctd", "de_en/film_subtitles_xed"),
    "novel": ("de_en/fiction_hpmor",),
    "web": ("de_en/wmt_mixed", "de_en/debian_news"),
    "odd": (
        "de_en/europarl_20k",
        "de_en/wesnoth",
        "de_en/games",
        "de_en/game_pixel_dungeon",
        "de_en/suttas",
        "de_en/essays_suttacentral",
    ),
    "software": (
        "de_en/debian_descriptions",
        "de_en/software_help",
        "de_en/ui_strings",
        "de_en/ui_more",
        "de_en/mozilla_web",
        "de_en/misc_github",
    ),
    "phrases": ("de_en/ding_phrases",),
    "words": ("de_en/ding_words",),
}
"""The sets of each folder that is written."""

IN_ORDER = (
    "de_en/newstest_2008_2012",
    "de_en/newstest_2013_2017",
    "de_en/ted_iwslt17_dev",
    "de_en/fiction_hpmor",
    "de_en/debian_news",
    "de_en/xdailydialog",
    "de_en/essays_suttacentral",
)
"""The sets in which a line follows the line before it in a text."""

HELD_OUT = (
    "multi30k/val",
    "multi30k/test_*",
    "tatoeba/val",
    "tatoeba/test",
    "de_en/newstest*/test",
    "de_en/ted_tst*/test",
)
"""The files that no training line may be in."""

WRITTEN = ("written", "written_more", "written_new", "written_further", "written_rare")
"""German sentences of mails, letters, chats, instructions, news and talks, and their English."""

VALIDATION = {
    "multi30k/val": 400,
    "tatoeba/val": 400,
    "de_en/newstest2018/test": 350,
    "de_en/ted_tst2013/test": 350,
}
"""How many pairs of each validation set a run validates on."""

VOCABULARY = {
    "base": 1.0,
    "captions": 2.0,
    "everyday": 0.4,
    "names": 0.2,
    "dialogue": 0.8,
    "news": 1.0,
    "talks": 0.9,
    "prose": 0.8,
    "films": 0.5,
    "novel": 0.4,
    "web": 0.4,
    "odd": 0.1,
    "software": 0.15,
    "phrases": 0.3,
    "words": 0.2,
}
"""The shares of the corpora that the vocabulary is built from, about those of an epoch.

A quarter of all pairs are of software or single words. A vocabulary of all pairs needs 10% more
tokens for captions and 2% more for news.
"""

NEIGHBORS_PER_SET = 6000
RANDOM_NEIGHBORS = 4000
NAMES = 60_000
COPIES = 60_000

# Words that only one of the two languages has. "war", "will", "die" and others are in both.
_GERMAN_WORDS = """
der das und ist nicht ich sie wir ein eine einen einer einem dem den des mit auf für von zu im es
sich auch wird werden sind haben bei oder wenn dass daß aus nach wie kann er zum zur als ihr du
mich dir keine mein sein
"""
_ENGLISH_WORDS = """
the and is not you he she we of to with on for from it that this are have has be if or as at by can
would your his their my which what who they been had there
"""
_GERMAN, _ENGLISH = frozenset(_GERMAN_WORDS.split()), frozenset(_ENGLISH_WORDS.split())
_WORD = re.compile(r"[^\W\d_]+")


def letters(text: str) -> str:
    """Returns the letters and digits of a text, in lower case."""
    return re.sub(r"\W+", "", text.lower())


def fault(german: str, english: str) -> str:
    """Returns why a pair is no good example, or "" for a good one."""
    words = [_WORD.findall(side.lower()) for side in (german, english)]
    sides = german, english
    if not all(words):
        return "no words"
    if letters(german) == letters(english) and len(words[0]) > 2:
        return "equal sides"
    for side in sides:
        signs = sum(not (c.isalnum() or c.isspace() or c in ".,;:!?'\"-()„“”‚‘’«»–") for c in side)
        if signs > 0.15 * len(side):
            return "markup"
    longer, shorter = sorted((len(german) + 10, len(english) + 10), reverse=True)
    if longer > 2.2 * shorter:
        return "length"
    for found, expected, other in zip(words, (_GERMAN, _ENGLISH), (_ENGLISH, _GERMAN), strict=True):
        others, own = (sum(word in known for word in found) for known in (other, expected))
        if len(found) >= 5 and others > own:
            return "language"
    return ""


def read_pairs(folder: Path, name: str) -> list[Pair]:
    """Returns the lines of ``name``.de and ``name``.en, without spaces at the ends."""
    texts = [(folder / f"{name}.{side}").read_text(encoding="utf-8") for side in ("de", "en")]
    german, english = (text.removesuffix("\n").split("\n") for text in texts)
    return [(de.strip(), en.strip()) for de, en in zip(german, english, strict=True)]


def held_out(data: Path) -> frozenset[str]:
    """Returns the letters of all lines that may not be in the training corpora."""
    rows = read_table(EVERYDAY / "sentences.tsv")
    lines = [row[side] for row in rows for side in ("german", "english")]
    for pattern in HELD_OUT:
        for side in ("de", "en"):
            for path in data.glob(f"{pattern}.{side}"):
                # Whoever says "Yes." has not read it in the test set.
                texts = path.read_text(encoding="utf-8").splitlines()
                lines += [line for line in texts if len(line.split()) >= 4]
    return frozenset(map(letters, lines))


class Filter:
    """Chooses good pairs, each once, and counts the others.

    Attributes:
        counts: for each name of a set, the number of pairs by fault; "" for the good ones.
    """

    def __init__(self, excluded: frozenset[str]) -> None:
        self.excluded = excluded
        self.seen: set[Pair] = set()
        self.counts: dict[str, Counter[str]] = {}

    def good(self, name: str, pairs: Iterable[Pair]) -> Iterator[Pair | None]:
        """Yields each pair of the set ``name``, or None instead of one that is left out."""
        counts = self.counts.setdefault(name, Counter())
        for pair in pairs:
            key = letters(pair[0]), letters(pair[1])
            reason = fault(*pair)
            if not self.excluded.isdisjoint(key):
                reason = "held out"
            elif not reason and key in self.seen:
                reason = "twice"
            self.seen.add(key)
            counts[reason] += 1
            yield None if reason else pair


def neighbors(pairs: Sequence[Pair | None], rng: random.Random, most: int) -> list[Pair]:
    """Returns at most ``most`` examples of two or three pairs that follow each other."""
    found = []
    starts = [*range(len(pairs) - 2)]
    rng.shuffle(starts)
    for start in starts:
        row = [*pairs[start : start + rng.choice((2, 2, 3))]]
        whole = [pair for pair in row if pair is not None and _ends(pair)]
        if len(whole) == len(row) and sum(len(en.split()) for _, en in whole) <= 55:
            found.append((" ".join(de for de, _ in whole), " ".join(en for _, en in whole)))
        if len(found) == most:
            break
    return found


def _ends(pair: Pair) -> bool:
    return all(side.rstrip("\"“”»')").endswith((".", "!", "?")) for side in pair)


# In Tatoeba, most persons are called Tom, Maria (Mary) or John, and they live in Boston.
_MEN, _WOMEN = r"Tom|John|Ken|Jim|Bob|Bill", r"Maria|Mary|Jane|Emily|Alice"
_WITH_ARTICLE = re.compile(
    r"schweiz|türkei|slowakei|mongolei|ukraine|niederlande|philippinen|tschechei|vatikan|inseln?\Z"
    r"|republik|iran|irak|jemen|libanon|sudan|tschad|kongo|niger\Z|staaten|gebiet|antarktis|insel"
    r"|königreich|emirate|seychellen|malediven|bahamas|komoren|färöer|salomonen|elfenbein|sahara",
    re.IGNORECASE,
)


class Names:
    """Puts names of persons and places that German texts have into pairs of Tatoeba."""

    def __init__(self, folder: Path, rng: random.Random) -> None:
        def lines(name: str) -> list[str]:
            return (folder / name).read_text(encoding="utf-8").splitlines()

        self.rng = rng
        self.men, self.women = lines("first_names_male.txt"), lines("first_names_female.txt")
        self.surnames, cities = lines("surnames.txt"), lines("german_cities.txt")
        table = [line.split("\t") for line in lines("places_languages_currencies.tsv")]
        countries = [
            (de, en)
            for de, en, origin in table
            if origin == "iso_3166-1" and " " not in de and not _WITH_ARTICLE.search(de)
        ]
        self.places = [*((city, city) for city in cities), *countries * 2]

    def filled(self, pair: Pair) -> Pair | None:
        """Returns the pair with other names, or None if no name of it can be replaced."""
        changed = self._person(pair, _MEN, self.men, ("Herr", "Mr."))
        changed = self._person(changed, _WOMEN, self.women, ("Frau", self.rng.choice(_TITLES)))
        changed = self._place(changed)
        return None if changed == pair else changed

    def _person(self, pair: Pair, pattern: str, names: list[str], title: Pair) -> Pair:
        german, english = ({*re.findall(rf"\b(?:{pattern})\b", side)} for side in pair)
        possessive = re.compile(rf"\b({pattern})'s?\b|\b({pattern})s\b")
        # One person on each side, who has nothing: the genitive differs in the two languages.
        if len(german) != 1 or len(english) != 1 or any(map(possessive.search, pair)):
            return pair
        first, surname = self.rng.choice(names), self.rng.choice(self.surnames)
        full = f"{first} {surname}"
        alone = [(name, name) for name in (first, first, full, surname)]
        new = self.rng.choice([*alone, self._titled(title)])
        is_subject = re.match(rf"(?:{pattern})\b", pair[0])
        if new[0].startswith("Herr ") and not is_subject:
            new = full, full  # it would be "Herrn" in other cases
        return _replaced(pair, pattern, new)

    def _titled(self, title: Pair) -> Pair:
        surname = self.rng.choice(self.surnames)
        return f"{title[0]} {surname}", f"{title[1]} {surname}"

    def _place(self, pair: Pair) -> Pair:
        place = r"(?:(?<=in )|(?<=nach )|(?<=from )|(?<=aus )|(?<=to ))Boston\b(?!er)"
        if all(len(re.findall("Boston", side)) == 1 and re.search(place, side) for side in pair):
            return _replaced(pair, place, self.rng.choice(self.places))
        return pair


_TITLES = ("Ms.", "Mrs.", "Mrs.")


def _replaced(pair: Pair, pattern: str, new: Pair) -> Pair:
    """Returns the pair with the German or the English word of ``new`` for each match."""
    whole = rf"(?<!\w)(?:{pattern})(?!\w)"
    return re.sub(whole, new[0], pair[0]), re.sub(whole, new[1], pair[1])


def news_sentences(path: Path) -> Iterator[str]:
    """Yields the sentences of the titles and descriptions of a table of AG_News."""
    with path.open(encoding="utf-8", newline="") as file:
        for _, title, description in csv.reader(file):
            for text in (title, description):
                yield from sentences(text)


def sentences(text: str) -> list[str]:
    """Returns the sentences of a news item, without remnants of markup and names of agencies."""
    text = re.sub(r"(?<!&)#(\d+);", r"&#\1;", text.replace("\\", " "))
    text = re.sub(r"(?<![&\w])(quot|amp|lt|gt|nbsp);", r"&\1;", text)
    text = html.unescape(html.unescape(text))
    text = re.sub(r"<[^>]*>|\bhttp\S+", " ", text)
    text = re.sub(
        r"\A.{0,60}?\((?:AP|Reuters|AFP|[A-Z][A-Za-z. ]{1,30})\)\s*(?:[-–]+\s)?", "", text
    )
    text = re.sub(r"\A[A-Z][A-Z ,.]{3,40}(?:\([^)]*\)\s*)?[-–]+\s", "", text)
    text = re.sub(r" (?='s\b)", "", " ".join(text.split()))
    text = re.sub(r"\s*\((?:AP|Reuters|AFP|[A-Za-z.]+\.com)\)\s*", " ", text).strip()
    parts = re.split(r"(?<=[a-z\d%\")][.!?])\s+(?=[A-Z\"])", text)
    return [part for part in parts if 3 <= len(part.split()) <= 45 and "..." not in part]


def drawn(pairs: Sequence[Pair], share: float, seed: str) -> list[Pair]:
    """Returns a random share of the pairs; with 2.0, every pair twice."""
    copies, rest = divmod(share, 1.0)
    rows = random.Random(seed).sample(range(len(pairs)), round(rest * len(pairs)))
    return [*pairs] * int(copies) + [pairs[row] for row in sorted(rows)]


def write(folder: Path, pairs: Iterable[Pair], *, split: str = "train") -> int:
    """Writes the pairs and returns their number."""
    folder.mkdir(parents=True, exist_ok=True)
    sides = [*zip(*pairs, strict=True)]
    for side, lines in zip(("de", "en"), sides, strict=True):
        (folder / f"{split}.{side}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return len(sides[0])


def spaced(pairs: Sequence[Pair], most: int) -> list[Pair]:
    """Returns ``most`` of the pairs, at equal distances."""
    return [pairs[i * len(pairs) // most] for i in range(most)]


@click.command(help=(__doc__ or "").split("\n")[0])
@click.option("--data", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--out", type=click.Path(path_type=Path), required=True)
@click.option("--seed", default=1, show_default=True)
def main(data: Path, out: Path, seed: int) -> None:
    rng = random.Random(seed)
    excluded = held_out(data)
    chosen = Filter(excluded)
    sets = {
        name: [*chosen.good(name, read_pairs(data / name, "train"))]
        for names in GROUPS.values()
        for name in names
    }
    corpora = {
        group: [pair for name in names for pair in sets[name] if pair]
        for group, names in GROUPS.items()
    }

    for name in WRITTEN:
        lines = (RECIPE / f"{name}.tsv").read_text("utf-8").splitlines()
        pairs = ((de, en) for de, en in (line.split("\t") for line in lines))
        corpora[name] = [pair for pair in chosen.good(name, pairs) if pair]

    filler = Names(data / "names", rng)
    tatoeba = rng.sample(corpora["everyday"], len(corpora["everyday"]))
    filled = (filler.filled(pair) for pair in tatoeba)
    corpora["names"] = [pair for pair in filled if pair][:NAMES]

    joined = [neighbors(sets[name], rng, NEIGHBORS_PER_SET) for name in IN_ORDER]
    joined.append(neighbors(tatoeba, rng, RANDOM_NEIGHBORS))
    corpora["neighbors"] = [pair for pairs in joined for pair in pairs]

    news = {*news_sentences(data / "ag_news" / "train.csv")}
    lines = sorted(line for line in news if letters(line) not in excluded)
    corpora["copies"] = [(line, line) for line in rng.sample(lines, min(COPIES, len(lines)))]

    out.mkdir(parents=True, exist_ok=True)
    (out / "news.en").write_text("\n".join(lines) + "\n", encoding="utf-8")

    corpora["vocabulary"] = [
        pair
        for name, share in VOCABULARY.items()
        for pair in drawn(corpora[name], share, f"{seed}/{name}")
    ]
    counts = {name: write(out / name, pairs) for name, pairs in corpora.items()}
    validation = [
        pair for name, most in VALIDATION.items() for pair in spaced(read_pairs(data, name), most)
    ]
    write(out / "base", validation, split="val")
    write(out / "vocabulary", spaced(corpora["words"], 300), split="val")
    record = {
        "seed": seed,
        "corpora": counts,
        "sets": {
            name: {reason or "kept": n for reason, n in counter.items()}
            for name, counter in chosen.counts.items()
        },
    }
    (out / "mixture.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    for name, count in counts.items():
        print(f"{name:12}{count:8}")


if __name__ == "__main__":
    main()
