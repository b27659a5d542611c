"""Translating with a trained model."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from core.checkpoint import WEIGHTS_FILE, load_weights
from core.device import choose_device
from data.codec import TextCodec
from tasks.folders import model_folder, read_config
from tasks.generation import DEFAULT_BATCH_TOKENS, generate
from tasks.translation.config import TranslationConfig
from tasks.translation.dataset import load_codecs
from tasks.translation.model import TranslationModel
from tasks.translation.pieces import encoded_pieces


@dataclass(frozen=True)
class Translation:
    """A translated text.

    ``score`` is the search's score (log-probability over the length normaliser), summed over
    ``pieces``, the number of sentences, or parts of long ones, that were translated one by one.
    """

    text: str
    score: float
    pieces: int

    def record(self) -> dict[str, Any]:
        """What JSON says of it."""
        return {"translation": self.text, "score": self.score, "pieces": self.pieces}


class Translator:
    """A trained model, ready to translate: ``Translator.load().translate(["Ein Hund rennt."])``."""

    def __init__(
        self,
        model: TranslationModel,
        source: TextCodec,
        target: TextCodec,
        config: TranslationConfig,
        device: torch.device,
    ) -> None:
        self.model = model
        self.source = source
        self.target = target
        self.config = config
        self.device = device

    @classmethod
    def load(cls, folder: str | Path | None = None, *, device: str = "auto") -> Translator:
        """The model in ``folder``, or the one that ships.

        Raises:
            CheckpointError: the folder is missing, incomplete, damaged or another task's.
        """
        path = model_folder("translation", folder)
        chosen = choose_device(device)
        config = read_config(path, "translation", TranslationConfig)
        source, target = load_codecs(path, config.data)
        model = TranslationModel(
            len(source.vocabulary),
            len(target.vocabulary),
            config.model,
            share_embeddings=config.data.share_vocabulary,
        )
        load_weights(path / WEIGHTS_FILE, model)
        return cls(model.to(chosen).eval(), source, target, config, chosen)

    def translate(self, texts: Sequence[str], **options: Any) -> list[str]:
        """The translations of ``texts``, in their order; an empty text stays empty.

        ``options`` are those of :meth:`translate_scored`.
        """
        return [translation.text for translation in self.translate_scored(texts, **options)]

    def translate_scored(
        self,
        texts: Sequence[str],
        *,
        batch_tokens: int = DEFAULT_BATCH_TOKENS,
        on_batch: Callable[[int], None] = lambda pieces: None,
        **options: Any,
    ) -> list[Translation]:
        """As :meth:`translate`, with scores.

        A text is translated sentence by sentence, and a sentence that is longer than the model can
        take in pieces; see :mod:`tasks.translation.pieces`.

        Args:
            batch_tokens: the most source tokens that are translated at a time.
            on_batch: told how many pieces have just been finished.
            options: replace those of the model's :class:`GenerationConfig`: ``beam_size=1`` for
                greedy search, ``length_penalty=...``.
        """
        generation = dataclasses.replace(self.config.generation, **options)
        pieces: list[list[int]] = []
        pieces_of: list[range] = []
        for text in texts:
            start = len(pieces)
            pieces.extend(encoded_pieces(text, self.source.encode, self.max_source_tokens))
            pieces_of.append(range(start, len(pieces)))
        found = generate(
            self.model,
            pieces,
            generation,
            device=self.device,
            batch_tokens=batch_tokens,
            on_batch=on_batch,
        )
        return [
            Translation(
                text=self.target.decode([token for i in numbers for token in found[i][0].tokens]),
                score=sum((found[i][0].score for i in numbers), start=0.0),
                pieces=len(numbers),
            )
            for numbers in pieces_of
        ]

    @property
    def max_source_tokens(self) -> int:
        """The most source tokens that are translated in one piece."""
        return min(self.config.data.max_tokens, self.config.model.max_len - 1)
