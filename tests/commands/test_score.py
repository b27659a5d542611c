"""The command that scores given pairs."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tasks.task import task_named
from tests.commands.command_line import error_of, lines_of

PAIRS = {
    "translation": [
        ("Ein Hund sieht einen Ball.", "A dog sees a ball."),
        ("Eine Frau malt das Meer.", "A dog sees a ball."),
        ("", ""),
        ("Ein Kind sucht das Boot.", "A child looks for the boat."),
    ],
    "couplet": [("天地山水", "花月风云"), ("花月风云春", "一"), ("", ""), ("日夜江河", "松竹红绿")],
}

Models = Callable[[str], Path]


@pytest.fixture(params=PAIRS)
def task(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def files(task: str, tmp_path: Path) -> tuple[Path, Path, Path]:
    """Files of sources, of targets, and of both."""
    paths = (tmp_path / "a.src", tmp_path / "a.tgt", tmp_path / "a.tsv")
    texts = (
        "".join(f"{source}\n" for source, _ in PAIRS[task]),
        "".join(f"{target}\n" for _, target in PAIRS[task]),
        "".join(f"{source}\t{target}\n" for source, target in PAIRS[task]),
    )
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text, encoding="utf-8")
    return paths


def test_a_line_has_the_log_probability_the_tokens_and_the_mean(
    task: str, tiny_models: Models, files: tuple[Path, Path, Path]
) -> None:
    source, target, table = files
    command = ("score", task, "--model", tiny_models(task), "--device", "cpu")
    found = lines_of(*command, "--src", source, "--tgt", target)
    predictor: Any = task_named(task).load(tiny_models(task), device="cpu")
    expected = predictor.score([s for s, _ in PAIRS[task]], [t for _, t in PAIRS[task]])
    assert found == [f"{one.log_prob:.4f}\t{len(one.tokens)}\t{one.mean:.4f}" for one in expected]
    assert len(set(found)) == 4
    assert lines_of(*command, "--input", table) == found


def test_an_output_that_is_an_input_is_refused(files: tuple[Path, Path, Path]) -> None:
    """A file of sources was overwritten by its scores."""
    source, target, table = files
    pairs = ("--src", source, "--tgt", target, "--output")
    for option, path in (("--src", source), ("--tgt", target)):
        message = error_of(2, "score", "translation", *pairs, path)
        assert f"{option} and --output are one file: {path}" in message
    data = ("--data", table, "--src", "1", "--tgt", "2", "--output", table)
    assert "--data and --output are one file" in error_of(2, "score", "translation", *data)


def test_json_has_the_log_probability_of_every_token(
    task: str, tiny_models: Models, files: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    command = ("score", task, "--model", tiny_models(task), "--json", "--input", files[2])
    target = tmp_path / "out.jsonl"
    assert lines_of(*command, "--output", target) == [""]
    records = [json.loads(line) for line in target.read_text(encoding="utf-8").splitlines()]
    assert [(one["source"], one["target"]) for one in records] == PAIRS[task]
    for one in records:
        assert one["tokens"][-1] == "<eos>"
        assert len(one["tokens"]) == len(one["log_probs"])
        assert one["log_prob"] == pytest.approx(sum(one["log_probs"]), abs=1e-3)
        assert one["unknown"] == 0
    small = lines_of(*command, "--batch-tokens", 1)
    assert [json.loads(line)["log_prob"] for line in small] == pytest.approx(
        [one["log_prob"] for one in records], abs=1e-4
    )


def test_a_pair_too_long_has_empty_columns_and_null(tiny_models: Models, tmp_path: Path) -> None:
    table = tmp_path / "pairs.tsv"
    table.write_text("Ein Hund.\t" + "a dog " * 600 + "\n")
    command = ("score", "translation", "--model", tiny_models("translation"), "--input", table)
    (line,) = lines_of(*command)
    log_prob, tokens, mean = line.split("\t")
    assert (log_prob, mean) == ("", "")
    assert int(tokens) > 600
    (record,) = map(json.loads, lines_of(*command, "--json"))
    assert record["log_prob"] is record["mean"] is record["log_probs"][0] is None


def test_files_of_different_lengths_and_lines_without_a_tab_are_refused(
    tiny_models: Models, tmp_path: Path
) -> None:
    source, target, output = tmp_path / "a.de", tmp_path / "a.en", tmp_path / "out"
    source.write_text("a\nb\n")
    target.write_text("a\nb\nc\n")
    output.write_text("old")
    table = tmp_path / "b.tsv"
    table.write_text("a\tb\nc\n")
    command = ("score", "translation", "--model", tiny_models("translation"))
    message = error_of(1, *command, "--src", source, "--tgt", target, "--output", output)
    assert "a.en: 3 lines, but" in message and "a.de has 2" in message
    message = error_of(1, *command, "--input", table, "--output", output)
    assert "b.tsv:2: no tabs" in message
    assert output.read_text() == "old"
