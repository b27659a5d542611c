"""The commands that search: n-best lists, sampling, prefixes, ensembles, and refused options."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from core.config import options_of
from core.decoding.config import GenerationConfig
from tasks.streaming import lines
from tasks.translation.predict import Translator
from tests.commands.command_line import error_of, lines_of, run

GERMAN = ["Ein Hund sieht einen Ball.", "", "Eine Frau malt das Meer. Ein Kind sucht das Boot."]
FIRSTS = ["天地山水", "", "花月风云春"]

Models = Callable[[str], Path]


# N-best


def test_n_best_prints_number_score_and_text(tiny_models: Models) -> None:
    model = tiny_models("translation")
    command = ("translate", "--model", model, "--beam", 4)
    found = Translator.load(model).translate_scored(GERMAN, beam_size=4, n_best=3)
    assert [len(translation.hypotheses) for translation in found] == [3, 1, 3]
    assert lines_of(*command, "--n-best", 3, *GERMAN) == [
        f"{number}\t{one.score:.4f}\t{one.text}"
        for number, translation in enumerate(found, start=1)
        for one in translation.hypotheses
    ]
    plain = lines_of(*command, *GERMAN)
    first = [line.split("\t") for line in lines_of(*command, "--n-best", 1, *GERMAN)]
    assert [(int(number), text) for number, _, text in first] == list(enumerate(plain, start=1))


def test_n_best_is_a_list_in_json(tiny_models: Models) -> None:
    command = ("translate", "--model", tiny_models("translation"), "--beam", 4, "--json")
    plain = list(map(json.loads, lines_of(*command, *GERMAN)))
    several = list(map(json.loads, lines_of(*command, "--n-best", 3, *GERMAN)))
    assert len(several) == len(plain) == 3
    for one, other in zip(plain, several, strict=True):
        hypotheses = other.pop("hypotheses")
        assert one == other
        assert "hypotheses" not in one
        assert {"input": one["input"], **hypotheses[0]} == one
    (first, *_) = map(json.loads, lines_of(*command, "--n-best", 1, *GERMAN))
    assert len(first["hypotheses"]) == 1


def test_a_line_without_a_chinese_character_is_refused_in_one_line(tiny_models: Models) -> None:
    """``couplet hello`` answered with five Chinese characters, as if all were well."""
    error = error_of(1, "couplet", "--model", tiny_models("couplet"), "hello")
    assert error == "error: 'hello' has no Chinese character: it cannot begin a couplet"


def test_a_refused_line_of_a_file_does_not_end_the_others(
    tiny_models: Models, tmp_path: Path
) -> None:
    """One line without Chinese in a file of thousands ended the run, without any output."""
    source, output = tmp_path / "in", tmp_path / "out"
    source.write_text("\n".join([FIRSTS[0], "hello", "", FIRSTS[2]]), encoding="utf-8")
    command = ("couplet", "--model", tiny_models("couplet"))
    done = run(*command, "--input", source, "--output", output)
    assert done.exit_code == 1
    assert done.stderr == (
        "line 2 is refused: 'hello' has no Chinese character: it cannot begin a couplet\n"
        "error: 1 of 4 lines were refused; their results are empty\n"
    )
    first, second = lines_of(*command, FIRSTS[0], FIRSTS[2])
    assert output.read_text(encoding="utf-8") == f"{first}\n\n\n{second}\n"


@pytest.mark.parametrize("options", ["--beam 2", "--sample --temperature 2 --seed 3"])
def test_texts_are_numbered_across_chunks(
    options: str, tiny_models: Models, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The numbers, and with them the random draws, do not begin again in each chunk.

    A text that is drawn at random may have a tab of its own.
    """
    source = tmp_path / "in.txt"
    texts = [*GERMAN, *GERMAN, GERMAN[0]]
    source.write_text("\n".join(texts))
    command = ("translate", "--model", tiny_models("translation"), "--n-best", 2, *options.split())
    expected = [line.split("\t", 2) for line in lines_of(*command, *texts)]
    monkeypatch.setattr(lines, "CHUNK_LINES", 2)
    found = [line.split("\t", 2) for line in lines_of(*command, "--input", source)]
    assert [(n, text) for n, _, text in found] == [(n, text) for n, _, text in expected]
    assert [int(number) for number, _, _ in expected] == [
        n for n, text in enumerate(texts, start=1) for _ in range(2 if text else 1)
    ]


# Sampling


def test_a_seed_decides_the_samples(tiny_models: Models) -> None:
    for name, command, texts in (
        ("translation", "translate", GERMAN),
        ("couplet", "couplet", FIRSTS),
    ):
        draw = (command, "--model", tiny_models(name), "--sample", "--temperature", 2, *texts)
        first = lines_of(*draw, "--seed", 1)
        assert lines_of(*draw, "--seed", 1, "--batch-tokens", 1) == first
        assert lines_of(*draw, "--seed", 2) != first
        assert lines_of(*draw, "--seed", 0) == lines_of(*draw)


# Lengths, repetition, prefixes


def test_outputs_begin_with_the_prefix(tiny_models: Models) -> None:
    command = ("translate", "--model", tiny_models("translation"), "--prefix", "A cat")
    found = lines_of(*command, *GERMAN)
    assert [line.startswith("A cat ") for line in found] == [True, False, True]
    assert found[1] == ""
    command = ("couplet", "--model", tiny_models("couplet"), "--prefix", "春")
    assert [line[:1] for line in lines_of(*command, *FIRSTS[:2])] == ["春", ""]


# Ensembles


def test_the_message_about_incompatible_models_names_them(
    tiny_models: Models, tmp_path: Path
) -> None:
    model, other = tiny_models("translation"), tmp_path / "other"
    shutil.copytree(model, other)
    config = json.loads((other / "config.json").read_text())
    config["data"]["tgt"] = "fr"
    (other / "config.json").write_text(json.dumps(config))
    message = error_of(1, "translate", "--model", model, "--model", other, "Hund")
    assert str(model) in message and str(other) in message
    assert "their target language differs" in message


# Evaluation


def test_evaluate_takes_the_options_of_a_search(
    tiny_models: Models, tiny_corpora: dict[str, Path]
) -> None:
    model = tiny_models("translation")
    data = ("--data", tiny_corpora["translation"], "--json")

    def measured(*options: object) -> tuple[float, float]:
        command = ("evaluate", "translation", "--model", model, *data, "--split", "val")
        report = json.loads("".join(lines_of(*command, *options)))
        return report["bleu"], pytest.approx(report["loss"], rel=1e-5)

    plain = measured()
    assert measured("--batch-tokens", 20, "--threads", 1) == plain
    assert measured("--model", model) == plain
    assert measured("--max-length", 2)[0] < plain[0]
    assert measured("--sample", "--temperature", 5)[0] < plain[0]
    assert measured("--sample", "--temperature", 5, "--seed", 1) != measured(
        "--sample", "--temperature", 5, "--seed", 2
    )


# Refused options


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--beam 4 --sample", "--beam must be 1 with sampling, not 4"),
        ("--top-p 0.9", "--top-p must be 1.0 without sampling, not 0.9"),
        ("--beam 2 --n-best 3", "--n-best must be at most the width of the beam (2), not 3"),
        ("--beam 1 --diverse 0.5", "--diverse must be 0 with a beam of 1, not 0.5"),
        ("--length-penalty nan", "--length-penalty must be from 0 to 10, not nan"),
    ],
)
def test_contradicting_options_are_named(arguments: str, message: str, tiny_models: Models) -> None:
    """They are refused before standard input is read."""
    command = ("translate", "--model", tiny_models("translation"))
    assert error_of(2, *command, *arguments.split()) == f"error: {message}"


def test_evaluate_names_contradicting_options_too(
    tiny_models: Models, tiny_corpora: dict[str, Path]
) -> None:
    command = ("evaluate", "couplet", "--model", tiny_models("couplet"))
    data = ("--data", tiny_corpora["couplet"])
    assert "--top-p must be 1.0 without sampling" in error_of(2, *command, *data, "--top-p", 0.5)
    message = error_of(2, *command, *data, "--max-length", 5)
    assert message == (
        "error: --max-length must be left out: "
        "the form of a couplet decides its length and what repeats"
    )
    assert "nothing to search for" in error_of(2, "evaluate", "classification", *data, "--sample")
    twice = ("--model", tiny_models("classification")) * 2
    assert "one --model" in error_of(2, "evaluate", "classification", *data, *twice)
    command = ("evaluate", "translation", "--model", tiny_models("translation"))
    message = error_of(2, *command, "--data", tiny_corpora["translation"], "--src=en", "--tgt=de")
    assert "the model translates from de to en, not the reverse" in message


@pytest.mark.parametrize("arguments", ["--beam 20000", "--threads 100000", "--seed -1"])
def test_the_message_about_a_value_out_of_range_has_the_range(arguments: str) -> None:
    """``--threads 100000`` was a segmentation fault; ``--beam 20000`` ran out of memory."""
    message = error_of(2, "translate", *arguments.split(), "Hund")
    assert f"'{arguments.split()[0]}'" in message
    assert "is not in the range" in message


def test_every_option_of_a_search_has_its_range_in_the_help() -> None:
    text = run("translate", "--help").stdout
    for name, option in options_of(GenerationConfig).items():
        assert re.search(rf"^  --{(option.short or name).replace('_', '-')}\b", text, re.MULTILINE)
        assert option.least is None or f"[{option.least}<=x<={option.most}]" in text


def test_the_options_reach_the_search(tiny_models: Models) -> None:
    model = tiny_models("translation")
    options = {"beam_size": 3, "diversity": 2.0, "max_length": 6, "no_repeat_ngram": 1}
    arguments = ("--beam", 3, "--diversity", 2, "--max-length", 6, "--no-repeat-ngram", 1)
    expected = Translator.load(model).translate(GERMAN, **options)
    assert lines_of("translate", "--model", model, *arguments, *GERMAN) == expected


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried ..."),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`"),
    ],
)
def test_out_of_memory_is_one_line(
    error: Exception, tiny_models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*rest: object, **options: object) -> None:
        raise error

    model = tiny_models("translation")  # its training translates, too
    monkeypatch.setattr(Translator, "generate", fail)
    message = error_of(1, "translate", "--model", model, "Hund")
    assert message.startswith("error: out of memory: try a smaller --batch-tokens")


def test_an_impossible_prefix_is_refused_with_the_reason(tiny_models: Models) -> None:
    command = ("translate", "--model", tiny_models("translation"), "Hund", "--prefix")
    assert "prefix must be a text of at least one word" in error_of(2, *command, "")
    assert "not valid in this locale's encoding" in error_of(2, *command, "A \udcff")
    command = ("couplet", "--model", tiny_models("couplet"), "天地", "--prefix")
    assert "it breaks the rule of characters" in error_of(2, *command, "地")
    assert "it breaks the rule of length" in error_of(2, *command, "山水山")
    assert "does not know '猫'" in error_of(2, *command, "猫")
    too_long = ("--prefix", "A dog", "--max-length", 1)
    message = error_of(2, "translate", "--model", tiny_models("translation"), "Hund", *too_long)
    assert "tokens, and an output may have 1" in message


def test_couplet_has_no_length_options() -> None:
    for option in ("--max-length", "--min-length-ratio", "--no-repeat-ngram"):
        assert f"No such option '{option}'" in run("couplet", option, 1, "天").stderr
        assert option not in run("couplet", "--help").stdout
