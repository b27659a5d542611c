"""The rules of the couplet: checks of finished pairs, and the constraint on what comes next."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.growth import growth
from transformer_suite.data.vocabulary import EOS_ID, PAD_ID, SPECIALS, UNK_ID, Vocabulary
from transformer_suite.tasks.couplet.rules import (
    LEVEL,
    OBLIQUE,
    RULES,
    CharacterTable,
    CoupletConstraint,
    check,
    first_positions,
    is_punctuation,
    split_line,
    tones,
    wants_level_end,
)

WORDS = Vocabulary([*SPECIALS, *"，。风天山雨地水树"])
LEVELS, OBLIQUES = "风天山", "雨地水树"
CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("characters", "expected"),
    [
        ("风天山花云江红", {LEVEL}),  # first and second tone
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


def kept(first: str, second: str) -> set[str]:
    found = check(first, second)
    assert tuple(found) == RULES
    return {rule for rule, is_kept in found.items() if is_kept}


@pytest.mark.parametrize(
    ("first", "second", "broken"),
    [
        ("晚风摇树树还挺", "晨露润花花更红", set()),  # 挺 is oblique, 红 is level
        ("风，雨", "天，山", set()),
        ("风雨", "天山", set()),
        ("雨风", "山地", set()),  # the first line ends level: the second may end as it likes
        ("风雨", "天地", {"tones"}),
        ("风雨", "天", {"length", "repetition"}),
        ("风，雨", "天山，", {"punctuation"}),
        ("风，雨", "天。山", {"punctuation"}),
        ("风，雨", "天地山", {"punctuation", "repetition"}),
        ("风雨", "雨山", {"characters"}),
        ("风雨雨", "天山花", {"repetition"}),
        ("风雨水", "天天山", {"repetition"}),
        ("风雨，", "天地，", {"tones"}),  # the last word counts, not the mark behind it
        ("，。", "，。", set()),
        ("", "", set()),
    ],
)
def test_each_rule_is_seen_broken(first: str, second: str, broken: set[str]) -> None:
    assert set(RULES) - kept(first, second) == broken


def test_a_line_of_several_readings_asks_for_a_level_end() -> None:
    assert wants_level_end("月中")
    assert wants_level_end("风雨。")
    assert not wants_level_end("雨风")
    assert not wants_level_end("，。")
    assert not wants_level_end("")


def test_repetitions_are_told_by_first_positions() -> None:
    assert first_positions("树树还树挺还") == [0, 0, 2, 0, 4, 2]


# the constraint


def allowed(first: str, prefix: str, vocabulary: Vocabulary = WORDS) -> str:
    """What may come after ``prefix``; "$" is the end."""
    constraint = CoupletConstraint([list(first)], CharacterTable(vocabulary, CPU))
    ids = torch.tensor([[vocabulary.stoi[c]] for c in prefix]).reshape(len(prefix), 1)
    (forbidden,) = constraint(ids, torch.tensor([0]))
    names = ["?", "?", "?", "$", *vocabulary.itos[4:]]
    return "".join(names[i] for i in (~forbidden).nonzero().flatten().tolist())


@pytest.mark.parametrize(
    ("first", "prefix", "expected"),
    [
        ("风雨地", "", "天山水树"),  # no mark, nothing of the first line
        ("风雨地", "水", "天山树"),  # nothing that was said already
        ("风雨地", "天", "水树"),  # and 山, the last level word, is for the end
        ("风雨地", "天水", "山"),  # a level word at the end
        ("风雨地", "天水山", "$"),  # and no more
        ("风，地", "天", "，"),
        ("风，地", "天，", "山"),
        ("雨，风", "天，", "山地水树"),  # no tone is asked for; 地 is not in the first line
        ("雨雨风", "天", "天"),  # where the first line repeats, so does the answer
        ("雨风雨", "", "天山"),  # the word that will come back at the end must be level
        ("雨风雨", "天", "山地水树"),
        ("雨风雨", "天地", "天"),
        ("雨，雨。", "", "风天山"),
        ("雨", "", "风天山"),
        ("，。", "", "，"),
        ("，。", "，", "。"),
        ("，。", "，。", "$"),
        ("！雨", "", "，"),  # a mark that is not known is held by one that is
        ("猫狗", "", "风天山雨地水树"),  # unknown words ask for as many words
        ("猫猫", "风", "风"),
        ("猫狗", "风", "天山"),  # 狗 is oblique though the vocabulary does not know it
    ],
)
def test_what_may_come_next(first: str, prefix: str, expected: str) -> None:
    assert allowed(first, prefix) == expected


def test_the_last_level_word_is_kept_for_the_end() -> None:
    """Greedily spent at the start, it left the line to end in an oblique tone."""
    vocabulary = Vocabulary([*SPECIALS, *"风雨地水树"])
    assert allowed("天夜月", "", vocabulary) == "雨地水树"
    assert allowed("天夜月", "雨", vocabulary) == "地水树"
    assert allowed("天夜月", "雨地", vocabulary) == "风"
    assert allowed("月夜月", "", vocabulary) == "风"
    assert allowed("月夜月", "风", vocabulary) == "雨地水树"


@pytest.mark.parametrize(
    ("words", "first", "prefix", "expected"),
    [
        ("雨地", "月", "", "雨地"),  # no level word: the tones go
        ("雨地", "雨月", "地", "雨"),  # nothing new: what the first line has
        ("雨", "雨月", "雨", "雨"),  # nothing but this
        ("风", "月夜", "", "风"),  # reserved for the end, and all there is
        ("，。", "月夜", "", "，。"),  # no word at all
        ("雨", "，月", "", "雨"),  # no mark at all
    ],
)
def test_a_vocabulary_that_is_too_small_gives_what_it_has(
    words: str, first: str, prefix: str, expected: str
) -> None:
    """With every next token forbidden greedy search wrote <unk>, and beam search NaN."""
    assert allowed(first, prefix, Vocabulary([*SPECIALS, *words])) == expected


characters = st.text(st.sampled_from("，。！风天山雨地水树猫狗a"), min_size=1, max_size=8)


@given(
    lines=st.lists(characters, min_size=1, max_size=3),
    words=st.text(st.sampled_from("，。风天山雨地"), min_size=1).map(lambda t: "".join(set(t))),
    data=st.data(),
)
def test_there_is_always_a_way_on(lines: list[str], words: str, data: st.DataObject) -> None:
    """Even after nonsense, which beams that fell out of the running are full of."""
    vocabulary = Vocabulary([*SPECIALS, *words])
    constraint = CoupletConstraint([list(x) for x in lines], CharacterTable(vocabulary, CPU))
    rows = data.draw(st.lists(st.integers(0, len(lines) - 1), min_size=1, max_size=5))
    length = data.draw(st.integers(0, 9))
    ids = st.integers(0, len(vocabulary) - 1)
    prefix = data.draw(st.lists(st.lists(ids, min_size=len(rows), max_size=len(rows))))
    prefix = (prefix * 9)[:length]
    forbidden = constraint(
        torch.tensor(prefix, dtype=torch.long).reshape(len(prefix), len(rows)), torch.tensor(rows)
    )
    assert forbidden.shape == (len(rows), len(vocabulary))
    assert not forbidden.all(dim=1).any()
    assert forbidden[:, [UNK_ID, PAD_ID, 2]].all()
    is_over = [len(prefix) >= len(lines[row]) for row in rows]
    assert (~forbidden[:, EOS_ID]).tolist() == is_over


def test_rows_of_a_batch_have_rules_of_their_own() -> None:
    table = CharacterTable(WORDS, CPU)
    constraint = CoupletConstraint([list("雨，"), list("风"), list("地水雨地")], table)
    sentences = torch.tensor([2, 0, 2, 1])
    prefix = torch.tensor([[WORDS.stoi[c] for c in "天山树水"]])
    forbidden = constraint(prefix, sentences)
    words = ["".join(WORDS.itos[i] for i in (~row).nonzero().flatten()) for row in forbidden]
    assert words == ["风山树", "，", "风天山", "<eos>"]


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

    assert growth(cut, 50_000, 200_000) < 12
