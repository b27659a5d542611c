"""The constraint that makes a search keep the rules of the couplet."""

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from data.vocabulary import EOS_ID, PAD_ID, SPECIALS, UNK_ID, Vocabulary
from tasks.couplet.config import FormConfig
from tasks.couplet.constraint import CharacterTable, CoupletConstraint
from tasks.couplet.rules import RULES, check
from tasks.couplet.tones import tones

WORDS = Vocabulary([*SPECIALS, *"，。风天山雨地水树"])
CPU = torch.device("cpu")


def allowed(
    first: str, prefix: str, vocabulary: Vocabulary = WORDS, *, given: str = "", **form: str
) -> str:
    """What may come after ``prefix``; "$" is the end. ``given`` has 。 for a free place."""
    table = CharacterTable(vocabulary, CPU, FormConfig(**form))
    characters = [None if c == "。" else c for c in given]
    constraint = CoupletConstraint([list(first)], table, [characters])
    ids = torch.tensor([[vocabulary.stoi[c]] for c in prefix]).reshape(len(prefix), 1)
    (forbidden,) = constraint(ids, torch.tensor([0]))
    names = ["?", "?", "?", "$", *vocabulary.itos[4:]]
    return "".join(names[i] for i in (~forbidden).nonzero().flatten().tolist())


@pytest.mark.parametrize(
    ("first", "prefix", "expected"),
    [
        ("风雨地", "", "天山水树"),  # no mark, nothing of the first line
        ("风雨地", "水", "天山树"),  # nothing that was said already
        ("风雨地", "天", "山水树"),
        ("风雨地", "天水", "山"),  # a level word at the end
        ("风雨地", "天水山", "$"),  # and no more
        ("风，地", "天", "，"),
        ("风，地", "天，", "山"),
        ("雨，风", "天，", "地水树"),  # an oblique word answers a level one
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


@pytest.mark.parametrize(
    ("words", "first", "prefix", "expected"),
    [
        ("雨地", "月", "", "雨地"),  # no level word: the tones go
        ("雨地", "雨月", "地", "雨"),  # nothing new: what the first line has
        ("雨", "雨月", "雨", "雨"),  # nothing but this
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


@pytest.mark.parametrize(
    ("first", "prefix", "expected"),
    [
        ("风雨地水树", "天", "山"),  # place 2 answers 雨, place 4 answers 水
        ("雨风雨风地", "地", "水树"),
        ("雨风雨风地", "地水地", "水"),
    ],
)
def test_strict_tones_are_opposed_inside_the_line(first: str, prefix: str, expected: str) -> None:
    vocabulary = Vocabulary([*SPECIALS, *"风天山花云雨地水树"])
    found = allowed(first, prefix, vocabulary, tones="strict")
    assert set(found) >= set(expected)
    assert len({tuple(tones(c)) for c in found}) == 1
    loose = allowed(first, prefix, vocabulary, tones="off")
    assert set(found) <= set(loose)


def test_given_characters_stand_where_they_are_and_nowhere_else() -> None:
    vocabulary = Vocabulary([*SPECIALS, *"，。风天山花雨地水树"])
    assert allowed("江月夜", "", vocabulary, given="。花。") == "风天山雨地水树"
    assert allowed("江月夜", "雨", vocabulary, given="。花。") == "花"
    assert allowed("江夜江夜", "", vocabulary, given="。。山。") == "山"  # 江 comes again


def test_an_end_does_not_rhyme_if_another_can_be_had() -> None:
    vocabulary = Vocabulary([*SPECIALS, *"楼天"])
    assert allowed("柳", "", vocabulary) == "天"
    assert allowed("柳", "", vocabulary, tones="off") == "楼天"
    assert allowed("柳", "", Vocabulary([*SPECIALS, *"楼"])) == "楼"


def test_halves_that_answer_each_other_have_an_answer_that_does_so() -> None:
    vocabulary = Vocabulary([*SPECIALS, *"鸟语花香风人"])
    assert allowed("山清水秀", "鸟语", vocabulary, tones="off") == "花人"
    assert allowed("山清梅秀", "鸟语", vocabulary, tones="off") == "花香风人"


def test_words_to_avoid_do_not_come_up() -> None:
    vocabulary = Vocabulary([*SPECIALS, *"，天他妈山"])
    table = CharacterTable(vocabulary, CPU, avoided=frozenset(["天山", "山"]))
    constraint = CoupletConstraint([list("江月夜")], table)

    def names(prefix: str) -> str:
        ids = torch.tensor([[vocabulary.stoi[c]] for c in prefix]).reshape(len(prefix), 1)
        (row,) = constraint(ids, torch.tensor([0]))
        return "".join(vocabulary.itos[i] for i in (~row).nonzero().flatten())

    assert names("") == "天他妈"
    assert names("他") == "天"  # 他妈 is in the list that all answers avoid
    assert names("妈") == "天他"


common = "，。风天山花云江雨地水树月夜日看长"
first_lines = st.text(st.sampled_from(common), min_size=1, max_size=9).filter(
    lambda line: any(c not in "，。" for c in line)
)


@given(
    first=first_lines,
    number=st.integers(0, 2**32 - 1),
    rhyme=st.sampled_from(["modern", "pingshui"]),
)
def test_what_the_constraint_allows_keeps_every_rule_that_checks_a_pair(
    first: str, number: int, rhyme: str
) -> None:
    """Random answers under the constraint, over words enough for any line, have no fault.

    13 of 400 answers broke the tones: the check let phrases decide how an answer is read.
    """
    # A word that ends the line and stands before its end as well may need both tones, and few words
    # have them.
    assume(first[-1] not in first[:-1])
    vocabulary = Vocabulary([*SPECIALS, *"，。春人天家门光声香秋心高清万里喜庆笑语地福寿看处"])
    table = CharacterTable(vocabulary, CPU, FormConfig(tones="strict", rhyme=rhyme))
    constraint = CoupletConstraint([list(first)], table)
    rng, ids = torch.Generator().manual_seed(number), torch.empty(0, 1, dtype=torch.long)
    for _ in first:
        (forbidden,) = constraint(ids, torch.tensor([0]))
        choice = torch.multinomial((~forbidden).double(), 1, generator=rng)
        ids = torch.cat([ids, choice.unsqueeze(0)])
    second = "".join(vocabulary.itos[i] for i in ids.flatten())
    kept = check(first, second, rhyme)
    assert all(kept[rule] for rule in RULES if rule not in ("parallels", "rhyme"))
