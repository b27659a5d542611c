"""The couplet writer: whatever the model has learnt, or not, the form is kept."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st

from core.errors import CorpusError, TextError
from tasks.couplet.predict import CoupletWriter
from tasks.couplet.rules import RULES
from tasks.couplet.tones import is_chinese
from tasks.task import task_named
from tests.tasks.tiny_models import measured, untrained_writer
from tests.tasks.tiny_writers import LEVELS, MARKS, OBLIQUES, UNKNOWN, WRITERS, check_form, marks

WORDS = ("风", "雨", "，", "风雨地", "雨地，", "风天，。", "山水月日！")
SMALL = [*map(untrained_writer, WORDS)]


lines = st.text(
    st.sampled_from(LEVELS[:3] + OBLIQUES[:4] + MARKS + UNKNOWN), min_size=1, max_size=9
).filter(lambda line: any(map(is_chinese, line)))


@given(
    beam_size=st.sampled_from([1, 2, 5]),
    firsts=st.lists(lines, min_size=1, max_size=4),
    number=st.integers(0, 2),
)
def test_every_answer_keeps_the_form(beam_size: int, firsts: list[str], number: int) -> None:
    writer = WRITERS[number]
    couplets = writer.answer_scored(firsts, beam_size=beam_size)
    for first, couplet in zip(firsts, couplets, strict=True):
        check_form(writer, first, couplet.second)
        assert math.isfinite(couplet.score)
        assert couplet.rules["length"] and couplet.rules["punctuation"]


@pytest.mark.parametrize("options", [{"beam_size": 4}, {"sample": True}])
def test_letters_answer_letters(options: dict[str, Any]) -> None:
    for letters in ("BCDE", "B"):
        writer = untrained_writer(f"风天山花云江人雨地水树月，{letters}", seed=1)
        for first in ("app天人", "ａ水，月Bb"):
            couplet = writer.answer_scored([first], **options)[0]
            assert [c in letters for c in couplet.second] == [c in "apａBb" for c in first]
            assert couplet.rules["repetition"] and couplet.rules["characters"]
    assert writer.score("風ｂ", "雲b") == writer.score("风B", "云B")
    with pytest.raises(TextError, match="'b' has no Chinese character"):
        writer.answer("b")


@given(
    beam_size=st.sampled_from([1, 4]),
    firsts=st.lists(lines, min_size=1, max_size=3),
    number=st.integers(0, len(SMALL) - 1),
)
def test_a_vocabulary_too_small_for_the_rules_answers_all_the_same(
    beam_size: int, firsts: list[str], number: int
) -> None:
    writer = SMALL[number]
    couplets = writer.answer_scored(firsts, beam_size=beam_size)
    for first, couplet in zip(firsts, couplets, strict=True):
        check_form(writer, first, couplet.second)
        assert math.isfinite(couplet.score)


@pytest.mark.parametrize("line", ["hello", "，。", "12 + 3", "🙂", "こんにちは"])
def test_a_line_without_a_chinese_character_is_refused(line: str) -> None:
    """``hello`` was answered with five Chinese characters, as if it were a first line."""
    with pytest.raises(TextError, match=r"has no Chinese character: it cannot begin a couplet$"):
        WRITERS[0].answer(["天雨", line])
    assert WRITERS[0].answer(["a天", "々雨", "〇"])[0]


def test_lines_keep_their_order_and_empty_ones_their_place() -> None:
    writer = WRITERS[0]
    firsts = ["天雨", "", "风 月", "  ", "山树，云夜，花地", "风月"]
    alone = [writer.answer(firsts[i : i + 1])[0] for i in range(len(firsts))]
    assert writer.answer(firsts) == alone
    assert writer.answer(firsts, batch_tokens=1) == alone
    assert alone[1] == alone[3] == ""
    assert alone[2] == alone[5]
    assert len(alone[2]) == 2
    (empty,) = writer.answer_scored([""])
    assert (empty.score, all(empty.rules.values())) == (0.0, True)
    assert writer.answer([]) == []


@pytest.mark.parametrize("beam_size", [1, 3])
def test_lines_longer_than_the_model_are_answered_in_pieces(beam_size: int) -> None:
    writer = untrained_writer(LEVELS + OBLIQUES + MARKS, max_len=8)
    counts: list[int] = []
    line = "天雨，风月树。" * 5 + "山地水夜" * 6
    (couplet,) = writer.answer_scored([line], beam_size=beam_size, on_batch=counts.append)
    assert len(couplet.second) == len(line)
    assert marks(couplet.second) == marks(line)
    assert sum(counts) == 5 + 4
    # Cut behind a mark where there is one: each piece is a line that keeps the rules.
    for start in range(0, 35, 7):
        check_form(writer, line[start : start + 7], couplet.second[start : start + 7])
    just = "天雨风月树山地"
    assert len(writer.answer([just])[0]) == 7


def test_the_rules_are_told_as_they_came_out() -> None:
    (good,) = WRITERS[0].answer_scored(["天雨，风月"])
    assert good.rules == dict.fromkeys(RULES, True)
    (poor,) = untrained_writer("雨").answer_scored(["月雨"])
    assert poor.second == "雨雨"
    assert poor.broken == {
        "characters": "雨",
        "repetition": "word 2",
        "ending": "雨雨",
        "tones": "雨雨",
        "rhyme": "雨雨",
    }
    assert {rule for rule, is_kept in poor.rules.items() if not is_kept} == set(poor.broken)


def test_the_names_of_the_weights_stay() -> None:
    """Models that were trained and shipped are loaded by these names."""
    names = {name for name, _ in WRITERS[0].models[0].named_parameters()}
    parts = {"src_embedding", "transformer", "generator", "alignment"}
    assert {name.split(".")[0] for name in names} == parts
    assert not any(name.startswith("tgt_embedding") for name in names)
    assert "generator.weight" not in names  # one table for both lines and the output


# with a trained model


def test_the_report_is_about_what_the_writer_says(
    tiny_models: Callable[[str], Path], tiny_corpora: dict[str, Path]
) -> None:
    model, corpus = tiny_models("couplet"), tiny_corpora["couplet"]
    report: dict[str, Any] = measured("couplet", model, corpus)
    firsts, seconds = (
        (corpus / "test" / name).read_text().replace(" ", "").splitlines()
        for name in ("in.txt", "out.txt")
    )
    couplets = CoupletWriter.load(model, device="cpu").answer_scored(firsts)
    bleu = sacrebleu.corpus_bleu([c.second for c in couplets], [seconds], tokenize="char")
    assert report["bleu"] == bleu.score
    assert "tok:char" in report["bleu_signature"]
    assert report["perplexity"] == pytest.approx(math.exp(report["loss"]))
    assert report["couplets"] == 16
    assert report["rules"] == {
        rule: sum(c.rules[rule] for c in couplets) / 16 for rule in couplets[0].rules
    }
    for rule in ("length", "punctuation", "characters", "repetition", "ending", "tones"):
        assert report["rules"][rule] == 1.0
    assert report["rules_of_references"]["length"] == 1.0
    assert report["rules_of_references"]["ending"] < 1.0
    assert report["headline"].startswith("form 100.0%, perplexity ")
    table = task_named("couplet").evaluate(model, corpus).table()
    assert "16 couplets" in table
    assert all(any(line.startswith(rule) for line in table.splitlines()) for rule in RULES)
    wide = measured("couplet", model, corpus, split="val", beam_size=3)
    assert wide["split"] == "val"
    assert wide["rules"]["length"] == 1.0


def test_a_test_line_too_long_for_the_model_is_answered_and_counted(
    tiny_models: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, line in (("in.txt", "天" * 70), ("out.txt", "地" * 70)):
        (tmp_path / "test").mkdir(exist_ok=True)
        (tmp_path / "test" / name).write_text(f"风雨\n{line}\n", encoding="utf-8")
    report = measured("couplet", tiny_models("couplet"), tmp_path)
    assert report["couplets"] == 2
    assert report["rules"]["length"] == 1.0
    assert "test: 1 of 2 pairs" in capsys.readouterr().err


def test_a_line_that_is_refused_is_counted_and_left_out(
    tiny_models: Callable[[str], Path], tmp_path: Path
) -> None:
    """One coarse word in a corpus ended its evaluation."""
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "in.txt").write_text("风雨\n他妈的天\n", encoding="utf-8")
    (tmp_path / "test" / "out.txt").write_text("天山\n风花雪月\n", encoding="utf-8")
    report = task_named("couplet").evaluate(tiny_models("couplet"), tmp_path)
    assert (report.record()["couplets"], report.record()["refused"]) == (1, 1)
    assert "left out        1 first lines, which are refused" in report.table()
    (tmp_path / "test" / "in.txt").write_text("hello\n他妈的天\n", encoding="utf-8")
    (tmp_path / "test" / "out.txt").write_text("你好世界吗\n风花雪月\n", encoding="utf-8")
    with pytest.raises(CorpusError, match="every first line of test is refused"):
        measured("couplet", tiny_models("couplet"), tmp_path)


def test_several_answers_are_a_list() -> None:
    writer = WRITERS[0]
    best = writer.answer_scored("天雨树月", beam_size=4, n_best=3)
    found = writer.answer("天雨树月", beam_size=4, n_best=3)
    assert found == [each.second for each in best.hypotheses] and len(found) == 3
    assert writer.answer(["天雨树月", ""], beam_size=4, n_best=3) == [found, [""]]


def test_unknown_digits_are_read_as_numerals() -> None:
    writer = untrained_writer("零二五年三四月九")
    assert writer.answer(["205年", "２０５年", "二〇五年"]) == [writer.answer("二零五年")] * 3
    knows_digits = untrained_writer("2二五年三四月九")
    assert "2" not in knows_digits.answer("2年月")  # a digit that is known is itself
