"""The detector of the target language: sure or silent."""

from pathlib import Path

import pytest

from core.errors import CheckpointError
from tasks.runs.checkpoint_folder import LANGUAGE_FILE, PRETRAINED
from tasks.translation.language import LanguageDetector
from tests.tiny_corpora import write_translation

GERMAN = "Ein Hund sieht das Boot."
ENGLISH = "A woman hears the sea."


def sides(folder: Path, split: str) -> tuple[list[str], list[str]]:
    german, english = (
        (folder / f"{split}.{language}").read_text().splitlines() for language in ("de", "en")
    )
    return german, english


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_translation(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def detector(corpus: Path) -> LanguageDetector:
    return LanguageDetector.fit(*sides(corpus, "train"))


def test_it_tells_held_out_texts_apart(corpus: Path, detector: LanguageDetector) -> None:
    german, english = sides(corpus, "test_tiny")
    assert detector.recognized(german) == 0.0
    assert detector.recognized(english) == 1.0
    assert detector.is_useful(german, english)
    assert not detector.is_useful(english, german)


@pytest.mark.parametrize(
    ("text", "is_target"),
    [
        (ENGLISH, True),
        (ENGLISH.upper(), True),
        (GERMAN, False),
        (f"{ENGLISH} {GERMAN}", False),
        (f"{ENGLISH} Ja. {ENGLISH}", True),
        ("A woman", False),
        ("the the", False),
        ("12 34 56 78", False),
        ("", False),
        ("猫 狗 鹤", False),
    ],
)
def test_it_is_sure_or_silent(text: str, is_target: bool, detector: LanguageDetector) -> None:
    """Every sentence of three words must be in the target language, and there must be one."""
    assert detector.is_target(text) is is_target


@pytest.mark.parametrize(
    ("text", "side"),
    [
        (ENGLISH, "target"),
        (GERMAN.upper(), "source"),
        ("A woman", None),
        (f"{ENGLISH} {GERMAN}", None),
        ("", None),
    ],
)
def test_the_language_of_a_short_or_mixed_text_is_unknown(
    text: str, side: str | None, detector: LanguageDetector
) -> None:
    found, share = detector.side(text)
    assert found == side
    assert (share == 0) if side is None else (0.5 < share <= 1)


def test_a_third_language_is_unknown_and_does_not_pass_through() -> None:
    """French was English, with 77 of 100."""
    detector = LanguageDetector.load(PRETRAINED / "translation")
    assert detector is not None
    texts = {
        "source": ["Ein Hund rennt am Strand.", "Wo ist der Bahnhof?"],
        "target": ["A dog runs on the beach.", "Where is the station?"],
        None: ["Un chien court sur la plage.", "Een hond rent op het strand.", "Hallo", "Hello"],
    }
    texts[None] += ["Bonjour mes amis", "Je ne parle pas allemand."]
    for side, of_side in texts.items():
        for text in of_side:
            assert (detector.side(text)[0], detector.is_target(text)) == (side, side == "target")


def test_two_sides_in_one_language_give_no_useful_detector(corpus: Path) -> None:
    german, _ = sides(corpus, "train")
    detector = LanguageDetector.fit(german[::2], german[1::2])
    assert not detector.is_useful(german[::2], german[1::2])


def test_it_is_saved_and_a_damaged_file_is_refused(
    detector: LanguageDetector, tmp_path: Path
) -> None:
    assert LanguageDetector.load(tmp_path) is None
    detector.save(tmp_path)
    loaded = LanguageDetector.load(tmp_path)
    assert loaded is not None
    assert loaded.log_odds.equal(detector.log_odds)
    (tmp_path / LANGUAGE_FILE).write_bytes(b"damaged")
    with pytest.raises(CheckpointError, match=LANGUAGE_FILE):
        LanguageDetector.load(tmp_path)
