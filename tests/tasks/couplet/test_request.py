"""What is asked of a couplet writer beside the search: given characters, tones, script, words."""

from pathlib import Path
from typing import Any

import pytest

from core.errors import ConfigError, CorpusError, TextError
from tasks.couplet.request import CoupletRequest, read_avoided
from tasks.couplet.tones import LEVEL, OBLIQUE, tones
from tests.tasks.tiny_models import untrained_writer
from tests.tasks.tiny_writers import LEVELS, MARKS, OBLIQUES, WRITERS, check_form

BEAM: dict[str, Any] = {"beam_size": 4}
SAMPLE: dict[str, Any] = {"sample": True, "temperature": 2.0}


@pytest.mark.parametrize("options", [{}, BEAM, SAMPLE, {"candidates": 2}])
def test_given_characters_are_kept_where_they_are(options: dict[str, Any]) -> None:
    writer = WRITERS[0]
    for couplet in writer.answer_scored("天雨，月", keep="？ 山？？", **options).hypotheses:
        assert couplet.second[1] == "山"
        check_form(writer, "天雨，月", couplet.second)
    assert writer.answer_scored("月雨月", keep="？？花", **options).second[0] == "花"


@pytest.mark.parametrize(
    ("keep", "reason"),
    [
        ("山？", "keep must have 3 characters, as '天雨月' has, not 2"),
        ("？猫？", "does not know '猫'"),
        ("？天？", "keep '？天？' is in no answer to '天雨月': it breaks the rule of characters"),
        ("？？地", "breaks the rule of ending"),
        ("山？山", "breaks the rule of repetition"),
        ("，？？", "breaks the rule of punctuation"),
        ("  ", "keep must be a text of at least one character"),
    ],
)
def test_a_pattern_that_no_answer_can_have_is_refused(keep: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        WRITERS[0].answer("天雨月", keep=keep)


def test_a_long_line_is_answered_in_parts_and_says_so() -> None:
    writer = untrained_writer(LEVELS + OBLIQUES, max_len=5)
    lines = ["山水月日云夜", "天雨天地雨天云", "风地花树江水天"]
    for line, found in zip(lines, writer.answer_scored(lines, tones="off"), strict=True):
        lost = sorted({"characters", "repetition", "palindrome"} & found.broken.keys())
        expected = "a line of more than 4 characters is answered in parts; the whole breaks the "
        assert found.note == (f"{expected}rule of {', '.join(lost)}" if lost else ""), line
    assert any(found.note for found in writer.answer_scored(lines, tones="off"))
    assert writer.answer_scored("天雨天地", tones="off").note == ""


def test_tones_hold_where_they_are_asked_for() -> None:
    for first in ("天雨树月夜", "风月，花夜", "地天雨云水"):
        strict = WRITERS[1].answer_scored(first, tones="strict")
        assert strict.rules["tones"] and strict.rules["ending"] and not strict.note


def test_an_answer_without_enough_fitting_words_says_which_do_not_fit() -> None:
    writer = untrained_writer("地水树夜风雨云月")
    couplet = writer.answer_scored("风雨云月", tones="strict")  # needs level words, has none
    alike = f"{couplet.broken['ending']} {couplet.broken['tones']}"
    assert couplet.note == f"no answer has all tones opposed; alike: {alike}"
    assert writer.answer_scored("风雨云月", tones="off").note == ""


def test_unknown_characters_are_named() -> None:
    writer = untrained_writer("地水风雨，。")
    note = writer.answer_scored("风Q雨云Q。", tones="off").note
    assert note.startswith("the model does not know Q 云: ")
    assert not writer.answer_scored("风雨，风雨", tones="off").note


def test_the_classical_table_decides_if_asked() -> None:
    """疗 is level today and oblique by Pingshui: another tone answers it."""
    writer = untrained_writer(LEVELS + OBLIQUES + MARKS, seed=2)
    for rhyme, tone in (("modern", OBLIQUE), ("pingshui", LEVEL)):
        second = writer.answer("天疗", rhyme=rhyme, tones="strict")
        assert tones(second[1], rhyme) == {tone}


def test_traditional_lines_have_traditional_answers() -> None:
    writer = untrained_writer("风云门龙马鸟东来", seed=3)
    second = writer.answer("時間不見")
    assert second == writer.answer("时间不见", script="traditional")
    assert writer.answer("時間不見", script="simplified") == writer.answer("时间不见")
    assert not set(second) & set("风云门龙马鸟东来")
    assert second[0] == writer.answer("時間不見", keep=f"{second[0]}？？？")[0]


def test_words_to_avoid_are_not_in_any_answer() -> None:
    writer = WRITERS[2]
    plain = writer.answer("天雨树月夜", **BEAM)
    words = [plain[:2], plain[3]]
    found = writer.answer_scored("天雨树月夜", n_best=4, avoid=words, **BEAM)
    assert not any(word in one.second for one in found.hypotheses for word in words)


@pytest.mark.parametrize("line", ["他妈的天", "他媽的天"])
def test_a_line_with_a_rude_word_is_refused(line: str) -> None:
    with pytest.raises(TextError, match="has the word '他妈', which no couplet is written for"):
        WRITERS[0].answer(line)
    assert WRITERS[0].answer("花柳")  # harmless in verse


def test_wrong_options_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"form\.tones must be one of off, ending, strict"):
        CoupletRequest(tones="loud")
    with pytest.raises(ConfigError, match="script must be one of auto"):
        CoupletRequest(script="latin")
    with pytest.raises(ConfigError, match="prefix is for answers without a pattern"):
        CoupletRequest(keep="春？", prefix="春")
    with pytest.raises(ConfigError, match="avoid must be words of 1 to 20 characters"):
        CoupletRequest(avoid=["春" * 21])
    with pytest.raises(ConfigError, match="unknown option 'tone'; did you mean 'tones'"):
        WRITERS[0].answer("天", tone="off")


def test_words_to_avoid_are_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_text("风 月\n\n千秋\n", encoding="utf-8")
    assert read_avoided(path) == ("风月", "千秋")
    path.write_text(f"风\n{'春' * 21}\n", encoding="utf-8")
    with pytest.raises(CorpusError, match=r"words\.txt:2: 21 characters"):
        read_avoided(path)
    path.write_text("，\n", encoding="utf-8")
    with pytest.raises(CorpusError, match=r"words\.txt:1: no word"):
        read_avoided(path)
