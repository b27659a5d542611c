"""A couplet written downwards, its banner, its picture, and its script."""

from pathlib import Path

import pytest
from matplotlib.image import imread

from core.errors import UserError
from tasks.couplet.layout import banner, draw_couplet, vertical
from tasks.couplet.script import is_traditional, simplified, traditional
from tasks.couplet.tones import is_chinese, read_words
from tasks.pictures import PAPERS


def test_the_first_line_is_on_the_right_and_the_banner_reads_from_right_to_left() -> None:
    assert vertical("春风", "秋月") == "秋　　春\n月　　风\n"
    assert vertical("春风", "秋月", "山河如画") == "画如河山\n\n秋　　春\n月　　风\n"
    assert vertical("春a", "秋b") == "秋　　春\nb 　　a\n"


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("爆竹声中一岁除", "春风送暖入屠苏", ("万象更新", "辞旧迎新")),
        ("福如东海长流水", "寿比南山不老松", ("福寿康宁", "松鹤延年")),
        ("书山有路勤为径", "学海无涯苦作舟", ("书香门第", "勤能补拙", "学海无涯", "天道酬勤")),
        ("书山有路勤為徑", "學海無涯苦作舟", ("書香門第", "勤能補拙", "天道酬勤")),
        ("春风送暖千山秀", "骏马奔腾万象新", ("春满人间",)),
        ("玉液", "金波", (None,)),
        ("一二三四五", "六七八九十", (None,)),
    ],
)
def test_a_banner_belongs_to_the_couplet_or_there_is_none(
    first: str, second: str, expected: tuple[str | None, ...]
) -> None:
    assert banner(first, second) in expected


def test_banners_are_four_chinese_characters() -> None:
    phrases = [row.split(" ")[0] for row in read_words("banners.txt")]
    assert len(phrases) == len(set(phrases)) > 50
    assert all(len(phrase) == 4 and all(map(is_chinese, phrase)) for phrase in phrases)


def test_a_line_that_is_too_long_for_a_picture_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="a line of a picture has at most 60 characters"):
        draw_couplet(tmp_path / "none.png", "春" * 61, "秋" * 61)
    assert not (tmp_path / "none.png").exists()


@pytest.mark.parametrize(
    ("text", "simple", "is_it"),
    [
        ("春風送暖，萬里河山", "春风送暖，万里河山", True),
        ("後來居上", "后来居上", True),
        ("春风送暖", "春风送暖", False),
        ("乾坤朗朗", "乾坤朗朗", False),  # the same in both
        ("国家於此", "国家于此", False),  # one old spelling in a simplified line
        ("hello，", "hello，", False),
    ],
)
def test_the_script_of_a_line(text: str, simple: str, is_it: bool) -> None:
    assert simplified(text) == simple
    assert is_traditional(text) == is_it
    assert len(traditional(text)) == len(text)


def test_phrases_decide_between_traditional_characters() -> None:
    assert traditional("头发发展，皇后后来") == "頭髮發展，皇后後來"


@pytest.mark.parametrize("paper", PAPERS)
def test_a_picture_has_the_size_of_its_paper(paper: str, tmp_path: Path) -> None:
    """Also for lines that are longer than they are on paper of their own size."""
    draw_couplet(tmp_path / "a.png", "春" * 12, "秋" * 12, "一元复始", paper=paper)
    height, width, _ = imread(tmp_path / "a.png").shape
    assert (width, height) == {"fit": (396, 1056), "a4": (992, 1402), "square": (960, 960)}[paper]
