"""Candidates: drawn within the form, and ranked by more than their probability."""

import operator
from dataclasses import replace

import pytest

from core.errors import ConfigError
from tasks.couplet.config import RerankConfig
from tasks.couplet.predict import NO_GOOD_ANSWER, CoupletWriter
from tasks.couplet.reranking import Features, features_of, is_different, rank
from tasks.seq2seq.request import GenerationRequest
from tests.tasks.tiny_models import CPU, untrained_writer
from tests.tasks.tiny_writers import LEVELS, MARKS, OBLIQUES, WRITERS, check_form

WRITER = WRITERS[0]
FIRST = "天雨，树月"
SECONDS = ["风地，花水", "花地，云水", "江夜，山日", "花夜，江日"]
SMALL = RerankConfig(pool=16, temperature=9.0)


def writer_of(rerank: RerankConfig, *, number: int = 0) -> CoupletWriter:
    of = WRITERS[number]
    return CoupletWriter(of.models, of.codec, replace(of.config, rerank=rerank), CPU)


def features(first: str, seconds: list[str]) -> list[Features]:
    return features_of(first, seconds, WRITER)


def ranked(first: str, seconds: list[str], count: int, **weights: float) -> list[tuple[int, float]]:
    config = RerankConfig(**dict.fromkeys(("backward", "rarity"), 0.0) | weights)
    return rank(features(first, seconds), seconds, config, count)


def test_features_are_the_scores_of_both_directions_per_character() -> None:
    found = features(FIRST, SECONDS)
    for second, of in zip(SECONDS, found, strict=True):
        assert of.forward == pytest.approx(WRITER.score(FIRST, second).log_prob / 5, abs=1e-4)
        assert of.backward == pytest.approx(WRITER.score(second, FIRST).log_prob / 5, abs=1e-4)


def test_rare_characters_are_those_late_in_the_vocabulary() -> None:
    """天 is the third, 日 the thirteenth, and the marks are the last of all."""
    frequent, rare = features("风风", ["天天", "日日"])
    assert 0.0 < frequent.rarity < rare.rarity
    unknown, *_ = features("风风", ["猫猫"])
    assert unknown.rarity == 0.0


@pytest.mark.parametrize("name", ["backward", "rarity"])
def test_a_weight_decides_the_order(name: str) -> None:
    found = features(FIRST, SECONDS)
    best, *_ = ranked(FIRST, SECONDS, 4, **{name: 1e6})
    assert best[0] == max(range(4), key=lambda i: getattr(found[i], name))
    forward = ranked(FIRST, SECONDS, 1)
    assert forward[0][1] == pytest.approx(max(of.forward for of in found))


def test_candidates_much_like_a_better_one_are_left_out_and_the_best_come_first() -> None:
    """Where too few differ, an alternative that scored less stood before a better one."""
    assert not is_different("风地花水", "风地花日")
    assert is_different("风地花水", "花夜云水")
    alike = ["风地花水", "风地花日", "江夜山日"]
    scores = [score for _, score in ranked("天雨树月", alike, 3)]
    assert scores == sorted(scores, reverse=True)
    order = [i for i, _ in ranked("天雨树月", alike, 3)]
    chosen = {i for i, _ in ranked("天雨树月", alike, 2)}
    assert chosen == {2, min((0, 1), key=order.index)}


def test_candidates_keep_the_form_and_differ() -> None:
    writer = writer_of(SMALL)
    (couplet,) = writer.generate(FIRST, GenerationRequest(candidates=4))
    seconds = [one.second for one in couplet.hypotheses]
    assert len(seconds) == len(set(seconds)) == 4
    for one in couplet.hypotheses:
        check_form(writer, FIRST, one.second)
        assert all(one.rules.values())


def test_a_line_has_the_same_candidates_wherever_it_stands() -> None:
    writer = writer_of(SMALL)
    options = {"candidates": 3}
    alone = writer.answer_scored(FIRST, **options)
    _, empty, *rest = writer.answer_scored(["风雨", "", "山树云夜", FIRST], **options)
    assert (empty.second, empty.others) == ("", ())
    assert [one.second for one in rest[-1].hypotheses] == [one.second for one in alone.hypotheses]
    assert rest[-1].score == pytest.approx(alone.score, abs=1e-4)


def test_answers_are_ranked_by_default_where_the_model_says_so() -> None:
    plain, ranked = writer_of(SMALL), writer_of(replace(SMALL, is_default=True))
    assert [ranked.answer(FIRST)] == plain.answer(FIRST, candidates=1)
    assert ranked.answer(FIRST, beam_size=3) == plain.answer(FIRST, beam_size=3)
    assert plain.answer(FIRST) == plain.answer(FIRST, beam_size=1)


def test_several_outputs_of_a_model_that_ranks_by_default_are_candidates() -> None:
    """The first of them is the answer without options; more than a pool are those of a search."""
    ranked = writer_of(replace(SMALL, is_default=True))
    best = ranked.answer_scored(FIRST, n_best=3)
    assert best == ranked.answer_scored(FIRST, candidates=3)
    assert best.second == ranked.answer(FIRST)
    beam = ranked.answer_scored(FIRST, n_best=3, beam_size=3)
    assert beam == writer_of(SMALL).answer_scored(FIRST, n_best=3, beam_size=3)
    for count in (0, 201):
        with pytest.raises(ConfigError, match="n_best must be"):
            ranked.answer(FIRST, n_best=count)


def test_a_prefix_and_a_long_line_have_candidates_too() -> None:
    writer = writer_of(SMALL)
    for one in writer.answer_scored(FIRST, candidates=3, prefix="花").hypotheses:
        assert one.second.startswith("花")
    short = untrained_writer(LEVELS + OBLIQUES + MARKS, max_len=6)
    line = "天雨树月，山地风水"
    found = short.answer_scored(line, candidates=3)
    assert len(found.hypotheses) == 3
    assert [one.score for one in found.hypotheses] == sorted(
        (one.score for one in found.hypotheses), reverse=True
    )
    # Those of both searches are compared, so they have the same kind of score.
    rerank = replace(SMALL, pool=1, beam=16)
    few = CoupletWriter(short.models, short.codec, replace(short.config, rerank=rerank), CPU)
    searched = short.answer_scored(line, beam_size=16, length_penalty=0.0)
    assert few.answer_scored(line, candidates=1).score == pytest.approx(searched.score, abs=1e-4)


def test_the_answers_of_a_beam_are_candidates_too() -> None:
    """A trace is that of the search that found the answer."""
    lines = [FIRST, "风雨"]
    writer = writer_of(replace(SMALL, pool=1, beam=16, is_default=True))
    searched = writer.answer(lines, beam_size=16, n_best=16)
    assert all(map(operator.contains, searched, writer.answer(lines)))
    drawing = writer_of(replace(SMALL, pool=16, beam=1, is_default=True))
    for line in lines:
        assert writer.trace(line).output == writer.answer(line)
        assert drawing.trace(line).output == drawing.answer(line)


def test_a_note_says_where_no_candidate_is_good() -> None:
    lines = [FIRST, "风雨"]
    assert not any(found.note for found in writer_of(SMALL).answer_scored(lines, candidates=2))
    limit = writer_of(SMALL).answer_scored(FIRST, candidates=1).score
    for poor in (limit - 1e-3, limit + 1e-3):
        found = writer_of(replace(SMALL, poor=poor)).answer_scored(FIRST, candidates=2)
        noted = NO_GOOD_ANSWER if poor > limit else ""
        assert found.note == noted and found.record().get("note", "") == noted
        assert not found.others[0].note


def test_other_searches_and_impossible_numbers_are_refused() -> None:
    writer = writer_of(SMALL)
    with pytest.raises(ConfigError, match="beam_size is not for candidates"):
        writer.answer(FIRST, candidates=2, beam_size=4, n_best=2)
    with pytest.raises(ConfigError, match="candidates must be at least 1"):
        writer.answer(FIRST, candidates=0)
    with pytest.raises(ConfigError, match=r"rerank\.pool must be at most 200"):
        RerankConfig(pool=201)
