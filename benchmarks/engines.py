"""Three engines with the same weights: a tutorial's loop, CTranslate2 and this program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from core.decoding.config import GenerationConfig
from data.vocabulary import BOS, BOS_ID, EOS_ID, PAD
from tasks.seq2seq.batches import source_tensor
from tasks.seq2seq.generation import EncodedTexts, search_segments
from tasks.seq2seq.request import GenerationRequest
from tasks.translation.predict import Translator

Ids = list[list[int]]
Translate = Callable[[Ids], Ids]
"""From source ids to output ids."""


def tutorial_loop(model_folder: Path | None, threads: int) -> Translate:
    """Returns the greedy loop of the tutorials.

    It translates one sentence after another, and every step computes the whole output so far again.
    """
    torch.set_num_threads(threads)
    translator = Translator.load(model_folder, device="cpu")
    model, limit = translator.models[0], translator.config.generation.longest_output

    def translate_one(source: list[int]) -> list[int]:
        memory = model.encode(source_tensor([source]))
        output = torch.tensor([[BOS_ID]])
        for _ in range(limit(len(source))):
            logits = model.generator(model.decode(output, memory)[-1])
            token = int(logits.argmax(dim=-1))
            if token == EOS_ID:
                break
            output = torch.cat([output, torch.tensor([[token]])])
        return output[1:, 0].tolist()

    def translate(sources: Ids) -> Ids:
        with torch.no_grad():
            return [translate_one(source) for source in sources]

    return translate


def ours(model_folder: Path | None, threads: int, options: GenerationConfig) -> Translate:
    """Returns the search of this program."""
    torch.set_num_threads(threads)
    translator = Translator.load(model_folder, device="cpu")

    def translate(sources: Ids) -> Ids:
        model = translator.step_model()
        texts = EncodedTexts(segments=[[source] for source in sources])
        found = search_segments(model, texts, options, GenerationRequest(), translator.device)
        return [result.hypotheses[0].tokens for result in found]

    return translate


def ctranslate2_engine(
    folder: Path,
    words: Sequence[str],
    threads: int,
    options: GenerationConfig,
    compute_type: str,
    workers: int,
    batch_size: int,
) -> Translate:
    """Returns CTranslate2 with ``threads`` threads in total for ``workers`` batches at a time."""
    import ctranslate2

    engine = ctranslate2.Translator(
        str(folder),
        device="cpu",
        compute_type=compute_type,
        inter_threads=workers,
        intra_threads=threads // workers,
    )
    numbers = {word: number for number, word in enumerate(words)}

    def translate(sources: Ids) -> Ids:
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

    return translate
