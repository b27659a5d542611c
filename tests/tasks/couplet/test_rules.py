"""The rules of the couplet, as checks of finished pairs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.couplet.rules import (
    RULES,
    broken,
    check,
    find_avoided,
    parallel_places,
    refused_words,
    split_line,
    tone_places,
)
from tasks.couplet.tones import is_punctuation, read_words
from tests.growth import growth


def kept(first: str, second: str) -> set[str]:
    found = check(first, second)
    assert list(found) == list(RULES)
    return {rule for rule, is_kept in found.items() if is_kept}


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("晚风摇树树还挺", "晨露润花花更红", set()),  # 挺 is oblique, 红 is level
        ("风，雨", "天，山", set()),
        ("风雨", "天山", set()),
        ("雨风", "山地", set()),
        ("雨风", "山天", {"ending", "tones"}),  # 风 is level, and so is 天
        ("风雨", "天地", {"ending", "tones"}),
        ("雨天风", "水地山", {"ending"}),
        ("雨天地", "水云山", {"tones"}),
        ("雨中地", "水云山", set()),  # 中 has readings of both tones
        ("风雨", "天", {"length", "repetition"}),
        ("风，雨", "天山，", {"punctuation"}),
        ("风，雨", "天。山", {"punctuation"}),
        ("风，雨", "天地山", {"punctuation", "repetition"}),
        ("风雨", "雨山", {"characters"}),
        ("风雨雨", "天山花", {"repetition"}),
        ("风雨水", "天天山", {"repetition"}),
        ("风雨，", "天地，", {"ending", "tones"}),  # the last word counts, not the mark behind it
        ("，。", "，。", set()),
        ("", "", set()),
    ],
)
def test_each_rule_is_seen_broken(first: str, second: str, expected: set[str]) -> None:
    assert set(RULES) - kept(first, second) == expected


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("天增岁月人增寿", "春满乾坤福满门", {}),
        ("两个黄鹂鸣翠柳", "一行白鹭上青天", {}),
        ("书山有路勤为径", "学海无涯苦作舟", {}),
        ("风声雨声读书声声声入耳", "家事国事天下事事事关心", {}),
        ("日月如梭", "光阴似箭", {}),
        ("大漠孤烟直", "长河落日圆", {}),  # 直, 出 and 学 have the entering tone
        ("宝剑锋从磨砺出", "梅花香自苦寒来", {}),
        ("世事洞明皆学问", "人情练达即文章", {}),
        ("上海自来水来自海上", "山东落花生花落东山", {"tones": "来花 来花"}),
        ("客上天然居居然天上客", "人过大佛寺寺佛大过人", {}),  # 过 and 佛 have both tones
        ("烟锁池塘柳", "炮镇海城楼", {"tones": "锁镇 塘城", "rhyme": "柳楼"}),
        ("墙上芦苇，头重脚轻根底浅", "山间竹笋，嘴尖皮厚腹中空", {"tones": "苇笋"}),
        ("山清水秀", "鸟语花香", {}),
        ("山清水秀", "人寿年丰", {"parallels": "人年"}),
        ("天连水尾水连天", "雾锁山头山锁路", {"palindrome", "repetition"}),
        ("春风送暖", "他妈的天", {"tones", "rhyme", "avoided"}),
    ],
)
def test_well_known_couplets(first: str, second: str, expected: dict[str, str] | set[str]) -> None:
    found = broken(first, second)
    assert found == expected or set(found) == expected


@pytest.mark.parametrize(
    ("first", "second", "modern", "pingshui"),
    [
        ("物华天宝", "人杰地灵", set(), set()),  # 杰 has the entering tone
        ("感时花溅泪", "恨别鸟惊心", set(), set()),
        ("疏影横斜水清浅", "暗香浮动月黄昏", {"tones"}, {"tones"}),  # 清 and 黄
        ("百业兴隆春色好", "万家奋勇马蹄先", set(), set()),
        ("国破山河在", "城春草木深", set(), set()),
        ("烟锁池塘柳", "炮镇海城楼", {"tones", "rhyme"}, {"tones"}),  # 有 and 尤 are two rhymes
    ],
)
def test_couplets_by_both_systems(
    first: str, second: str, modern: set[str], pingshui: set[str]
) -> None:
    assert set(broken(first, second)) == modern
    assert set(broken(first, second, "pingshui")) == pingshui


def test_places_of_tones_are_counted_in_each_clause_without_marks() -> None:
    assert tone_places("墙上芦苇，头重脚轻根底浅") == [1, 3, 6, 8, 10]
    assert tone_places("“春”风，《送》") == [3]
    assert tone_places("春") == tone_places("，") == []


def test_halves_of_a_clause_answer_each_other() -> None:
    assert parallel_places("山清水秀") == [(0, 2)]
    assert parallel_places("春来，龙飞凤舞") == [(3, 5), (4, 6)]
    assert parallel_places("春风送暖") == parallel_places("山水") == []


def test_the_first_avoided_word_is_found_wherever_it_is() -> None:
    words = frozenset(["春风", "雨"])
    assert find_avoided("山春风雨", words) == "春风"
    assert find_avoided("春，风", words) is None
    assert find_avoided("", words) is None


def test_a_word_inside_a_harmless_phrase_is_not_found() -> None:
    """妈妈的爱 and 今日你来 were refused as rude."""
    words = refused_words()
    for line in ("妈妈的爱", "今日你来", "山阴道上行", "水乳交融", "新娘的嫁衣", "月色情浓"):
        assert find_avoided(line, words) is None
    assert find_avoided("今日你来他妈的", words) == "他妈"
    for phrase in read_words("harmless.txt"):
        assert any(word in phrase for word in words), phrase


@given(line=st.text("春风，。", max_size=30), size=st.integers(1, 9))
def test_a_long_line_is_split_after_marks(line: str, size: int) -> None:
    segments = split_line(line, size)
    assert "".join(map("".join, segments)) == line
    assert all(1 <= len(segment) <= size for segment in segments)
    for segment in segments[:-1]:
        assert is_punctuation(segment[-1]) or (
            len(segment) == size and not any(map(is_punctuation, segment))
        )


@pytest.mark.parametrize("pattern", ["春", "春，", "，" + "春" * 30])
def test_splitting_a_line_is_linear(pattern: str) -> None:
    """The rest of the line was copied for every segment: 400,000 characters took 24 seconds."""

    def cut(length: int) -> None:
        split_line((pattern * length)[:length], 20)

    assert growth(cut, 50_000, 200_000, most=12) < 12
