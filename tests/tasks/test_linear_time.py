"""Hostile texts through what users call: the time grows in proportion to the text.

2.4 KB held the program for 100 seconds: ``classify``, training on a CSV row and the server.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.classification.config import TEXT_COLUMNS, ClassificationData
from tasks.classification.dataset import LoadSentenceClassificationDataset
from tasks.classification.predict import Classifier
from tasks.classification.sources import read_news
from tasks.couplet.predict import CoupletWriter
from tasks.seq2seq.request import GenerationRequest
from tasks.translation.predict import Translator
from tests.commands.command_line import run
from tests.growth import growth

Models = Callable[[str], Path]

HOSTILE: dict[str, Callable[[int], str]] = {
    "attributes": lambda n: ("<a " + "=" * n + " " * n)[:n],
    "tags": lambda n: ("<a " * n)[:n],
    "entities": lambda n: ("&amp;#" * n)[:n],
    "sentences": lambda n: ("z. B. Ja! ... " * n)[:n],
    "marks": lambda n: ("。’，" * n)[:n],
    "spaces": lambda n: "." + " " * n,
    "capitals": lambda n: ("WO IST" + ". " * n)[:n],
    "one word": lambda n: "x" * n,
    "accents": lambda n: "a" + "\u0301" * n,
    "faces": lambda n: ("\U0001f468\u200d" * n)[:n],
}
SMALL, LARGE, MOST = 10_000, 40_000, 12  # four times the text may take up to twelve times as long


@pytest.fixture(params=HOSTILE)
def hostile(request: pytest.FixtureRequest) -> Callable[[int], str]:
    return HOSTILE[request.param]


def test_classifying(tiny_models: Models, hostile: Callable[[int], str]) -> None:
    classifier = Classifier.load(tiny_models("classification"), device="cpu")
    assert growth(classifier.classify, hostile(SMALL), hostile(LARGE), most=MOST) < MOST


def test_encoding_for_translation(tiny_models: Models, hostile: Callable[[int], str]) -> None:
    """The search itself is not timed: it takes as long as the segments do one by one."""
    translator = Translator.load(tiny_models("translation"), device="cpu")

    def encode(text: str) -> object:
        return translator._encode([text], GenerationRequest())

    assert growth(encode, hostile(SMALL), hostile(LARGE), most=MOST) < MOST


def test_encoding_for_couplets(tiny_models: Models, hostile: Callable[[int], str]) -> None:
    writer = CoupletWriter.load(tiny_models("couplet"), device="cpu")

    def encode(text: str) -> object:
        return writer._encode(["春" + text], GenerationRequest())

    assert growth(encode, hostile(SMALL), hostile(LARGE), most=MOST) < MOST


def test_reading_a_row_for_training(hostile: Callable[[int], str], tmp_path: Path) -> None:
    (tmp_path / "classes.txt").write_text("World\nSports\n")
    rows = '"1","goal","coach"\n"2","oil","prices"\n'
    (tmp_path / "train.csv").write_text(rows * 10)
    config = ClassificationData(tokenizer="basic_english", min_freq=1)
    corpus = LoadSentenceClassificationDataset(tmp_path, config, seed=1, save_to=tmp_path / "out")

    def read(text: str) -> object:
        path = tmp_path / "hostile.csv"
        path.write_text(f'"1","title","{text}x"\n', encoding="utf-8")
        rows = read_news(path, TEXT_COLUMNS, num_classes=2)
        return [corpus.codec.encode(corpus.text_of(row)) for row in rows]

    assert growth(read, hostile(SMALL), hostile(LARGE), most=MOST) < MOST


def test_a_request_to_the_service(tiny_models: Models, hostile: Callable[[int], str]) -> None:
    pytest.importorskip("fastapi", reason="the extra `web` is not installed")
    from tests.tasks.web.services import client, post

    service = client(["classification"], max_text=20_001, max_body=1_000_000, rate_limit=0)

    def classify(text: str) -> None:
        post(service, "/v1/classify", {"texts": [text]})

    assert growth(classify, hostile(5_000), hostile(20_000), most=MOST) < MOST


def test_the_command(tiny_models: Models) -> None:
    command = ("classify", "--model", tiny_models("classification"))

    def classify(size: int) -> None:
        assert run(*command, HOSTILE["attributes"](size)).exit_code == 0

    assert growth(classify, SMALL, LARGE, most=MOST) < MOST
