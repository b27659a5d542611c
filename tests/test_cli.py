"""Every command and option: what it prints, where, and how it ends."""

import configparser
import csv
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import cli
from core.errors import Interrupted, NetworkError
from data import fetching
from data.corpora import DATA_FOLDER_VARIABLE
from tasks import folders, registry

GERMAN = ["Ein Hund sieht einen Ball.", "Eine Frau malt das Meer.", "Ein Kind sucht das Boot."]
ENGLISH = ["A dog sees a ball.", "A woman paints the sea.", "A child looks for the boat."]
COMMANDS = {"translation": "translate", "classification": "classify", "couplet": "couplet"}

Models = Callable[[str], Path]
Corpora = dict[str, Path]


def run(*arguments: object) -> Result:
    """The command in this process; an exception that it should have caught is not swallowed."""
    return CliRunner().invoke(cli.main, [str(argument) for argument in arguments])


def lines_of(*arguments: object) -> list[str]:
    """The lines that a command which must succeed prints on stdout; stderr must stay empty."""
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    return result.stdout.removesuffix("\n").split("\n")


def error_of(code: int, *arguments: object) -> str:
    """The last line on stderr of a command that must fail with ``code``, printing no result."""
    result = run(*arguments)
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    last = result.stderr.splitlines()[-1]
    assert last.startswith("error: " if code == 1 else ("error: ", "Error: "))
    return last


@pytest.fixture
def in_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder, with an empty data folder in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(DATA_FOLDER_VARIABLE, str(tmp_path / "corpora"))
    return tmp_path


# The door


def test_help_names_every_command() -> None:
    text = "\n".join(lines_of("--help"))
    for name in (*COMMANDS.values(), "train", "evaluate", "models", "data"):
        assert re.search(rf"^  {name} ", text, re.MULTILINE)


def test_the_version_is_that_of_the_package() -> None:
    package = configparser.ConfigParser()
    package.read(Path(cli.__file__).with_name("setup.cfg"), encoding="utf-8")
    assert lines_of("--version")[0].endswith(f" {package['metadata']['version']}")


@pytest.mark.parametrize(
    "arguments",
    [
        "nonsense",
        "translate --nonsense",
        "translate --beam 0 Hund",
        "translate --beam wide Hund",
        "translate --length-penalty -1 Hund",
        "translate --length-penalty nan --model {model} Hund",
        "translate --device tpu Hund",
        "translate --device cuda:x Hund",
        "translate --threads 0 Hund",
        "translate --batch-tokens 0 Hund",
        "translate --input german.txt Hund",
        "translate Hund -",
        "translate Hund \udcff",
        "classify --top 0 Hund",
        "classify --beam 2 Hund",
        "train nonsense",
        "train translation --preset nonsense",
        "train translation --set nonsense",
        "train translation --set train.epoch=1",
        "train translation --set train.epochs=0",
        "train translation --set train.epochs=many",
        "train translation --seed x",
        "train translation --config none.toml",
        "train translation --device nonsense",
        "train translation --resume --preset tiny",
        "train translation --resume --config x.toml",
        "evaluate nonsense",
        "evaluate classification --beam 2",
        "evaluate classification --length-penalty 1",
        "data nonsense",
        "data fetch",
        "data fetch nonsense",
        "data import multi30k",
        "data import nonsense --from .",
        "data verify nonsense",
    ],
)
def test_wrong_usage_is_2(arguments: str, tiny_models: Models, in_tmp: Path) -> None:
    words = arguments.split(" ")
    if "{model}" in words:
        words[words.index("{model}")] = str(tiny_models("translation"))
    error_of(2, *words)
    assert list(in_tmp.iterdir()) == []


def test_a_wrong_name_is_answered_with_the_nearest_right_one(in_tmp: Path) -> None:
    assert "did you mean 'tiny'?" in error_of(2, "train", "couplet", "--preset", "tinny")
    assert "'epochs'" in error_of(2, "train", "couplet", "--set", "train.epoch=3")
    assert "'multi30k'" in error_of(2, "data", "fetch", "multi30")


def test_an_error_is_one_line_whatever_is_in_it(in_tmp: Path) -> None:
    assert "a b.txt: cannot read" in error_of(1, "translate", "--input", "a\nb.txt")


def test_work_that_is_interrupted_is_130_and_says_how_to_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def stop(name: str) -> None:
        raise Interrupted("stopped at step 7; --resume goes on")

    monkeypatch.setattr(fetching, "verify", stop)
    result = run("data", "verify", "couplet")
    assert (result.exit_code, result.stdout) == (130, "")
    assert result.stderr == "stopped at step 7; --resume goes on\n"


def test_an_error_of_ours_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(fetching, "verify", fail)
    assert isinstance(run("data", "verify", "couplet").exception, ZeroDivisionError)


# Texts in, results out: the same for every task


@pytest.fixture(params=COMMANDS)
def task(request: pytest.FixtureRequest) -> str:
    return str(request.param)


TEXTS = {
    "translation": GERMAN,
    "classification": ["oil prices shares", "goal coach medal", "border army talks"],
    "couplet": ["天地山水", "花月风云春", "日夜江河松竹红"],
}


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
    source, target = tmp_path / "in.txt", tmp_path / "new folder" / "out.txt"
    source.write_bytes(f"\ufeff{first}\r\n\r\n{second}\n{third}".encode())
    assert lines_of(*command, "--input", source, "--output", target) == [""]
    expected = lines_of(*command, first, "", second, third)
    assert target.read_text(encoding="utf-8").split("\n") == [*expected, ""]
    assert lines_of(*command, "--input", source, "--output", "-") == expected


def test_a_file_can_take_the_place_of_its_own_input(tiny_models: Models, tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("\n".join(GERMAN), encoding="utf-8")
    lines_of("translate", "--model", tiny_models("translation"), "--input", path, "--output", path)
    assert path.read_text(encoding="utf-8").splitlines() == ENGLISH


def test_a_failure_on_the_way_leaves_the_old_output(tiny_models: Models, tmp_path: Path) -> None:
    source, target = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_bytes(b"Ein Hund.\n" * 2500 + b"\xff\n")
    target.write_text("old")
    command = ("classify", "--model", tiny_models("classification"))
    message = error_of(1, *command, "--input", source, "--output", target)
    assert f"{source}:2501: not valid UTF-8" in message
    assert target.read_text() == "old"
    assert sorted(tmp_path.iterdir()) == [source, target]


def test_an_output_that_cannot_be_written_is_named(in_tmp: Path) -> None:
    assert "not a regular file" in error_of(1, "translate", "--output", in_tmp, "Hund")


def test_an_input_that_cannot_be_read_is_named(in_tmp: Path) -> None:
    assert "none.txt: cannot read: No such file" in error_of(1, "classify", "--input", "none.txt")
    assert "cannot read: Is a directory" in error_of(1, "couplet", "--input", in_tmp)


def test_a_model_that_is_not_there_or_not_for_this_is_named(
    tiny_models: Models, in_tmp: Path
) -> None:
    assert "none: there is no such folder" in error_of(1, "translate", "--model", "none", "Hund")
    assert "not a checkpoint folder" in error_of(1, "translate", "--model", in_tmp, "Hund")
    model = tiny_models("translation")
    assert "a model for translation" in error_of(1, "classify", "--model", model, "Hund")


def test_a_device_that_is_not_here_is_a_failure(tiny_models: Models) -> None:
    model = tiny_models("translation")
    message = error_of(1, "translate", "--model", model, "--device", "cuda:99", "Hund")
    assert "--device cuda:99" in message


def test_threads_are_torch_s(tiny_models: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr("torch.set_num_threads", asked.append)
    command = ("classify", "--model", tiny_models("classification"))
    lines_of(*command, "--threads", "3", "goal")
    lines_of(*command, "goal")
    assert asked == [3]


def test_small_batches_give_the_same_results(task: str, tiny_models: Models) -> None:
    command = (COMMANDS[task], "--model", tiny_models(task), "--device", "cpu")
    assert lines_of(*command, "--batch-tokens", 1, *TEXTS[task]) == lines_of(*command, *TEXTS[task])


# What each task prints


def test_translate_prints_translations(tiny_models: Models) -> None:
    model = tiny_models("translation")
    assert lines_of("translate", "--model", model, *GERMAN) == ENGLISH
    assert lines_of("translate", "--model", model, GERMAN[0].replace(" ", "\n")) == ENGLISH[:1]


def test_translate_json_tells_score_and_pieces(tiny_models: Models) -> None:
    command = ("translate", "--model", tiny_models("translation"), "--json")
    broken = GERMAN[0].replace(" ", "\n")
    first, second, third = map(json.loads, lines_of(*command, GERMAN[0], "", broken))
    assert list(first) == ["input", "translation", "score", "pieces"]
    assert first == {
        "input": GERMAN[0], "translation": ENGLISH[0], "score": first["score"], "pieces": 1
    }
    assert first["score"] < 0
    assert second == {"input": "", "translation": "", "score": 0, "pieces": 0}
    assert third["input"] == broken


def test_the_search_obeys_its_options(tiny_models: Models) -> None:
    """The score of the same output is its log-probability, over its length or not."""
    command = ("translate", "--model", tiny_models("translation"), "--json", "--beam", 3)
    plain, divided = (
        json.loads(lines_of(*command, "--length-penalty", penalty, GERMAN[0])[0])
        for penalty in (0, 1)
    )
    assert plain["translation"] == divided["translation"]
    assert plain["score"] < divided["score"] < 0
    greedy = json.loads(
        lines_of(*command, "--length-penalty", 0, "--beam", 1, "Ein Ein Ein Hund malt malt")[0]
    )
    wide = json.loads(
        lines_of(*command, "--length-penalty", 0, "--beam", 9, "Ein Ein Ein Hund malt malt")[0]
    )
    assert wide["score"] > greedy["score"]


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


def test_classify_refuses_more_classes_than_there_are(tiny_models: Models) -> None:
    command = ("classify", "--model", tiny_models("classification"))
    assert "--top must be from 1 to 3" in error_of(2, *command, "--top", 4, "goal")


def test_classify_json_tells_every_probability(tiny_models: Models) -> None:
    command = ("classify", "--model", tiny_models("classification"), "--json")
    first, empty = map(json.loads, lines_of(*command, "goal coach medal", ""))
    assert list(first) == ["input", "label", "score", "probabilities"]
    assert first["label"] == "Sports"
    assert first["score"] == first["probabilities"]["Sports"]
    assert sum(first["probabilities"].values()) == pytest.approx(1)
    assert empty == {"input": "", "label": "", "score": 0, "probabilities": {}}
    (short,) = map(json.loads, lines_of(*command, "--top", 2, "goal coach medal"))
    assert list(short["probabilities"]) == list(first["probabilities"])[:2]


def test_couplet_answers_character_by_character(tiny_models: Models) -> None:
    command = ("couplet", "--model", tiny_models("couplet"), "--beam", 2, "--length-penalty", 0.5)
    for text, line in zip(TEXTS["couplet"], lines_of(*command, *TEXTS["couplet"]), strict=True):
        assert len(line) == len(text)
    (found,) = map(json.loads, lines_of(*command, "--json", "天地山水"))
    assert list(found)[:3] == ["input", "second", "score"]
    assert (found["input"], len(found["second"])) == ("天地山水", 4)


# Training and measuring


def test_training_leaves_a_checkpoint_folder(
    task: str, tiny_corpora: Corpora, in_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By default from the corpus of the catalogue, into runs/TASK."""
    monkeypatch.setenv(DATA_FOLDER_VARIABLE, str(in_tmp))
    (in_tmp / registry.DEFAULT_CORPUS[task]).symlink_to(tiny_corpora[task])
    vocabulary = () if task == "couplet" else ("--set", "data.vocab_size=100")
    settings = ("--preset", "tiny", "--seed", 5, "--set", "train.epochs=1", *vocabulary)
    result = run("train", task, *settings)
    assert result.exit_code == 0, result.output
    out = Path("runs") / task
    names = {path.name for path in out.iterdir()}
    assert {"model.safetensors", "config.json", "metrics.json", "history.csv"} <= names
    assert "vocabulary.txt" in names
    metrics = json.loads((out / "metrics.json").read_text(encoding="utf-8"))
    assert result.stdout == f"{out}: {metrics['test']['headline']}\n"
    assert json.loads((out / "config.json").read_text())["train"]["seed"] == 5


def test_a_run_is_taken_up_with_its_own_configuration(
    tiny_corpora: Corpora, in_tmp: Path
) -> None:
    command = ("train", "classification", "--data", tiny_corpora["classification"], "--out", "run")
    Path("my.toml").write_text("[train]\nepochs = 1\nseed = 3\n[data]\nvocab_size = 100\n")
    assert run(*command, "--preset", "tiny", "--config", "my.toml").exit_code == 0
    assert "--resume" in error_of(1, *command, "--preset", "tiny", "--config", "my.toml")
    done = run(*command, "--resume", "--set", "train.epochs=2")
    assert done.exit_code == 0, done.output
    with Path("run/history.csv").open(newline="") as file:
        assert [row["epoch"] for row in csv.DictReader(file)] == ["1", "2"]
    config = json.loads(Path("run/config.json").read_text())
    assert (config["train"]["epochs"], config["train"]["seed"]) == (2, 3)
    assert config["model"]["d_model"] == 32


def test_nothing_can_be_resumed_where_nothing_is(in_tmp: Path) -> None:
    assert "none" in error_of(1, "train", "translation", "--resume", "--out", "none")


def test_a_corpus_that_is_not_here_is_named_with_the_ways_to_get_it(
    task: str, in_tmp: Path
) -> None:
    name = registry.DEFAULT_CORPUS[task]
    for command in ("train", "evaluate"):
        message = error_of(1, command, task)
        assert f"data fetch {name}" in message
        assert f"data import {name} --from" in message
        assert "none: there is no such folder" in error_of(
            1, command, task, "--data", "none", "--model" if command == "evaluate" else "--out", "x"
        ) or command == "evaluate"


REPORTED = {
    "translation": ("bleu", "bleu_signature", "bleu_lowercase", "token_accuracy", "loss"),
    "classification": ("accuracy", "macro_f1", "classes", "confusion"),
    "couplet": (),
}


def test_evaluate_reports_on_the_test_split(
    task: str, tiny_models: Models, tiny_corpora: Corpora
) -> None:
    command = ("evaluate", task, "--model", tiny_models(task), "--data", tiny_corpora[task])
    report = json.loads("\n".join(lines_of(*command, "--json")))
    assert report["split"].startswith("test")
    assert set(REPORTED[task]) <= set(report)
    assert report["split"] in "\n".join(lines_of(*command))
    other = json.loads("\n".join(lines_of(*command, "--json", "--split", "val")))
    assert other["split"] == "val"


def test_evaluate_passes_the_search_on(tiny_models: Models, tiny_corpora: Corpora) -> None:
    asked: dict[str, Any] = {}
    measure = registry.module("translation", "evaluate")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measure, "run", lambda *model_and_data, **options: asked.update(options) or {})
        patch.setattr(measure, "as_table", lambda report: "the table")
        command = ("evaluate", "translation", "--data", tiny_corpora["translation"])
        options = ("--beam", 3, "--length-penalty", 0.5, "--split", "val", "--device", "cpu")
        assert lines_of(*command, *options) == ["the table"]
    assert asked == {"split": "val", "device": "cpu", "beam_size": 3, "length_penalty": 0.5}


def test_models_lists_what_ships(
    tiny_models: Models, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "PRETRAINED", tmp_path)
    assert len(lines_of("models")) == 1  # the names of the columns
    assert run("models", "--json").stdout == ""
    for name in ("classification", "translation"):
        (tmp_path / name).symlink_to(tiny_models(name))
    first, second = map(json.loads, lines_of("models", "--json"))
    assert (first["task"], second["task"]) == ("classification", "translation")
    metrics = json.loads((tmp_path / "translation" / "metrics.json").read_text())
    weights = (tmp_path / "translation" / "model.safetensors").stat().st_size
    assert second["parameters"] == metrics["parameters"]
    assert second["trained"] == metrics["trained"]
    assert second["headline"] == metrics["test"]["headline"]
    assert second["folder"] == str(tmp_path / "translation")
    assert weights < second["size"] < 100 * weights
    names, _, row = lines_of("models")
    assert names.split() == ["task", "parameters", "size", "trained", "headline", "folder"]
    for fact in ("translation", f"{metrics['parameters']:,}", " MB", second["headline"]):
        assert fact in row


# Corpora


def test_data_list_tells_what_there_is(in_tmp: Path) -> None:
    text = "\n".join(lines_of("data", "list"))
    for fact in ("multi30k: ", "ag_news: ", "couplet: ", "https://", "licence", "citation"):
        assert fact in text
    assert text.count("(not here)") == 3


def test_a_corpus_is_imported_and_verified(tiny_corpora: Corpora, in_tmp: Path) -> None:
    assert "ag_news is not there" in error_of(1, "data", "verify", "ag_news")
    imported = lines_of("data", "import", "ag_news", "--from", tiny_corpora["classification"])
    folder = in_tmp / "corpora" / "ag_news"
    assert str(folder) in imported
    assert any(re.match(r"ok +train.csv +part of the published set", line) for line in imported)
    assert lines_of("data", "verify", "ag_news") == imported
    assert "\n".join(lines_of("data", "list")).count("(not here)") == 2

    (folder / "test.csv").write_text('"1","other","text"\n')
    result = run("data", "verify", "ag_news")
    assert result.exit_code == 1
    assert re.search(r"^WRONG +test.csv +changed since", result.stdout, re.MULTILINE)
    assert result.stderr == f"error: {folder}: 1 of 3 files are not as they should be\n"


def test_an_import_from_elsewhere_is_refused(tiny_corpora: Corpora, in_tmp: Path) -> None:
    message = error_of(1, "data", "import", "multi30k", "--from", tiny_corpora["couplet"])
    assert "has no train.de" in message


def test_a_fetch_shows_its_progress_and_what_came(
    tiny_corpora: Corpora, in_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fetch(name: str, *, show_progress: bool) -> fetching.CorpusReport:
        assert show_progress
        return fetching.import_from(name, tiny_corpora["couplet"])

    monkeypatch.setattr(fetching, "fetch", fetch)
    assert any(line.startswith("ok ") for line in lines_of("data", "fetch", "couplet"))


def test_no_network_says_how_to_import(in_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def download(url: str, target: Path, *, show_progress: bool) -> None:
        raise NetworkError(f"{url}: no network")

    monkeypatch.setattr(fetching, "download", download)
    assert "data import multi30k --from" in error_of(1, "data", "fetch", "multi30k")
