"""Words of a line."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.couplet.lexicon import answers, cut, lexicon


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("程序员写代码", ["程序员", "代码"]),
        ("春风送暖千山秀", ["春风", "送暖", "千山"]),
        ("今天加班明天还加班", ["今天", "加班", "明天", "加班"]),
        ("GPS定位", ["GPS", "定位"]),
        ("风，雨", []),
    ],
)
def test_a_line_is_cut_into_words(line: str, words: list[str]) -> None:
    assert [line[start:end] for start, end, _ in cut(line).words] == words


@given(st.text(st.sampled_from("春风送暖山水人家门，"), max_size=7))
def test_no_other_cut_is_more_probable(line: str) -> None:
    def least(text: str) -> float:
        if not text:
            return 0.0
        single = 0.75 * math.log(len(lexicon()))
        costs = {1: single} | {
            n: lexicon()[text[:n]].cost for n in (2, 3, 4) if text[:n] in lexicon()
        }
        return min(cost + least(text[n:]) for n, cost in costs.items())

    assert cut(line).cost == pytest.approx(least(line))


def test_words_are_answered_by_words_as_long_and_of_their_kind() -> None:
    assert {"网络", "手机"} <= {*answers(2, "n")}
    assert "加班" not in answers(2, "n") and "加班" in answers(2, "nv")
    assert {len(word) for word in answers(3, "")} == {3}
    assert {"网络", "加班"} <= {*answers(2, "")}
