"""Changed training pairs: what is changed, and that both sides agree on what is copied."""

import random
import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.translation.augmentation import augmented

SOURCE, TARGET = "Gestern fuhr Tom über die Brücke.", "Yesterday Tom drove over the bridge."


def pairs(source: str, target: str, count: int = 400) -> list[tuple[str, str]]:
    rng = random.Random(1)
    return [augmented(source, target, rng) for _ in range(count)]


def test_each_way_to_write_occurs() -> None:
    found = {*pairs(SOURCE, TARGET)}
    assert (SOURCE.upper(), TARGET) in found
    assert (SOURCE.lower(), TARGET) in found
    assert ("Gestern fuhr Tom ueber die Bruecke.", TARGET) in found
    assert (SOURCE[:-1], TARGET[:-1]) in found


def test_what_both_sides_share_becomes_the_same_new_literal() -> None:
    frames = [re.escape(text).replace("Tom", "(.+)") for text in (SOURCE, TARGET)]
    literals = []
    for source, target in pairs(SOURCE, TARGET):
        if target not in (TARGET, TARGET[:-1]):
            first, second = (
                re.fullmatch(*both) for both in zip(frames, (source, target), strict=True)
            )
            assert first and second and first[1] == second[1]
            literals.append(first[1])
    assert len({*literals}) > 100
    for pattern in (r"\w+@\w+\.\w+", r"https?://", r"\d\d:\d\d", r"[A-Z]\w+", r"[😀-🙏]", r"[а-я]"):
        assert any(re.search(pattern, literal) for literal in literals), pattern


def test_a_pair_without_anything_to_copy_gets_something() -> None:
    source, target = "ein hund rennt", "a dog runs"
    for changed, translated in pairs(source, target):
        added = Counter(changed) - Counter(source)
        if translated != target:
            assert added == Counter(translated) - Counter(target)
            assert source in changed and target in translated


@pytest.mark.parametrize(
    ("source", "target"),
    [("Tom rennt.", "Tom runs."), ("Er sah Tommy.", "He saw Tom."), ("Das ist 5.", "It is 15.")],
)
def test_only_whole_words_inside_a_sentence_are_replaced(source: str, target: str) -> None:
    """The first word of a sentence has a capital, whatever it is."""
    for changed, translated in pairs(source, target, 100):
        assert target.rstrip(".") in translated
        assert source.rstrip(".").lower() in changed.lower()


@given(st.text(max_size=80), st.text(max_size=80), st.integers(0, 99))
def test_any_pair_can_be_changed_and_the_seed_decides_how(
    source: str, target: str, seed: int
) -> None:
    one, other = (augmented(source, target, random.Random(seed)) for _ in range(2))
    assert one == other
    assert all(text.isprintable() for text in one) or not (source + target).isprintable()
