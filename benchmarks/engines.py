"""Engines with the same weights, from text to text: a tutorial's loop, CTranslate2, this program.

Each function makes one in a process of its own. The result maps texts and the width of the beam to
translations.
"""

from __future__ import annotations

import http.client
from collections.abc import Callable
from pathlib import Path

import torch

from benchmarks.serving import post
from data.vocabulary import BOS, BOS_ID, EOS_ID, PAD
from tasks.runs.checkpoint_folder import model_folder
from tasks.seq2seq.batches import source_tensor
from tasks.translation.engine import cached_export
from tasks.translation.predict import Engine, Translator

Translate = Callable[[tuple[list[str], int]], list[str]]

BATCH_SIZE = 128  # of CTranslate2: the fastest of 32, 64 and 128


def tutorial_loop(model: Path | None, threads: int) -> Translate:
    """Returns the greedy loop of the tutorials.

    It translates one sentence after another, and every step computes the whole output so far again.
    """
    torch.set_num_threads(threads)
    translator = Translator.load(model, device="cpu")
    model, limit = translator.models[0], translator.config.generation.longest_output

    def translate_one(text: str) -> str:
        source = translator.source.encode(text)
        memory = model.encode(source_tensor([source]))
        output = torch.tensor([[BOS_ID]])
        for _ in range(limit(len(source))):
            logits = model.generator(model.decode(output, memory)[-1])
            token = int(logits.argmax(dim=-1))
            if token == EOS_ID:
                break
            output = torch.cat([output, torch.tensor([[token]])])
        return translator.target.decode(output[1:, 0].tolist())

    def translate(job: tuple[list[str], int]) -> list[str]:
        with torch.no_grad():
            return [translate_one(text) for text in job[0]]

    return translate


def ours(model: Path | None, threads: int, engine: Engine, int8: bool) -> Translate:
    """Returns this program, with one of its engines; confidence takes time, and is left out."""
    torch.set_num_threads(threads)
    translator = Translator.load(model, device="cpu", engine=engine, int8=int8)

    def translate(job: tuple[list[str], int]) -> list[str]:
        return translator.translate(job[0], beam_size=job[1], confidence=False)

    return translate


def service(model: Path | None, threads: int, port: int) -> Translate:
    """Returns a client of the service of this program, which has begun already."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)

    def translate(job: tuple[list[str], int]) -> list[str]:
        body = {"texts": job[0], "beam": job[1]}
        try:
            results = post(connection, body)["results"]
        except (OSError, http.client.HTTPException):
            # The service ends a connection without requests while the other engines compute.
            connection.close()
            results = post(connection, body)["results"]
        return [result["translation"] for result in results]

    return translate


def ctranslate2_engine(
    model: Path | None, threads: int, workers: int, compute_type: str
) -> Translate:
    """Returns CTranslate2 and SentencePiece; ``threads`` in total for ``workers`` batches."""
    import ctranslate2

    translator = Translator.load(model, device="cpu")
    options, tokenizer = translator.generation, translator.source.tokenizer._model  # type: ignore[attr-defined]
    engine = ctranslate2.Translator(
        str(cached_export(translator, model_folder("translation", model))),
        device="cpu",
        compute_type=compute_type,
        inter_threads=workers,
        intra_threads=threads // workers,
    )

    def translate(job: tuple[list[str], int]) -> list[str]:
        sources = tokenizer.encode(job[0], out_type=str)
        results = engine.translate_batch(
            sources,
            beam_size=job[1],
            length_penalty=options.length_penalty if job[1] > 1 else 0.0,
            max_batch_size=BATCH_SIZE,
            max_decoding_length=max(options.longest_output(len(source)) for source in sources),
            min_decoding_length=0,
            disable_unk=True,
            suppress_sequences=[[PAD], [BOS]],
        )
        return tokenizer.decode([result.hypotheses[0] for result in results])

    return translate
