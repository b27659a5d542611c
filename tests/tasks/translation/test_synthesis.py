"""Corpora made of text in one language: which pairs, their provenance, and runs that are killed."""

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.errors import UserError
from tasks.seq2seq.request import GenerationRequest
from tasks.streaming import lines as streaming
from tasks.translation import synthesis
from tasks.translation.predict import Translator
from tasks.translation.synthesis import Synthesis
from tests.commands.command_line import error_of, lines_of

Models = Callable[[str], Path]

SENTENCES = [
    "Ein Hund sieht einen Ball.",
    "",
    "Eine Frau malt das Meer.",
    "  Ein  Kind\u2028sucht das Boot. ",
    "Ein Mann hört einen Vogel.",
    " ".join(["Ein Hund sieht einen Ball."] * 60),
    "Eine Katze sucht ein Haus.",
]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.de"
    path.write_text("".join(f"{line}\n" for line in SENTENCES), encoding="utf-8")
    return path


@pytest.fixture
def make(tiny_models: Models, text: Path, tmp_path: Path) -> Callable[..., Synthesis]:
    folder = tiny_models("translation")
    translator = Translator.load(folder, device="cpu")

    def synthesis_of(**options: Any) -> Synthesis:
        settings: dict[str, Any] = {
            "text": text,
            "out": tmp_path / "out",
            "models": [folder],
            "translator": translator,
            "request": GenerationRequest(beam_size=2, max_length_extra=4),
        }
        return Synthesis(**settings | options)

    return synthesis_of


def corpus(folder: Path) -> list[tuple[str, str]]:
    sides = ((folder / f"train.{language}").read_text().splitlines() for language in ("de", "en"))
    return list(zip(*sides, strict=True))


def test_every_good_line_and_its_translation_are_a_pair(
    make: Callable[..., Synthesis], tmp_path: Path
) -> None:
    made = make(length_ratio=100.0).make()
    kept = [SENTENCES[0], SENTENCES[2], "Ein  Kind sucht das Boot.", SENTENCES[4], SENTENCES[6]]
    request = GenerationRequest(beam_size=2, max_length_extra=4)
    translations = [found.text for found in make().translator.generate(kept, request)]
    assert corpus(tmp_path / "out") == list(zip(kept, translations, strict=True))
    assert made["counts"] == {"lines": 7, "pairs": 5, "empty": 1, "too_long": 1}
    assert made == json.loads((tmp_path / "out" / "synthesis.json").read_text())
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"train.de", "train.en", "synthesis.json"}


def test_pairs_of_absurd_lengths_are_left_out(
    make: Callable[..., Synthesis], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(synthesis, "_FREE_TOKENS", 0)
    loose = make(out=tmp_path / "loose", length_ratio=100.0).make()["counts"]
    strict = make(out=tmp_path / "strict", length_ratio=1.0).make()["counts"]
    encode = make().translator.source.encode
    same = [pair for pair in corpus(tmp_path / "loose") if len({*map(len, map(encode, pair))}) == 1]
    assert corpus(tmp_path / "strict") == same
    assert strict["length_ratio"] == loose["pairs"] - strict["pairs"] > 0


def test_sampling_gives_several_pairs_of_a_line(
    make: Callable[..., Synthesis], tmp_path: Path
) -> None:
    request = GenerationRequest(sample=True, n_best=4, seed=3, temperature=2.0, max_length_extra=4)
    made = make(request=request, length_ratio=100.0).make()
    pairs = corpus(tmp_path / "out")
    assert len(pairs) == len({*pairs}) == made["counts"]["pairs"] > 5
    assert len({source for source, _ in pairs}) == 5


class Killed(BaseException):
    """What ends a run in the middle, as a signal does."""


@pytest.mark.parametrize("sample", [False, True])
@pytest.mark.parametrize("step", range(6))
def test_a_killed_run_ends_as_if_nothing_had_happened(
    make: Callable[..., Synthesis],
    step: int,
    sample: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Killed while a chunk is translated, between the writes of a chunk, and while it ends."""
    monkeypatch.setattr(streaming, "CHUNK_LINES", 2)
    request = GenerationRequest(sample=sample, seed=9 * sample)
    whole = make(request=request, out=tmp_path / "whole").make()

    def fail(*arguments: Any, **options: Any) -> Any:
        raise Killed

    def after(count: int, call: Callable[..., Any]) -> Callable[..., Any]:
        calls: Iterator[int] = iter(range(count))
        return lambda *args, **kw: call(*args, **kw) if next(calls, None) is not None else fail()

    run = make(request=request)
    with monkeypatch.context() as patch:
        if step == 0:
            patch.setattr(Translator, "generate", after(2, Translator.generate))
        elif step <= 3:  # while a chunk is saved, or one of the two files
            patch.setattr(synthesis, "write_json", after(step, synthesis.write_json))
        elif step == 4:
            patch.setattr(synthesis, "atomic_write", after(1, synthesis.atomic_write))
        else:
            patch.setattr(shutil, "rmtree", fail)
        with pytest.raises(Killed):
            run.make()
    again = make(request=request).make()
    assert again == whole
    assert corpus(tmp_path / "out") == corpus(tmp_path / "whole")
    if step < 5:
        assert not (tmp_path / "out" / "unfinished").exists()


def test_what_was_begun_in_another_way_is_refused(
    make: Callable[..., Synthesis], tmp_path: Path, text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Synthesis, "_pairs", _killed)
        with pytest.raises(Killed):
            make().make()
    (tmp_path / "out" / "unfinished" / "synthesis.json").write_text("{}")
    with pytest.raises(UserError, match="was begun with another text, model or option"):
        make().make()
    shutil.rmtree(tmp_path / "out")
    made = make()
    made.make()
    assert made.make() == make().make()  # finished: nothing to do
    with pytest.raises(UserError, match="there is another corpus; name another --out"):
        replace(made, length_ratio=3.0).make()
    text.write_text("Ein Hund.\n")
    with pytest.raises(UserError, match="there is another corpus"):
        make().make()


def _killed(*arguments: Any) -> Any:
    raise Killed


def test_a_folder_with_a_corpus_of_another_kind_is_left_alone(
    make: Callable[..., Synthesis], tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "train.en").write_text("mine\n")
    with pytest.raises(UserError, match="out: there is a corpus already"):
        make().make()
    assert (tmp_path / "out" / "train.en").read_text() == "mine\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "text.de: cannot read: No such file"),
        (b"gut\nsch\xf6n\n", r"text\.de:2: not valid"),
        (b"", "text.de: the file is empty"),
    ],
)
def test_text_that_cannot_be_read_is_named(
    make: Callable[..., Synthesis], text: Path, content: bytes | None, message: str
) -> None:
    text.unlink() if content is None else text.write_bytes(content)
    with pytest.raises(UserError, match=message):
        make().make()


def test_the_command_makes_a_corpus_that_a_run_can_use(
    tiny_models: Models, tiny_corpora: dict[str, Path], text: Path, tmp_path: Path
) -> None:
    out, model = tmp_path / "out", tiny_models("translation")
    command = ("synthesize", "--model", model, "--input", text, "--out", out, "--beam", "1")
    (line,) = lines_of(*command)
    assert line.startswith(f"{out}: 5 pairs of 7 lines; left out: 1 empty, 1 too long")
    assert lines_of(*command) == [line]
    assert "--beam" in error_of(2, *command[:-1], "0")
    assert "name another --out" in error_of(1, *command[:-1], "2")
    extra = f'data.extra=[{{path="{out}", tag="bt"}}]'
    corpus = tiny_corpora["translation"]
    shown = lines_of(
        *("train", "translation", "--data", corpus, "--out", tmp_path / "run", "--show-config"),
        *("--set", extra),
    )
    assert any(line.startswith("extra = [{path = ") for line in shown)
