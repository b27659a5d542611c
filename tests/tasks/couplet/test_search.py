"""The options of the couplet writer's search, within the form."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from core.decoding.config import GenerationConfig
from core.errors import ConfigError
from data.vocabulary import EOS_ID
from tasks.couplet.config import CoupletConfig
from tasks.couplet.rules import broken_rule, check
from tasks.couplet.tones import is_chinese
from tests.tasks.tiny_models import untrained_writer
from tests.tasks.tiny_writers import LEVELS, MARKS, OBLIQUES, UNKNOWN, WRITERS, check_form

FIRSTS = ["天雨树月", "", "风月，花夜", "山树云夜"]
BEAM: dict[str, Any] = {"beam_size": 4}
SAMPLE: dict[str, Any] = {"sample": True, "temperature": 2.0}

# The rules that no given character may break.
FIRM = ("length", "punctuation", "characters", "repetition", "ending")

lines = st.text(
    st.sampled_from(LEVELS[:4] + OBLIQUES[:4] + MARKS + UNKNOWN[:4]), min_size=1, max_size=7
)
first_lines = lines.filter(lambda line: any(map(is_chinese, line)))


@given(first=lines, second=lines)
def test_a_whole_line_breaks_a_rule_where_the_check_says_so(first: str, second: str) -> None:
    second = second[: len(first)]
    broken = broken_rule(first, second)
    if len(second) == len(first):
        kept = check(first, second)
        assert broken == next((rule for rule in FIRM if not kept[rule]), None)


@pytest.mark.parametrize(
    ("first", "beginning", "rule"),
    [
        ("天雨", "山月风", "length"),
        ("天雨，月", "山月风", "punctuation"),
        ("天雨月", "山，", "punctuation"),
        ("天雨月", "月", "characters"),
        ("天雨月", "山山", "repetition"),
        ("天天月", "山风", "repetition"),
        ("天雨月", "山风雨", "characters"),
        ("天雨月", "山风地", "ending"),
        ("月雨月", "地", "ending"),
        ("天雨月", "山风云", None),
        ("天雨，月", "山", None),
        ("天雨，月", "山风，", None),
        ("月雨月", "山", None),
        ("天天月", "山山", None),
    ],
)
def test_a_beginning_breaks_the_first_rule_that_it_cannot_keep(
    first: str, beginning: str, rule: str | None
) -> None:
    assert broken_rule(first, beginning) == rule


@pytest.mark.parametrize("options", [{}, BEAM, BEAM | {"diversity": 0.5}, SAMPLE])
@settings(max_examples=25)
@given(firsts=st.lists(first_lines, min_size=1, max_size=3), number=st.integers(0, 2))
def test_every_alternative_keeps_the_form(
    options: dict[str, Any], firsts: list[str], number: int
) -> None:
    n_best = 3 if options else 1
    found = WRITERS[number].answer_scored(firsts, n_best=n_best, **options)
    for first, couplet in zip(firsts, found, strict=True):
        assert 1 <= len(couplet.hypotheses) <= n_best
        for one in couplet.hypotheses:
            check_form(WRITERS[number], first, one.second)
            assert one.rules == check(first, one.second)


@pytest.mark.parametrize("options", [BEAM, SAMPLE])
def test_the_first_of_several_is_the_answer(options: dict[str, Any]) -> None:
    writer = WRITERS[0]
    plain = writer.answer_scored(FIRSTS, **options)
    several = writer.answer_scored(FIRSTS, n_best=3, **options)
    assert [c.second for c in plain] == [c.second for c in several]
    assert [len(c.hypotheses) for c in several] == [3, 1, 3, 3]
    assert list(several[0].record()) == ["second", "score", "rules", "broken", "note"]
    apart = [writer.answer([first], numbers=[i], **options)[0] for i, first in enumerate(FIRSTS)]
    assert apart == [c.second for c in plain]


@pytest.mark.parametrize("options", [{}, BEAM, SAMPLE])
@settings(max_examples=50)
@given(first=first_lines, beginning=lines, number=st.integers(0, 2))
def test_an_answer_begins_as_it_is_told_to_or_cannot(
    options: dict[str, Any], first: str, beginning: str, number: int
) -> None:
    writer = WRITERS[number]
    is_known = all(c in writer.codec.vocabulary or c in "！《》" for c in beginning)
    if broken_rule(first, beginning) or not is_known:
        with pytest.raises(ConfigError):
            writer.answer([first], prefix=beginning, **options)
    else:
        (second,) = writer.answer([first], prefix=beginning, **options)
        assert second.startswith(beginning)
        check_form(writer, first, second)


def test_a_prefix_that_cannot_be_is_refused_by_its_reason() -> None:
    writer = WRITERS[0]
    with pytest.raises(ConfigError, match=r"prefix '雨' is in no answer to '天雨': .* characters"):
        writer.answer(["风月", "天雨"], prefix="雨")
    with pytest.raises(ConfigError, match="prefix '山 猫': the model does not know '猫'"):
        writer.answer(["天雨月"], prefix="山 猫")
    with pytest.raises(ConfigError, match="prefix must be a text of at least one character"):
        writer.answer(["天雨"], prefix=" ")
    assert writer.answer(["", "天雨"], prefix="山")[0] == ""
    for unknown in ("猫", ""):
        with pytest.raises(ConfigError, match="prefix"):
            writer.answer([], prefix=unknown)


def test_a_line_in_segments_begins_once() -> None:
    writer = untrained_writer(LEVELS + OBLIQUES + MARKS, max_len=8)
    line = "天雨，风月树。" * 3
    free = writer.answer(line)
    prefix = next(character for character in "花云江" if character != free[0])
    begun = writer.answer(line, prefix=prefix)
    assert begun[0] == prefix
    assert begun[7:] == free[7:]


def test_the_form_alone_decides_the_length_and_what_repeats() -> None:
    for name in ("max_length", "min_length_ratio", "no_repeat_ngram"):
        with pytest.raises(ConfigError, match=rf"generation\.{name} must be left out: the form"):
            WRITERS[0].answer(["天雨"], **{name: 1})
    with pytest.raises(ConfigError, match=r"generation\.no_repeat_ngram must be 0"):
        CoupletConfig(generation=GenerationConfig(no_repeat_ngram=2))


def test_a_constraint_is_kept_with_the_form() -> None:
    writer = WRITERS[0]
    vocabulary = writer.codec.vocabulary
    plain = writer.answer(FIRSTS, **BEAM)
    is_used = torch.zeros(len(vocabulary), dtype=torch.bool)
    is_used[vocabulary.stoi[plain[3][0]]] = True

    def no_such_word(outputs: Tensor, numbers: Tensor) -> Tensor:
        return (numbers == 3).unsqueeze(1) & is_used

    found = writer.answer(FIRSTS, constraint=no_such_word, **BEAM)
    assert found[:3] == plain[:3]
    assert plain[3][0] not in found[3]
    check_form(writer, FIRSTS[3], found[3])


@pytest.mark.parametrize("options", [{}, BEAM, SAMPLE])
def test_a_constraint_that_leaves_nothing_is_an_error(options: dict[str, Any]) -> None:
    words = len(WRITERS[0].codec.vocabulary)

    def silence(outputs: Tensor, numbers: Tensor) -> Tensor:
        return (torch.arange(words) != EOS_ID).expand(len(numbers), -1)

    with pytest.raises(ConfigError, match="leaves no character for the answer to '天雨树月'"):
        WRITERS[0].answer(FIRSTS, constraint=silence, **options)
