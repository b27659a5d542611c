"""Ten small tables: the default of ``train classification``, and a linear model beside it.

    python -m benchmarks.small_tables --data CORPORA [--tables bbc,formality] [--splits 5]
        [--threads 1] [--init default] [--set section.key=value]...

CORPORA is a folder with the corpora ``bbc_news``, ``tatoeba``, ``multi30k``, ``ag_news``,
``couplet`` and ``de_en``. A table whose corpus is not there is skipped. Each table is split five
times with seeds of its own: 80% of the rows train, 20% test. Both models see the same rows.

The linear model was fixed before anything was measured: logistic regression (C = 10) over TF-IDF
of words and word pairs, with sublinear term frequencies; single characters and pairs of them for
Chinese.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import resource
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

ROOT = Path(__file__).resolve().parents[1]
TEST_SHARE = 0.2


class Row(NamedTuple):
    """A text and its label."""

    text: str
    label: str


def bbc(corpora: Path) -> Iterator[Row]:
    """Yields articles of some 400 words, labeled by their category."""
    with (corpora / "bbc_news" / "articles.csv").open(encoding="utf-8", newline="") as file:
        for category, text in csv.reader(file):
            yield Row(text, category)


def news(corpora: Path) -> Iterator[Row]:
    """Yields news of AG_News' test file, which the shipped classifier has not seen."""
    topics = ("World", "Sports", "Business", "Sci/Tech")
    with (corpora / "ag_news" / "test.csv").open(encoding="utf-8", newline="") as file:
        for label, title, text in csv.reader(file):
            yield Row(f"{title} {text}".strip(), topics[int(label) - 1])


def languages(corpora: Path) -> Iterator[Row]:
    """Yields short sentences, labeled by their language."""
    sentences = {
        "de": corpora / "tatoeba" / "train.de",
        "en": corpora / "tatoeba" / "train.en",
        "fr": corpora / "multi30k" / "train.fr",
    }
    for label, path in sentences.items():
        yield from (Row(line, label) for line in lines(path))


def formality(corpora: Path) -> Iterator[Row]:
    """Yields German sentences with *du* and with *Sie*; the corpus has both forms in turn."""
    formal = {"sie", "ihnen", "ihr", "ihre", "ihren", "ihrem", "ihrer"}
    familiar = {"du", "dir", "dich", "dein", "deine", "deinen", "deinem", "deiner"}
    for line in lines(corpora / "de_en" / "cocoa_formality" / "train.de"):
        words = {word.strip(".,!?;:\"'").lower() for word in line.split()}
        if bool(words & formal) != bool(words & familiar):
            yield Row(line, "Sie" if words & formal else "du")


def domains(language: str, *names: str) -> Callable[[Path], Iterator[Row]]:
    """Returns a function that yields sentences, labeled by the corpus that they come from."""

    def rows(corpora: Path) -> Iterator[Row]:
        for name in names:
            path = corpora / "de_en" / name / f"train.{language}"
            yield from (Row(line, name) for line in lines(path))

    return rows


def verses(corpora: Path) -> Iterator[Row]:
    """Yields lines of couplets and of regulated verse."""
    for name, label in (("train", "couplet"), ("verse", "verse")):
        for line in lines(corpora / "couplet" / name / "in.txt"):
            text = line.replace(" ", "")
            if len(text) == 7:
                yield Row(text, label)


TICKETS = {
    "invoice": "the invoice is not correct|I was charged twice|there is a mistake in my bill",
    "refund": "I am still waiting for my money|when is my money coming|please refund the order",
    "password": "I cannot log in|the link for a new password has expired|my account is locked",
    "delivery": "the parcel has not arrived|it has been on its way for days|it was due on Monday",
    "damage": "the screen arrived broken|the box was crushed|one part is scratched",
    "cancel": "please cancel my order|I ordered by mistake|stop the shipment, I do not need it",
    "address": "I have moved|please change the street in my account|my postal code is wrong",
    "crash": "the app closes when I open it|it freezes after the update|I only see a white screen",
    "slow": "the website takes minutes to load|pages are very slow|every click takes for ever",
    "voucher": "my voucher is not accepted|the gift card says it is empty|the code does not work",
    "newsletter": "take me off your list|I get three mails a day|I never asked for advertising",
    "job": "are you hiring|I would like to apply|is the position in the warehouse still open",
    "hours": "are you open on Sunday|when does the shop close|do you open on public holidays",
    "warranty": "is this covered by the guarantee|it broke after a year|how long is the warranty",
    "praise": "your colleague was very kind|everything was perfect|I just want to say thank you",
}
"""What customers write to a shop, by the department that answers."""

BESIDE = (
    "I ordered it two weeks ago",
    "my order number is 58213",
    "I have been a customer for years",
    "I called you yesterday about my account",
    "the app says something else",
    "I found your address on the website",
    "it is the second time this month",
    "the parcel came on Friday",
    "I paid with a gift card",
)
"""What they write besides, which says nothing about the department."""


def tickets(corpora: Path) -> Iterator[Row]:
    """Yields made-up mails of customers."""
    rng, labels = random.Random("tickets"), list(TICKETS)
    for number in range(600):
        label = labels[number % len(labels)]
        wish, other = (rng.choice(TICKETS[each].split("|")) for each in (label, rng.choice(labels)))
        parts = [wish, *rng.sample(BESIDE, rng.randint(0, 2))]
        rng.shuffle(parts)
        start = rng.choice(("Hello, ", "Dear team, ", "Hi, ", ""))
        end = rng.choice((".", ". Thanks.", f". PS: Last time {other}."))
        yield Row(start + ". ".join(parts) + end, label)


GOOD = "great excellent lovely friendly fast delicious clean helpful cheap comfortable"
BAD = "poor awful rude slow cold dirty broken useless overpriced disappointing"
THINGS = "room service food staff screen battery story music"


def sentiment(corpora: Path) -> Iterator[Row]:
    """Yields made-up reviews: two clauses, of which the second counts, and some negations."""
    rng = random.Random("sentiment")
    good, bad, things = GOOD.split(), BAD.split(), THINGS.split()
    for number in range(1000):
        is_good = number % 2 == 0
        first, second = rng.sample(things, 2)
        word = rng.choice(good if is_good else bad)
        if rng.random() < 0.3:
            word = "not " + rng.choice(bad if is_good else good)
        other = rng.choice(good + bad)
        start = f"The {first} was {other}, but" if rng.random() < 0.5 else f"And the {first}? Well,"
        yield Row(f"{start} the {second} was {word}.", "good" if is_good else "bad")


def lines(path: Path) -> Iterator[str]:
    """Yields the lines of a file, without their ends."""
    with path.open(encoding="utf-8") as file:
        yield from (line.rstrip("\n") for line in file)


class Table(NamedTuple):
    """A table: where its rows come from, how many are drawn, and what is known of it."""

    rows: Callable[[Path], Iterator[Row]]
    size: int
    is_chinese: bool = False


TEN = (
    *("debian_descriptions", "ted_recased", "wesnoth", "suttas", "fiction_hpmor"),
    *("xdailydialog", "europarl_20k", "ui_strings", "newstest_2013_2017", "software_help"),
)
TWENTY = (
    *(*TEN, "film_dialogue_msctd", "chat_bcontrast", "chat_customer_service", "woz_restaurant"),
    *("xnli", "mtgeneval", "wikipedia_postedit", "debian_news", "games", "qa_questions"),
)
TABLES = {
    "tickets": Table(tickets, 600),
    "sentiment": Table(sentiment, 1000),
    "bbc": Table(bbc, 1434),
    "bbc_60": Table(bbc, 60),
    "news": Table(news, 800),
    "languages": Table(languages, 300),
    "formality": Table(formality, 1000),
    "domains": Table(domains("en", *TEN), 2000),
    "domains_20": Table(domains("de", *TWENTY), 5000),
    "verses": Table(verses, 1000, is_chinese=True),
}


def drawn(table: Table, corpora: Path) -> list[Row]:
    """Returns the rows of a table, with equally many of each class where the corpus has them."""
    by_label: dict[str, list[Row]] = {}
    for row in dict.fromkeys(table.rows(corpora)):
        by_label.setdefault(row.label, []).append(row)
    rng = random.Random("rows")
    share = -(-table.size // len(by_label))
    return [row for rows in by_label.values() for row in rng.sample(rows, min(share, len(rows)))]


def linear_accuracy(train: list[Row], test: list[Row], *, is_chinese: bool) -> float:
    """Returns the accuracy in percent of the linear model."""
    analyzer = "char" if is_chinese else "word"
    model = make_pipeline(
        TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2), analyzer=analyzer),
        LogisticRegression(C=10.0, max_iter=1000),
    )
    model.fit([row.text for row in train], [row.label for row in train])
    return 100 * float(model.score([row.text for row in test], [row.label for row in test]))


def our_accuracy(
    train: list[Row], test: list[Row], folder: Path, options: list[str]
) -> tuple[float, float]:
    """Returns the accuracy in percent of the command's model, and its seconds of one core."""
    for name, rows in (("train", train), ("test", test)):
        with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([("text", "label"), *rows])
    out = folder / "run"
    command = ("cli.py", "train", "classification", "--data", folder, "--out", out)
    columns = ("--text", "text", "--label", "label")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, *command, *columns, *options], cwd=ROOT, check=True, capture_output=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    metrics = json.loads((out / "metrics.json").read_text(encoding="utf-8"))
    return 100 * metrics["test"]["accuracy"], seconds


def main() -> None:
    """Prints a row for each table: means over the splits, and the standard error of the gap."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--threads", default="1")
    parser.add_argument("--init", help="Start from this model.")
    parser.add_argument("--set", action="append", default=[])
    arguments = parser.parse_args()
    options = ["--threads", arguments.threads]
    options += ["--init", arguments.init] if arguments.init else []
    options += [part for setting in arguments.set for part in ("--set", setting)]
    print("| table | rows | classes | linear | ours | gap | standard error | CPU seconds |")
    print("|---|---|---|---|---|---|---|---|")
    for name in arguments.tables.split(","):
        table = TABLES[name]
        try:
            rows = drawn(table, arguments.data)
        except FileNotFoundError as error:
            print(f"{name}: skipped, {error.filename} is not there", file=sys.stderr)
            continue
        linear, ours, times = [], [], []
        for split in range(arguments.splits):
            shuffled = random.Random(f"{name}/{split}").sample(rows, len(rows))
            cut = round(len(rows) * TEST_SHARE)
            test, train = shuffled[:cut], shuffled[cut:]
            linear.append(linear_accuracy(train, test, is_chinese=table.is_chinese))
            with TemporaryDirectory() as folder:
                accuracy, seconds = our_accuracy(train, test, Path(folder), options)
            ours.append(accuracy)
            times.append(seconds)
            print(f"{name}/{split}: {linear[-1]:.1f} {accuracy:.1f}", file=sys.stderr, flush=True)
        gaps = [a - b for a, b in zip(ours, linear, strict=True)]
        error = statistics.stdev(gaps) / len(gaps) ** 0.5 if len(gaps) > 1 else float("nan")
        classes = len({row.label for row in rows})
        print(
            f"| {name} | {len(rows)} | {classes} | {statistics.mean(linear):.1f} "
            f"| {statistics.mean(ours):.1f} | {statistics.mean(gaps):+.1f} | {error:.1f} "
            f"| {statistics.median(times):.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
