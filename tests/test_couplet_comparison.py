"""The blind comparison of couplets: judgments are joined with the key and counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.couplet_comparison import (
    FOLDER,
    POINTS,
    SEED,
    Counts,
    count,
    count_points,
    has_tone,
    is_ours_first,
    sample,
    share_of_point,
    sign_test,
)
from benchmarks.everyday_sentences import read_table
from core.errors import UserError

FIRSTS = [f"春风{i}" for i in range(40)]


def judged(first: str, ours: str, other: str) -> dict[str, str]:
    """Returns a row of judgments, with the answers in the order of the key."""
    a, b = (ours, other) if is_ours_first(first, SEED) else (other, ours)
    return {"first": first, "points_a": a, "points_b": b}


def test_judgments_are_joined_with_the_key() -> None:
    """Our answer wins the same pairs, whether it stands first or second."""
    orders = {is_ours_first(first, SEED) for first in FIRSTS}
    assert orders == {True, False}
    wins = [judged(first, "11110", "11000") for first in FIRSTS]
    assert count(wins) == Counts(wins=40, ties=0, losses=0)
    mixed = [
        *wins[:20],
        *(judged(first, "10101", "01110") for first in FIRSTS[20:35]),
        *(judged(first, "00000", "00100") for first in FIRSTS[35:]),
    ]
    assert count(mixed) == Counts(wins=20, ties=15, losses=5)
    assert share_of_point(mixed, 0) == (35 / 40, 20 / 40)


def test_another_seed_is_another_key() -> None:
    rows = [judged(first, "11111", "00000") for first in FIRSTS]
    wins, _, losses = count(rows, seed=SEED + 1)
    assert wins > 0
    assert losses > 0


def test_the_point_for_tone_can_be_left_out() -> None:
    rows = [judged(FIRSTS[0], "11001", "11100"), judged(FIRSTS[1], "11001", "11000")]
    assert count(rows) == Counts(wins=1, ties=1, losses=0)
    assert count(rows, with_tone=False) == Counts(wins=0, ties=1, losses=1)


@pytest.mark.parametrize("digits", ["1111", "111111", "11112", "", "yes!!"])
def test_a_judgment_has_one_digit_for_each_point(digits: str) -> None:
    with pytest.raises(UserError, match="5 digits, each 0 or 1"):
        count_points(digits)


def test_the_sign_test_by_hand() -> None:
    """Of ten, eight or more: (45 + 10 + 1) / 1024, on both sides."""
    assert sign_test(8, 2) == sign_test(2, 8) == pytest.approx(2 * 56 / 1024)
    assert sign_test(5, 5) == sign_test(0, 0) == 1.0


def test_the_point_for_tone_needs_the_end_and_the_places_inside() -> None:
    assert has_tone("春风送暖千山秀", "旭日迎新万水清")
    assert not has_tone("春风送暖千山秀", "旭日迎新万水绿")  # the end
    assert not has_tone("春风送暖千山秀", "清风迎新万水清")  # 风 under 风


def test_every_pair_is_judged() -> None:
    rows, pairs = read_table(FOLDER / "judgments.tsv"), read_table(FOLDER / "pairs.tsv")
    assert [(row["first"], row["a"], row["b"]) for row in rows] == [
        (pair["first"], pair["a"], pair["b"]) for pair in pairs
    ]
    assert len({row["first"] for row in rows}) == 100
    tone = POINTS.index("tone")
    for row in rows:
        assert row["reason"]
        for name in "ab":
            assert count_points(row[f"points_{name}"]) >= 0
            assert row[f"points_{name}"][tone] == str(int(has_tone(row["first"], row[name]))), row


def test_the_first_lines_are_a_sample_of_the_test_set(shared_data: Path) -> None:
    lines = (shared_data / "couplet" / "test" / "in.txt").read_text(encoding="utf-8").split("\n")
    firsts = [line.replace(" ", "") for line in lines if line]
    pairs = read_table(FOLDER / "pairs.tsv")
    assert [pair["first"] for pair in pairs] == sample(firsts, 100, SEED)
