"""Three ways to translate with the same weights: a tutorial's loop, CTranslate2, this program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import ctranslate2
import torch

from core.generation_config import GenerationConfig
from data.vocabulary import BOS, BOS_ID, EOS_ID, PAD
from tasks.generation import generate
from tasks.pairs import source_tensor
from tasks.translation.export import to_ctranslate2
from tasks.translation.predict import Translator

Translate = Callable[[Sequence[Sequence[int]]], list[list[int]]]
"""From source ids to output ids."""


@dataclass(frozen=True)
class Engine:
    """A name for the table, and what translates a list of sentences."""

    name: str
    translate: Translate


def tutorial_loop(translator: Translator) -> Engine:
    """The loop of the tutorials: greedy, one sentence after another, and every step computes the
    whole output so far anew."""
    model, limit = translator.model, translator.config.generation.longest_output

    def translate_one(source: Sequence[int]) -> list[int]:
        memory = model.encode(source_tensor([source]))
        output = torch.tensor([[BOS_ID]])
        for _ in range(limit(len(source))):
            logits = model.generator(model.decode(output, memory)[-1])
            word = int(logits.argmax(dim=-1))
            if word == EOS_ID:
                break
            output = torch.cat([output, torch.tensor([[word]])])
        return output[1:, 0].tolist()

    def translate(sources: Sequence[Sequence[int]]) -> list[list[int]]:
        with torch.no_grad():
            return [translate_one(source) for source in sources]

    return Engine("tutorials' loop", translate)


def ours(translator: Translator, options: GenerationConfig) -> Engine:
    """This program."""

    def translate(sources: Sequence[Sequence[int]]) -> list[list[int]]:
        found = generate(translator.model, sources, options, device=translator.device)
        return [hypotheses[0].tokens for hypotheses in found]

    return Engine("ours, int8" if options.int8 else "ours, float32", translate)


def ctranslate2_engine(
    folder: Path,
    translator: Translator,
    options: GenerationConfig,
    *,
    compute_type: str,
    threads: int,
    workers: int,
    batch_size: int,
) -> Engine:
    """CTranslate2 with so many threads in all, ``workers`` batches at a time."""
    engine = ctranslate2.Translator(
        str(folder),
        device="cpu",
        compute_type=compute_type,
        inter_threads=workers,
        intra_threads=threads // workers,
    )
    words = translator.source.vocabulary.itos
    numbers = {word: number for number, word in enumerate(translator.target.vocabulary.itos)}

    def translate(sources: Sequence[Sequence[int]]) -> list[list[int]]:
        results = engine.translate_batch(
            [[words[i] for i in source] for source in sources],
            beam_size=options.beam_size,
            length_penalty=options.length_penalty,
            max_batch_size=batch_size,
            max_decoding_length=max(options.longest_output(len(s)) for s in sources),
            min_decoding_length=0,
            disable_unk=True,
            suppress_sequences=[[PAD], [BOS]],
        )
        return [[numbers[word] for word in result.hypotheses[0]] for result in results]

    how = f"{workers} workers" if workers > 1 else f"{threads} threads an operation"
    return Engine(f"CTranslate2, {compute_type}, {how}", translate)


def exported(model: Path | None, folder: Path) -> Path:
    """The model in CTranslate2's format, in ``folder``."""
    to_ctranslate2(model, folder)
    return folder
