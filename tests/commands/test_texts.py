"""The commands on texts: their input, their output, and the format of results."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.commands.command_line import error_of, lines_of, run

COMMANDS = {"translation": "translate", "classification": "classify", "couplet": "couplet"}
GERMAN = ["Ein Hund sieht einen Ball.", "Eine Frau malt das Meer.", "Ein Kind sucht das Boot."]
ENGLISH = ["A dog sees a ball.", "A woman paints the sea.", "A child looks for the boat."]
TEXTS = {
    "translation": GERMAN,
    "classification": ["oil prices shares", "goal coach medal", "border army talks"],
    "couplet": ["天地山水", "花月风云春", "日夜江河松竹红"],
}

Models = Callable[[str], Path]

# Input and output, the same for every task


def test_results_come_one_a_line_in_the_order_of_the_texts(task: str, tiny_models: Models) -> None:
    command = (COMMANDS[task], "--model", tiny_models(task))
    forth = lines_of(*command, *TEXTS[task])
    back = lines_of(*command, *reversed(TEXTS[task]))
    assert len(set(forth)) == 3
    assert back == forth[::-1]


def test_empty_texts_stay_empty_lines(task: str, tiny_models: Models) -> None:
    first, *_ = TEXTS[task]
    found = lines_of(COMMANDS[task], "--model", tiny_models(task), "", first, "  ", "\n", first)
    assert [bool(line) for line in found] == [False, True, False, False, True]


def test_files_are_read_and_written_by_lines(
    task: str, tiny_models: Models, tmp_path: Path
) -> None:
    command = (COMMANDS[task], "--model", tiny_models(task))
    first, second, third = TEXTS[task]
    source, target = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_bytes(f"\ufeff{first}\r\n\r\n{second}\n{third}".encode())
    assert lines_of(*command, "--input", source, "--output", target) == [""]
    expected = lines_of(*command, first, "", second, third)
    assert target.read_text(encoding="utf-8").split("\n") == [*expected, ""]
    assert lines_of(*command, "--input", source, "--output", "-") == expected


def test_an_output_in_no_folder_and_one_that_is_the_input_are_refused(in_tmp: Path) -> None:
    """A folder was made, and the input was overwritten."""
    path, link = in_tmp / "text.txt", in_tmp / "link.txt"
    path.write_text("Hund\n", encoding="utf-8")
    link.symlink_to(path)
    message = error_of(2, "translate", "--output", in_tmp / "x" / "out.txt", "Hund")
    assert message == f"error: --output {in_tmp}/x/out.txt: there is no folder {in_tmp}/x"
    for other in (path, link):
        message = error_of(2, "classify", "--input", path, "--output", other)
        assert "--input and --output are one file" in message
    assert path.read_text(encoding="utf-8") == "Hund\n"


@pytest.mark.parametrize(
    ("encoding", "options"),
    [
        ("utf-16", ()),
        ("cp1252", ()),
        ("cp1252", ("--encoding=cp1252",)),
        ("gb18030", ("--encoding=gb18030",)),
    ],
)
def test_texts_have_the_encodings_of_windows_or_the_one_named(
    encoding: str, options: tuple[str, ...], tiny_models: Models, tmp_path: Path
) -> None:
    """Only tables had them: a .txt from Notepad was refused."""
    command = ("translate", "--model", tiny_models("translation"))
    source = tmp_path / "in.txt"
    source.write_bytes("Zwei Männer.\r\nEine Frau.\r\n".encode(encoding))
    found = lines_of(*command, "--input", source, *options, has_notes=True)
    assert found == lines_of(*command, "Zwei Männer.", "Eine Frau.")
    assert "--encoding is for a file" in error_of(2, *command, "--encoding=cp1252", "Hund")


def test_a_failure_leaves_the_old_output(tiny_models: Models, tmp_path: Path) -> None:
    source, target = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_bytes(b"Ein Hund.\n" * 2500 + b"\xff\n")
    target.write_text("old")
    command = ("classify", "--model", tiny_models("classification"))
    message = error_of(1, *command, "--input", source, "--output", target)
    assert f"{source}:2501: not valid UTF-8" in message
    assert target.read_text() == "old"
    assert sorted(tmp_path.iterdir()) == [source, target]


def test_an_input_that_cannot_be_read_is_named(in_tmp: Path) -> None:
    assert "none.txt: cannot read: No such file" in error_of(1, "classify", "--input", "none.txt")
    assert "cannot read: Is a directory" in error_of(1, "couplet", "--input", in_tmp)


def test_a_missing_model_and_one_for_another_task_are_named(
    tiny_models: Models, in_tmp: Path
) -> None:
    assert "none: there is no such folder" in error_of(1, "translate", "--model", "none", "Hund")
    assert "not a checkpoint folder" in error_of(1, "translate", "--model", in_tmp, "Hund")
    model = tiny_models("translation")
    assert "a model for translation" in error_of(1, "classify", "--model", model, "Hund")


def test_a_device_that_is_not_here_is_a_failure(tiny_models: Models) -> None:
    model = tiny_models("translation")
    message = error_of(1, "translate", "--model", model, "--device", "cuda:99", "Hund")
    assert "device cuda:99: this machine has" in message


def test_threads_sets_the_threads_of_torch(
    tiny_models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    monkeypatch.setattr("torch.set_num_threads", asked.append)
    command = ("classify", "--model", tiny_models("classification"))
    lines_of(*command, "--threads", "3", "goal", has_notes=True)
    lines_of(*command, "goal", has_notes=True)
    assert asked == [3]


# What each task prints


def test_translate_prints_translations(tiny_models: Models) -> None:
    model = tiny_models("translation")
    assert lines_of("translate", "--model", model, *GERMAN) == ENGLISH
    assert lines_of("translate", "--model", model, GERMAN[0].replace(" ", "\n")) == ENGLISH[:1]


def test_translate_json_has_score_and_segments(tiny_models: Models) -> None:
    command = ("translate", "--model", tiny_models("translation"), "--json")
    broken = GERMAN[0].replace(" ", "\n")
    first, second, third = map(json.loads, lines_of(*command, GERMAN[0], "", broken))
    names = ["input", "translation", "score", "segments", "confidence"]
    names += ["familiarity", "unfamiliar"]
    assert list(first) == names
    assert first == {
        "input": GERMAN[0],
        "translation": ENGLISH[0],
        "score": first["score"],
        "segments": 1,
        "confidence": first["confidence"],
        "familiarity": first["familiarity"],
        "unfamiliar": first["familiarity"] < 0.05,
    }
    assert first["score"] < 0
    assert first["confidence"] is None  # the few validation pairs say nothing
    assert 0 <= first["familiarity"] <= 1
    empty = {"input": "", "translation": "", "score": 0, "segments": 0, "confidence": None}
    assert second == empty
    assert third["input"] == broken


@pytest.mark.parametrize("length_penalty", [0.0, 1.0])
def test_the_length_penalty_divides_the_score(tiny_models: Models, length_penalty: float) -> None:
    """The score of an output is its log-probability, or that divided by its length."""
    from tasks.translation.predict import Translator

    model = tiny_models("translation")
    options = ("--beam", 3, "--length-penalty", length_penalty)
    (line,) = lines_of("translate", "--model", model, "--json", *options, GERMAN[0])
    translator = Translator.load(model, device="cpu")
    expected, other = (
        translator.translate_scored(GERMAN[:1], beam_size=3, length_penalty=penalty)[0].score
        for penalty in (length_penalty, 1.0 - length_penalty)
    )
    assert json.loads(line)["score"] == pytest.approx(expected, rel=1e-4)
    assert expected != pytest.approx(other, rel=0.1)


def test_classify_prints_label_tab_probability(tiny_models: Models) -> None:
    command = ("classify", "--model", tiny_models("classification"))
    (line,) = lines_of(*command, "goal coach medal")
    assert re.fullmatch(r"Sports\t0\.\d{4}", line)
    (line,) = lines_of(*command, "--top", 3, "goal coach medal")
    labels, probabilities = line.split("\t")[::2], [float(p) for p in line.split("\t")[1::2]]
    assert set(labels) == {"World", "Sports", "Business"}
    assert labels[0] == "Sports"
    assert probabilities == sorted(probabilities, reverse=True)
    assert sum(probabilities) == pytest.approx(1, abs=2e-4)


def test_classify_says_how_many_texts_are_unlike_the_training_data() -> None:
    news = "Oil prices rise as OPEC cuts output"
    done = run("classify", "--device", "cpu", "I love my cat.", news)
    note = "1 of 2 lines look unlike anything that the model was trained on"
    assert (done.exit_code, done.stderr.strip()) == (0, note)
    assert run("classify", "--device", "cpu", news).stderr == ""


def test_classify_refuses_more_classes_than_there_are(tiny_models: Models) -> None:
    command = ("classify", "--model", tiny_models("classification"))
    assert "--top must be from 1 to 3" in error_of(2, *command, "--top", 4, "goal")


def test_classify_json_has_every_probability(tiny_models: Models) -> None:
    command = ("classify", "--model", tiny_models("classification"), "--json")
    first, empty = map(json.loads, lines_of(*command, "goal coach medal", ""))
    assert list(first) == ["input", "label", "score", "familiarity", "unfamiliar", "probabilities"]
    assert first["label"] == "Sports"
    assert first["score"] == first["probabilities"]["Sports"]
    assert sum(first["probabilities"].values()) == pytest.approx(1)
    assert empty == {"input": "", "label": "", "score": 0, "probabilities": {}}
    (short,) = map(json.loads, lines_of(*command, "--top", 2, "goal coach medal"))
    assert list(short["probabilities"]) == list(first["probabilities"])[:2]
