"""Tones and rhymes, by modern readings and by the classical table."""

import pytest

from core.errors import ConfigError
from tasks.couplet.tones import (
    LEVEL,
    OBLIQUE,
    has_entering_tone,
    is_punctuation,
    line_tones,
    rhymes,
    tones,
)


@pytest.mark.parametrize(
    ("characters", "expected"),
    [
        ("风天山花云江红春光", {LEVEL}),  # not chun3, guang4, which are rare
        ("树雨地水月夜日", {OBLIQUE}),  # third and fourth tone
        ("中长看重", {LEVEL, OBLIQUE}),  # 中 zhong1, zhong4; 长 chang2, zhang3; ...
        ("，a1 の", set()),  # no Chinese word
    ],
)
def test_tones_are_those_of_all_readings(characters: str, expected: set[str]) -> None:
    assert {c: set(tones(c)) for c in characters} == dict.fromkeys(characters, expected)


def test_words_and_marks() -> None:
    assert all(map(is_punctuation, "，。！？；：、“”《》（）—…·-+<~$"))
    assert not any(map(is_punctuation, "风々〇aЖ1½"))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("银行重阳", "平平平平"),  # 行 hang2, 重 chong2
        ("重任在肩", "仄仄仄平"),  # 重 zhong4
        ("长空万里", "平平仄仄"),  # 长 chang2
        ("首长", "仄仄"),  # 长 zhang3
        ("朝朝暮暮", "平平仄仄"),
        ("孩子，", "平仄　"),  # the neutral tone of the phrase decides nothing
        ("长", "？"),
        ("横水清", "？仄平"),  # 清 was oblique, too (qing4), if another character had two tones
    ],
)
def test_phrases_decide_between_the_readings_of_a_character(line: str, expected: str) -> None:
    names = {"平": {LEVEL}, "仄": {OBLIQUE}, "？": {LEVEL, OBLIQUE}, "　": set()}
    assert [set(of_one) for of_one in line_tones(line)] == [names[c] for c in expected]


def test_entering_tones_are_oblique_by_the_classical_table() -> None:
    """国, 杰, 急, 竹: level today, with the entering tone (入声) of Pingshui, so either now."""
    for character in "国杰急竹":
        assert tones(character) == {LEVEL, OBLIQUE}
        assert tones(character, "pingshui") == {OBLIQUE}
        assert has_entering_tone(character)
    assert tones("日") == {OBLIQUE} and tones("花") == {LEVEL}
    assert not any(map(has_entering_tone, "花雨a，"))
    assert line_tones("中国人")[1] == {LEVEL, OBLIQUE}
    assert line_tones("白日依山尽", "pingshui")[0] == {OBLIQUE}
    assert tones("看", "pingshui") == {LEVEL, OBLIQUE}  # 十四寒 and 十五翰
    assert tones("们", "pingshui") == tones("们")  # not in the table
    with pytest.raises(ConfigError, match=r"form\.rhyme must be one of modern, pingshui"):
        tones("国", "ancient")


def test_rhymes() -> None:
    """The rhymes of 杜甫《春望》: 深, 心, 金, 簪 are all of 十二侵."""
    assert all("十二侵" in rhymes(character, "pingshui") for character in "深心金簪")
    assert rhymes("红") == rhymes("动") != rhymes("花") == rhymes("家")
    assert rhymes("事") == rhymes("知") != rhymes("溪")
    assert rhymes("先", "pingshui") == {"一先", "十七霰"}
    assert rhymes("红", "pingshui") != rhymes("动", "pingshui")  # one tone, one rhyme
    assert rhymes("，") == rhymes("a") == frozenset()
