"""Choosing the beam size and the length penalty on the validation data."""

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from sacrebleu import BLEU

from core.decoding.config import GenerationConfig
from tasks.seq2seq.request import GenerationRequest
from tasks.translation import train
from tasks.translation.evaluate import score
from tasks.translation.predict import Translator
from tasks.translation.train import LENGTH_PENALTIES, choose_search
from tests.commands.command_line import run

REFERENCE = "a small dog runs over the green field"


class Scripted:
    """A translator whose output depends on the search: ``outputs`` by beam and length penalty."""

    def __init__(self, generation: GenerationConfig, outputs: dict[tuple[int, float], str]) -> None:
        self.generation = generation
        self._outputs = outputs
        self.asked: list[tuple[int, float]] = []

    def generate(self, texts: Sequence[str], request: GenerationRequest) -> list[Any]:
        config = request.resolve(self.generation)
        self.asked.append((config.beam_size, config.length_penalty))
        text = self._outputs.get(self.asked[-1], "something else that is wrong in every word")
        return [SimpleNamespace(text=text) for _ in texts]


@pytest.mark.parametrize("best", [(1, 0.0), (5, 0.0), (5, 1.4), (5, 2.0)])
def test_the_search_with_the_best_bleu_is_chosen(best: tuple[int, float]) -> None:
    """The default length penalty of one corpus once cost a model of another three points."""
    generation = GenerationConfig(beam_size=5, length_penalty=1.4)
    scripted = Scripted(generation, {best: REFERENCE})
    choice = choose_search(cast(Translator, scripted), ["ein Hund"] * 3, [REFERENCE] * 3)
    assert (choice.generation.beam_size, choice.generation.length_penalty) == best
    assert choice.value == pytest.approx(100.0)
    assert choice.greedy == pytest.approx(100.0 if best[0] == 1 else 0.0, abs=5.0)
    assert set(scripted.asked) == {(1, 0.0), (5, 1.4), *((5, p) for p in LENGTH_PENALTIES)}


def test_the_pairs_are_of_all_parts_of_the_corpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Validation data of two domains, one after the other: the search suited the first alone."""
    monkeypatch.setattr(train, "MAX_SENTENCES", 4)
    asked: list[Sequence[str]] = []
    scripted = Scripted(GenerationConfig(beam_size=1), {})
    generate = scripted.generate
    monkeypatch.setattr(
        scripted, "generate", lambda texts, r: asked.append(texts) or generate(texts, r)
    )
    texts = [str(number) for number in range(10)]
    choose_search(cast(Translator, scripted), texts, texts)
    assert asked == [["0", "2", "5", "7"]]


def test_without_a_beam_the_search_stays_greedy() -> None:
    scripted = Scripted(GenerationConfig(beam_size=1, length_penalty=0.0), {})
    choice = choose_search(cast(Translator, scripted), ["ein Hund"], [REFERENCE])
    assert choice.generation.beam_size == 1
    assert scripted.asked == [(1, 0.0)]


@pytest.mark.parametrize("is_chosen", [True, False])
def test_a_run_ends_by_choosing_and_saves_the_choice(
    tiny_corpora: dict[str, Path], tmp_path: Path, is_chosen: bool
) -> None:
    """The choice is told in one line, is in the checkpoint, and is what the test figure is of."""
    out, corpus = tmp_path / "run", tiny_corpora["translation"]
    settings = [
        f"train.epochs={12 if is_chosen else 1}",
        "train.learning_rate=0.005",
        "data.vocab_size=400",
        "generation.beam_size=3",
        "generation.length_penalty=10",
        f"train.choose_search={str(is_chosen).lower()}",
    ]
    done = run(
        "train",
        "translation",
        "--preset=tiny",
        f"--data={corpus}",
        f"--out={out}",
        *(f"--set={setting}" for setting in settings),
    )
    assert done.exit_code == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if "search chosen on validation" in line]
    saved = json.loads((out / "config.json").read_text())["generation"]
    if not is_chosen:
        assert lines == []
        assert (saved["beam_size"], saved["length_penalty"]) == (3, 10.0)
        return
    (line,) = lines
    assert f"beam {saved['beam_size']}, length penalty {saved['length_penalty']:g} " in line
    translator = Translator.load(out, device="cpu")
    sources, references = (
        (corpus / f"val.{language}").read_text().splitlines() for language in ("de", "en")
    )
    chosen = score(BLEU(), translator.translate(sources), references)[0]
    others = [{"length_penalty": penalty, "beam_size": 3} for penalty in (0.0, 1.0, 10.0)]
    assert f"BLEU {chosen:.2f};" in line
    for options in others:
        assert score(BLEU(), translator.translate(sources, **options), references)[0] <= chosen
