"""Several processes share a file: the output is that of one process, or there is none."""

import json
import re
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tasks.registry import load_predictor, predictor
from tests.commands import sharding_program
from tests.commands.command_line import lines_of
from tests.forked import forked_group
from tests.torchrun import ROOT, run_forked_torchrun, torchrun

GERMAN = [
    "Ein Hund sieht einen Ball.",
    "",
    "Eine Frau malt das Meer.",
    "Ein Kind sucht das Boot. Ein Hund sieht einen Ball.",
    "Ein Junge hört ein Haus.",
    "Eine Katze sieht die Straße.",
    "Ein Mann sucht einen Freund.",
]
ENGLISH = ["A dog sees a ball.", "", "A woman paints the sea.", "A boy.", "", "A cat.", "A man."]
DRAW = ("--sample", "--temperature", "2", "--seed", "3", "--n-best", "2")
WORDS = ["oil", "prices", "shares", "goal", "coach", "medal", "border", "army", "talks", "bank"]
NEWS = [" ".join(WORDS[i % 9 : i % 9 + 1 + i % 5]) for i in range(40)]

Models = Callable[[str], Path]
Ending = dict[str, Any]


def write(path: Path, texts: list[str]) -> Path:
    path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder with the inputs of all scenarios, and an old output for each."""
    folder = tmp_path_factory.mktemp("sharding")
    write(folder / "german", GERMAN)
    write(folder / "english", ENGLISH)
    write(folder / "known", [GERMAN[0], ENGLISH[0], ENGLISH[2]])
    for name in ("news", "news-at-0", "news-at-1"):
        write(folder / name, NEWS)
    write(folder / "news-at-2", [*NEWS[:7], "something else", *NEWS[8:]])
    write(folder / "one", NEWS[:1])
    write(folder / "here-0", NEWS)
    write(folder / "couplet", ["天地山水", "花月风云春", "日夜江河松竹红"])
    write(folder / "mixed", ["天地山水", "hello", "花月风云春", "world"])
    (folder / "bad").write_bytes("\n".join(NEWS[:30]).encode() + b"\nb\xffd\ngoal\n")
    return folder


@pytest.fixture(scope="module")
def endings(folder: Path, tiny_models: Models) -> dict[str, Ending]:
    """Returns how every scenario ended. Each ran in its own folder, with an old output in it."""

    def play(size: int, *arguments: object, model: str = "classification", **more: Any) -> Ending:
        command = [*map(str, arguments), "--model", str(tiny_models(model)), "--device", "cpu"]
        return {"size": size, "arguments": command, **more}

    def news(name: str, source: str = "news") -> tuple[object, ...]:
        (folder / f"{name}.d").mkdir()
        output = write(folder / f"{name}.d" / "out", ["old"])
        return ("classify", "--input", folder / source, "--output", output)

    def leave_shards(name: str) -> None:
        leftover = folder / f"{name}.d" / ".out.0123456789ab.shards"
        leftover.mkdir()
        (leftover / "0").write_bytes(b"half")

    def mark(name: str) -> str:
        return str(folder / f"{name}.mark")

    pair = ("score", "translation", "--src", folder / "german", "--tgt", folder / "english")
    couplet = folder / "couplet"
    scenarios = {
        "alone": play(1, *news("alone"), "--json", chunk=3),
        "full": play(3, *news("full"), "--json", chunk=3),
        "short": play(3, "translate", "--input", folder / "german", model="translation"),
        "noted": play(2, "translate", "--input", folder / "known", model="translation", chunk=1),
        "drawn": play(3, "translate", "--input", folder / "german", *DRAW, model="translation"),
        "itself": play(2, "couplet", "--input", couplet, "--output", couplet, model="couplet"),
        "refused": play(2, "couplet", "--input", folder / "mixed", model="couplet"),
        "pairs": play(2, *pair, model="translation"),
        "one": play(3, *news("one", "one")),
        "bad": play(2, *news("bad", "bad"), chunk=5),
        "other": play(3, *news("other", "news-at-{rank}"), chunk=3),
        "here": play(2, *news("here", "here-{rank}")),
        "usage": play(2, "classify", "goal"),
        "killed": play(3, *news("killed"), accident=["kill", 0, 0], mark=mark("killed")),
        "lost": play(3, *news("lost"), chunk=3, accident=["kill", 2, 1], mark=mark("lost")),
        "again": play(3, *news("again")),
        "stopped": play(
            3, *news("stopped"), chunk=3, accident=["stop", 2, 1], silence=3, mark=mark("stopped")
        ),
        "interrupted": play(
            2, *news("interrupted"), chunk=3, accident=["interrupt", 0, 2], mark=mark("interrupted")
        ),
    }
    leave_shards("again")
    return {name: ending_of(scenario) for name, scenario in scenarios.items()}


def ending_of(scenario: dict[str, Any]) -> Ending:
    """Plays a scenario. Returns how it ended, and how long after the accident."""
    program = partial(sharding_program.run, scenario)
    # A stopped process does not react to SIGTERM, however long one waits; the others may be slow.
    limit = 1.0 if "silence" in scenario else 5.0
    codes, stdout, stderr = forked_group(scenario["size"], program, stop_seconds=limit)
    seconds = time.time() - Path(scenario.get("mark", ".")).stat().st_mtime
    return {"codes": codes, "stdout": stdout, "stderr": stderr, "seconds": seconds}


def assert_nothing_was_written(folder: Path, name: str) -> None:
    (output,) = (folder / f"{name}.d").iterdir()
    assert output.read_text() == "old\n"


def assert_is_reported_once(ending: Ending, message: str) -> None:
    assert ending["stderr"].count("\n") == ending["stderr"].count("error: ") == 1
    assert message in ending["stderr"]
    assert ending["stdout"] == ""


# Results


def test_full_chunks_give_the_same_bytes_as_one_process(
    folder: Path, endings: dict[str, Ending]
) -> None:
    for name in ("alone", "full"):
        assert set(endings[name]["codes"]) == {0}
        assert endings[name]["stdout"] == endings[name]["stderr"] == ""
    alone, full = ((folder / f"{name}.d" / "out").read_bytes() for name in ("alone", "full"))
    assert [json.loads(line)["input"] for line in full.decode().splitlines()] == NEWS
    assert full == alone


def test_the_chunks_of_a_short_file_are_small_and_the_texts_equal(
    endings: dict[str, Ending], tiny_models: Models
) -> None:
    translator = load_predictor("translation", tiny_models("translation"), device="cpu")
    assert endings["short"]["codes"] == [0, 0, 0]
    assert endings["short"]["stdout"] == "".join(f"{t.text}\n" for t in translator(GERMAN))
    assert endings["short"]["stderr"] == ""


def test_samples_and_numbers_depend_on_the_position_in_the_file(
    endings: dict[str, Ending], tiny_models: Models
) -> None:
    def without_scores(lines: list[str]) -> list[list[str]]:
        return [line.split("\t")[::2] for line in lines]

    alone = lines_of("translate", "--model", tiny_models("translation"), *DRAW, *GERMAN)
    assert endings["drawn"]["codes"] == [0, 0, 0]
    assert without_scores(endings["drawn"]["stdout"].splitlines()) == without_scores(alone)
    assert {line.split("\t")[0] for line in alone} == {str(i + 1) for i in range(len(GERMAN))}


def test_a_file_can_take_the_place_of_its_own_input(
    folder: Path, endings: dict[str, Ending], tiny_models: Models
) -> None:
    writer = load_predictor("couplet", tiny_models("couplet"), device="cpu")
    expected = [found.second for found in writer(["天地山水", "花月风云春", "日夜江河松竹红"])]
    assert endings["itself"]["codes"] == [0, 0]
    assert (folder / "couplet").read_text(encoding="utf-8").splitlines() == expected


def test_pairs_are_scored_as_by_one_process(
    endings: dict[str, Ending], tiny_models: Models
) -> None:
    score = predictor("translation", tiny_models("translation"), device="cpu").score
    assert endings["pairs"]["codes"] == [0, 0]
    found = [line.split("\t") for line in endings["pairs"]["stdout"].splitlines()]
    expected = score(GERMAN, ENGLISH)
    assert [int(tokens) for _, tokens, _ in found] == [len(one.tokens) for one in expected]
    assert [float(total) for total, _, _ in found] == pytest.approx(
        [one.log_prob for one in expected], abs=2e-4
    )


def test_refused_lines_are_counted_over_all_processes(endings: dict[str, Ending]) -> None:
    """Only rank 0 fails, at the end."""
    found = endings["refused"]
    assert found["codes"] == [1, 0]
    assert [bool(line) for line in found["stdout"].split("\n")[:-1]] == [True, False, True, False]
    assert "error: 2 of 4 lines were refused; their results are empty" in found["stderr"]
    assert all(f"line {number} is refused: " in found["stderr"] for number in (2, 4))


def test_kept_lines_are_counted_over_all_processes(endings: dict[str, Ending]) -> None:
    """Every rank had a note of its own, about its own lines."""
    assert endings["noted"]["codes"] == [0, 0]
    assert endings["noted"]["stdout"].splitlines()[1:] == [ENGLISH[0], ENGLISH[2]]
    assert endings["noted"]["stderr"] == (
        "2 of 3 lines stay as they are: in the target language already "
        "(--no-pass-through translates them), or in letters that the model does not know\n"
    )


def test_there_may_be_more_processes_than_lines(folder: Path, endings: dict[str, Ending]) -> None:
    assert endings["one"]["codes"] == [0, 0, 0]
    (line,) = (folder / "one.d" / "out").read_text().splitlines()
    (alone, *_) = (folder / "alone.d" / "out").read_text().splitlines()
    label, probability = line.split("\t")
    assert json.loads(alone)["probabilities"][label] == pytest.approx(float(probability), abs=1e-4)


# Failures


def test_a_bad_line_is_reported_once_and_by_its_number(
    folder: Path, endings: dict[str, Ending]
) -> None:
    """All processes read it."""
    assert 1 in endings["bad"]["codes"]
    assert 0 not in endings["bad"]["codes"]
    assert_is_reported_once(endings["bad"], f"error: {folder / 'bad'}:31: not valid UTF-8")
    assert_nothing_was_written(folder, "bad")


def test_a_process_that_reads_another_file_is_detected(
    folder: Path, endings: dict[str, Ending]
) -> None:
    """The eighth line differs, which rank 2 alone works on."""
    assert endings["other"]["codes"][0] == 1
    assert_is_reported_once(endings["other"], "error: rank 2 and rank 0 read different lines")
    assert_nothing_was_written(folder, "other")


def test_a_failure_elsewhere_is_reported_once_with_its_rank(
    folder: Path, endings: dict[str, Ending]
) -> None:
    assert endings["here"]["codes"][1] == 1
    assert endings["here"]["codes"][0] != 0
    message = f"error: {folder / 'here-1'}: cannot read: No such file or directory (rank 1)"
    assert_is_reported_once(endings["here"], message)
    assert_nothing_was_written(folder, "here")


def test_input_that_one_process_alone_could_read_is_refused_once(
    endings: dict[str, Ending],
) -> None:
    assert endings["usage"]["codes"][0] == 2
    assert endings["usage"]["codes"][1] != 0
    assert endings["usage"]["stdout"] == ""
    assert endings["usage"]["stderr"].count("error: ") == 1
    assert "it must be a file" in endings["usage"]["stderr"]


@pytest.mark.parametrize(("name", "killed"), [("killed", 0), ("lost", 2)])
def test_a_killed_process_ends_the_others(
    name: str, killed: int, folder: Path, endings: dict[str, Ending]
) -> None:
    """Nobody removes the shards of a rank 0 that was killed, but the old output stays."""
    assert endings[name]["codes"][killed] == -9
    # Rank 1 may have finished its shard before. The output is the work of rank 0.
    assert endings[name]["codes"][0] != 0
    assert endings[name]["stdout"] == ""
    assert endings[name]["seconds"] < 60
    assert (folder / f"{name}.d" / "out").read_text() == "old\n"
    if name == "lost":
        assert_nothing_was_written(folder, name)


def test_the_leftovers_of_a_killed_run_are_removed_by_the_next(
    folder: Path, endings: dict[str, Ending]
) -> None:
    assert endings["again"]["codes"] == [0, 0, 0]
    (output,) = (folder / "again.d").iterdir()
    assert len(output.read_text().splitlines()) == len(NEWS)


def test_a_process_without_progress_is_lost(folder: Path, endings: dict[str, Ending]) -> None:
    assert endings["stopped"]["codes"][0] == 1
    assert_is_reported_once(endings["stopped"], "error: rank 2 is lost")
    assert endings["stopped"]["seconds"] < 60
    assert_nothing_was_written(folder, "stopped")


def test_ctrl_c_ends_all_quietly(folder: Path, endings: dict[str, Ending]) -> None:
    assert endings["interrupted"]["codes"][0] == 130
    assert endings["interrupted"]["stdout"] == endings["interrupted"]["stderr"] == ""
    assert_nothing_was_written(folder, "interrupted")


# Under torchrun itself


def test_torchrun_translates_a_file_as_one_process_does(
    folder: Path, tiny_models: Models, tmp_path: Path
) -> None:
    command = ("translate", "--model", tiny_models("translation"), "--input", folder / "german")
    output = tmp_path / "new" / "out"
    done = torchrun(2, ROOT / "cli.py", *command, "--output", output)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert output.read_text(encoding="utf-8").splitlines() == lines_of(*command)
    assert list(output.parent.iterdir()) == [output]


def test_torchrun_names_a_killed_process(folder: Path, tiny_models: Models, tmp_path: Path) -> None:
    output, mark = write(tmp_path / "out", ["old"]), folder / "torchrun.mark"
    command = ["classify", "--model", tiny_models("classification"), "--input", folder / "news"]
    scenario = {
        "arguments": [*map(str, command), "--output", str(output)],
        "chunk": 3,
        "accident": ["kill", 2, 1],
        "mark": str(mark),
    }
    program = (sharding_program.__file__, json.dumps(scenario))
    done = run_forked_torchrun("--standalone", "--nproc-per-node=3", *program)
    assert time.time() - mark.stat().st_mtime < 60
    assert done.returncode != 0
    assert re.search(r"rank +: 2 .*\n +exitcode +: -9", done.stderr)  # torchrun's own report
    assert "error: " not in done.stderr
    assert done.stdout == ""
    assert list(tmp_path.iterdir()) == [output]
    assert output.read_text() == "old\n"
