"""Corpora made of text in one language: which pairs, their provenance, and runs that are killed."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core.errors import UserError
from tasks.seq2seq.request import GenerationRequest
from tasks.streaming import lines as streaming
from tasks.translation import synthesis
from tasks.translation.predict import Translator
from tests.commands.command_line import error_of, lines_of

Models = Callable[[str], Path]
Make = Callable[..., dict[str, Any]]

REQUEST = GenerationRequest(beam_size=2, max_length_extra=4)

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
def translator(tiny_models: Models) -> Translator:
    return Translator.load(tiny_models("translation"), device="cpu")


@pytest.fixture
def make(tiny_models: Models, translator: Translator, text: Path, tmp_path: Path) -> Make:
    folder = tiny_models("translation")

    def corpus_with(
        *, out: Path = tmp_path / "out", request: GenerationRequest = REQUEST, **options: Any
    ) -> dict[str, Any]:
        return synthesis.synthesize(text, out, [folder], translator, request, **options)

    return corpus_with


def corpus(folder: Path) -> list[tuple[str, str]]:
    sides = ((folder / f"train.{language}").read_text().splitlines() for language in ("de", "en"))
    return list(zip(*sides, strict=True))


def test_every_good_line_and_its_translation_are_a_pair(
    make: Make, translator: Translator, tmp_path: Path
) -> None:
    made = make(length_ratio=100.0)
    kept = [SENTENCES[0], SENTENCES[2], "Ein  Kind sucht das Boot.", SENTENCES[4], SENTENCES[6]]
    translations = [found.text for found in translator.generate(kept, REQUEST)]
    assert corpus(tmp_path / "out") == list(zip(kept, translations, strict=True))
    assert made["counts"] == {"lines": 7, "pairs": 5, "empty": 1, "too_long": 1}
    assert made == json.loads((tmp_path / "out" / "synthesis.json").read_text())
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"train.de", "train.en", "synthesis.json"}


def test_pairs_of_absurd_lengths_are_left_out(
    make: Make, translator: Translator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(synthesis, "_FREE_TOKENS", 0)
    loose = make(out=tmp_path / "loose", length_ratio=100.0)["counts"]
    strict = make(out=tmp_path / "strict", length_ratio=1.0)["counts"]
    encode = translator.source.encode
    same = [pair for pair in corpus(tmp_path / "loose") if len({*map(len, map(encode, pair))}) == 1]
    assert corpus(tmp_path / "strict") == same
    assert strict["length_ratio"] == loose["pairs"] - strict["pairs"] > 0


def test_sampling_gives_several_pairs_of_a_line(make: Make, tmp_path: Path) -> None:
    request = GenerationRequest(sample=True, n_best=4, seed=3, temperature=2.0, max_length_extra=4)
    made = make(request=request, length_ratio=100.0)
    pairs = corpus(tmp_path / "out")
    assert len(pairs) == len({*pairs}) == made["counts"]["pairs"] > 5
    assert len({source for source, _ in pairs}) == 5


def test_a_run_that_is_stopped_leaves_nothing(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "CHUNK_LINES", 2)
    generate, calls = Translator.generate, iter(range(2))

    def stopped(*arguments: Any) -> Any:
        return generate(*arguments) if next(calls, None) is not None else _stop()

    monkeypatch.setattr(Translator, "generate", stopped)
    with pytest.raises(KeyboardInterrupt):
        make()
    assert {path.name for path in tmp_path.iterdir()} == {"text.de"}


def _stop() -> Any:
    raise KeyboardInterrupt


def test_the_chunks_of_a_text_make_no_difference(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = GenerationRequest(sample=True, seed=9)
    whole = make(request=request)
    monkeypatch.setattr(streaming, "CHUNK_LINES", 2)
    again = make(request=request, out=tmp_path / "again")
    assert again["counts"] == whole["counts"]
    assert corpus(tmp_path / "again") == corpus(tmp_path / "out")


def test_a_folder_that_exists_is_left_alone(make: Make, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(UserError, match="out: is there already; name another folder"):
        make()
    assert [*(tmp_path / "out").iterdir()] == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "text.de: cannot read: No such file"),
        (b"gut\nsch\xffn\n", r"text\.de:2: not valid"),
        (b"", "text.de: the file is empty"),
    ],
)
def test_text_that_cannot_be_read_is_named(
    make: Make, text: Path, content: bytes | None, message: str
) -> None:
    text.unlink() if content is None else text.write_bytes(content)
    with pytest.raises(UserError, match=message):
        make()


def test_the_command_makes_a_corpus_that_a_run_can_use(
    tiny_models: Models, tiny_corpora: dict[str, Path], text: Path, tmp_path: Path
) -> None:
    out, model = tmp_path / "out", tiny_models("translation")
    command = ("synthesize", "--model", model, "--input", text, "--out", out, "--beam", "1")
    (line,) = lines_of(*command)
    assert line.startswith(f"{out}: 5 pairs of 7 lines; left out: 1 empty, 1 too long")
    assert "--beam" in error_of(2, *command[:-1], "0")
    assert "name another folder" in error_of(1, *command)
    extra = f'data.extra=[{{path="{out}", tag="bt"}}]'
    corpus = tiny_corpora["translation"]
    shown = lines_of(
        *("train", "translation", "--data", corpus, "--out", tmp_path / "run", "--show-config"),
        *("--set", extra),
    )
    assert any(line.startswith("extra = [{path = ") for line in shown)
