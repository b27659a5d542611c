"""The couplet command: checks, candidates with their rules, layouts, and what is refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tasks.couplet.predict import CoupletWriter
from tasks.couplet.rules import RULES
from tests.commands.command_line import error_of, lines_of, run
from tests.tasks.tiny_models import write_two_way_model

Models = Callable[[str], Path]


def test_a_pair_of_ones_own_is_checked_without_a_model() -> None:
    lines = lines_of("couplet", "--check", "烟锁池塘柳", "炮镇海城楼")
    kept = [rule for rule in RULES if rule not in ("tones", "rhyme")]
    assert lines[:3] == ["✗ tones: 锁镇 塘城", "✗ rhyme: 柳楼", f"✓ {', '.join(kept)}"]
    assert lines[3].startswith("rhyme book: 中华新韵") and lines[3].endswith("either")
    *_, book = lines_of("couplet", "--check", "大漠孤烟直", "长河落日圆")
    assert "either: 直" in book
    check = ("couplet", "--check", "--json", "--rhyme", "pingshui")
    (line,) = lines_of(*check, "煙鎖池塘柳", "炮鎮海城樓")
    record = json.loads(line)
    assert record["broken"] == {"tones": "锁镇 塘城"}
    assert record["rhyme_book"].startswith("平水韵")
    assert [rule for rule, is_kept in record["rules"].items() if not is_kept] == ["tones"]


def test_a_checked_pair_keeps_its_own_characters() -> None:
    (line,) = lines_of("couplet", "--check", "--json", "煙鎖 池塘柳", "炮鎮海城樓")
    record = json.loads(line)
    assert (record["input"], record["second"]) == ("煙鎖池塘柳", "炮鎮海城樓")


@pytest.mark.parametrize(
    "option", ["--output x", "--input x", "--backward", "--tones off", "--beam 2", "--avoid x"]
)
def test_options_that_a_check_would_not_use_are_refused(option: str) -> None:
    """They were ignored: ``--check --output FILE`` wrote no file."""
    assert f"leave out {option.split()[0]}" in usage_of("--check", *option.split(), "春风", "秋月")


@pytest.mark.parametrize("pair", [("hello", "world"), ("春风", ""), ("，", "秋")])
def test_a_pair_without_chinese_is_not_checked(pair: tuple[str, str]) -> None:
    """``hello world`` had a tick for its tones."""
    assert "has no Chinese character: it is no line" in error_of(1, "couplet", "--check", *pair)


def usage_of(*arguments: object) -> str:
    result = run("couplet", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    return result.stderr


def test_layouts_that_do_not_fit_together_are_refused(tmp_path: Path) -> None:
    picture = tmp_path / "a.png"
    assert "two texts" in usage_of("--check", "春风")
    assert "leave out --vertical" in usage_of("--check", "--vertical", "春风", "秋月")
    assert "leave out --json" in usage_of("--banner", "--json", "春风")
    assert "leave out --candidates" in usage_of("--vertical", "--candidates", 2, "春风")
    assert "give one text" in usage_of("--picture", picture, "春风", "秋月")
    assert "must end in .png" in usage_of("--picture", tmp_path / "a.doc", "春风")
    assert "there is no folder" in usage_of("--picture", tmp_path / "x" / "a.png", "春风")


def test_candidates_end_with_their_rules(tiny_models: Models) -> None:
    model = tiny_models("couplet")
    found = CoupletWriter.load(model).answer_scored("春风", candidates=3).hypotheses
    lines = lines_of("couplet", "--model", model, "--candidates", 3, "春风")
    rows = [line.split("\t") for line in lines]
    assert [row[:2] for row in rows] == [["1", "1"], ["1", "2"], ["1", "3"]]
    assert [row[3] for row in rows] == [one.second for one in found]
    assert [row[4] for row in rows] == [
        " ".join(f"✗{rule}" for rule in one.broken) or "✓" for one in found
    ]


def test_on_a_terminal_a_couplet_stands_as_one_reads_it(
    tiny_models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("couplet", "--model", tiny_models("couplet"), "--tones", "off")
    plain, other = lines_of(*command, "春花绿心深", "天地")
    *_, last = lines_of(*command, "--candidates", 2, "天地")
    monkeypatch.setattr("tasks.commands.couplet.is_terminal", lambda: True)
    first, second, banner = lines_of(*command, "--banner", "春花绿心深")
    assert (first, second) == ("春花绿心深", plain)
    assert banner.startswith("横批：")
    assert lines_of(*command, "春花绿心深", "", "天地") == [
        first,
        second,
        "",
        "",
        "天地",
        other,
        "",
    ]
    rows = lines_of(*command, "--candidates", 2, "天地")
    assert [row.split()[0] for row in rows] == ["天地", "1", "2"]
    assert rows[2].split("  ")[-2:] == last.split("\t")[3:]
    assert [json.loads(line)["second"] for line in lines_of(*command, "--json", "天地")] == [other]


def test_a_couplet_is_written_downwards_with_its_banner(tiny_models: Models) -> None:
    model = tiny_models("couplet")
    command = ("couplet", "--model", model, "--tones", "off")
    (second,) = lines_of(*command, "春花")
    assert lines_of(*command, "--vertical", "春花", "春花") == 2 * [
        f"{second[0]}　　春",
        f"{second[1]}　　花",
        "",
    ]
    (line,) = lines_of(*command, "--banner", "春花绿心深")
    assert line.split("\t")[1] in ("春满人间", "鸟语花香", "春回大地", "春色满园")


def test_a_picture_has_a_banner_without_being_asked(
    tiny_models: Models, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[tuple[Any, ...]] = []
    monkeypatch.setattr(
        "tasks.couplet.layout.draw_couplet", lambda *parts, paper: drawn.append((*parts, paper))
    )
    command = ("couplet", "--model", tiny_models("couplet"), "--tones", "off", "--paper", "a4")
    (second,) = lines_of(*command, "--picture", tmp_path / "a.png", "春花绿心深")
    (parts,) = drawn
    assert parts[:3] == (tmp_path / "a.png", "春花绿心深", second)
    assert parts[3] in ("春满人间", "鸟语花香", "春回大地", "春色满园")
    assert parts[4] == "a4"


def test_a_banner_that_is_missing_is_reported(tiny_models: Models) -> None:
    command = ("couplet", "--model", tiny_models("couplet"), "--tones", "off", "--banner")
    result = run(*command, "一")
    assert result.exit_code == 0
    assert f"{result.stdout.strip()}: no banner fits" in result.stderr


def test_options_of_another_search_have_the_names_of_the_command(tiny_models: Models) -> None:
    command = ("couplet", "--model", tiny_models("couplet"), "--candidates", 2)
    message = error_of(2, *command, "--beam", 2, "--top-k", 3, "春")
    assert message == "error: --beam is not for candidates, which have their own search"


def test_options_of_the_form_reach_the_search(tiny_models: Models, tmp_path: Path) -> None:
    model = tiny_models("couplet")
    words = tmp_path / "words.txt"
    (plain,) = lines_of("couplet", "--model", model, "春风")
    words.write_text(f"{plain[0]}\n", encoding="utf-8")
    (other,) = lines_of("couplet", "--model", model, "--avoid", words, "春风")
    assert plain[0] not in other
    (kept,) = lines_of("couplet", "--model", model, "--keep", f"{other[0]}？", "春花")
    assert kept[0] == other[0]
    assert "keep must have 2 characters" in error_of(
        2, "couplet", "--model", model, "--keep", "春？？", "春风"
    )


def test_first_lines_need_a_model_of_both_directions(tiny_models: Models, tmp_path: Path) -> None:
    command, model = ("couplet", "--backward", "春风"), tmp_path / "model"
    message = error_of(2, *command, "--model", tiny_models("couplet"))
    assert "--backward needs a model that was trained in both directions" in message
    write_two_way_model(tiny_models("couplet"), model)
    (first,) = lines_of(*command, "--model", model)
    assert CoupletWriter.load(model, device="cpu").answer("春风", backward=True) == first


def test_the_shipped_model_writes_first_lines_too() -> None:
    (first,) = lines_of("couplet", "--backward", "一枝紫燕染红梅")
    assert len(first) == 7
    assert not set(first) & set("一枝紫燕染红梅")


@pytest.mark.parametrize("text", ["hello", "，。！", "他妈的"])
def test_what_is_no_first_line_is_refused_in_one_line(
    tiny_models: Models, tmp_path: Path, text: str
) -> None:
    command = ("couplet", "--model", tiny_models("couplet"))
    assert text in error_of(1, *command, text)
    (tmp_path / "lines.txt").write_text(text, "utf-8")
    record = json.loads(run(*command, "--json", "--input", tmp_path / "lines.txt").stdout)
    assert (record["second"], record["score"], record["rules"]) == ("", None, {})
