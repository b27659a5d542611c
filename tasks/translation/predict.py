"""Translating with a trained model."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from core.checkpoint import WEIGHTS_FILE, load_weights
from core.training import choose_device
from data.codec import TextCodec
from tasks.folders import model_folder, read_config
from tasks.generation import DEFAULT_BATCH_TOKENS, generate
from tasks.translation.config import TranslationConfig
from tasks.translation.dataset import load_codecs
from tasks.translation.model import TranslationModel

# Where a text that is too long for the model is cut, the best place first.
_BREAKS = (re.compile(r"(?<=[.!?…])\s+"), re.compile(r"(?<=[,;:\u2013\u2014])\s+"), re.compile(r"\s+"))


@dataclass(frozen=True)
class Translation:
    """A translated text.

    ``score`` is the search's score (log-probability over the length normaliser), summed over
    ``pieces``, the number of pieces that a long text was cut into.
    """

    text: str
    score: float
    pieces: int


class Translator:
    """A trained model, ready to translate.

        Translator.load().translate(["Ein Hund rennt."])
    """

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

    def translate(self, texts: Sequence[str], **options: float) -> list[str]:
        """The translations of ``texts``, in their order; an empty text stays empty.

        ``options`` replace those of the model's :class:`GenerationConfig`: ``beam_size=1`` for greedy
        search, ``length_penalty=...``.
        """
        return [translation.text for translation in self.translate_scored(texts, **options)]

    def translate_scored(
        self,
        texts: Sequence[str],
        *,
        batch_tokens: int = DEFAULT_BATCH_TOKENS,
        on_batch: Callable[[int], None] = lambda pieces: None,
        **options: float,
    ) -> list[Translation]:
        """As :meth:`translate`, with scores."""
        generation = dataclasses.replace(self.config.generation, **options)
        pieces: list[list[int]] = []
        pieces_of: list[range] = []
        for text in texts:
            start = len(pieces)
            pieces.extend(self._encode(text))
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
                text=" ".join(self.target.decode(found[i][0].tokens) for i in numbers),
                score=sum(found[i][0].score for i in numbers),
                pieces=len(numbers),
            )
            for numbers in pieces_of
        ]

    @property
    def max_source_tokens(self) -> int:
        """The most source tokens that are translated in one piece."""
        return min(self.config.data.max_tokens, self.config.model.max_len - 1)

    def _encode(self, text: str) -> list[list[int]]:
        """The ids of ``text``, in as many pieces as its length needs; none for an empty text."""
        ids = self.source.encode(text)
        if not ids:
            return []
        if len(ids) <= self.max_source_tokens:
            return [ids]
        for at in _BREAKS:
            parts = [part for part in at.split(text) if part]
            if len(parts) > 1:
                return [ids for part in self._join(parts) for ids in self._encode(part)]
        size = self.max_source_tokens
        return [ids[start : start + size] for start in range(0, len(ids), size)]

    def _join(self, parts: Sequence[str]) -> list[str]:
        """Neighbouring ``parts`` joined again as far as they fit into one piece."""
        joined: list[str] = []
        room = 0
        for part in parts:
            length = len(self.source.encode(part))
            if joined and length <= room:
                joined[-1] += f" {part}"
                room -= length
            else:
                joined.append(part)
                room = self.max_source_tokens - length
        return joined
