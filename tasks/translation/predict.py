"""Translating with a trained model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from transformer_suite.core.config import check
from transformer_suite.core.device import choose_device
from transformer_suite.core.errors import ConfigError
from transformer_suite.core.model.sequence_to_sequence import SequenceToSequence
from transformer_suite.core.storage.checkpoint import WEIGHTS_FILE, load_weights
from transformer_suite.data.codec import TextCodec
from transformer_suite.data.vocabulary import UNK_ID, Vocabulary
from transformer_suite.tasks.runs.checkpoint_folder import Folders, model_folders, read_config
from transformer_suite.tasks.seq2seq.attention_maps import Attention, attention
from transformer_suite.tasks.seq2seq.ensembles import TrainedModels, check_alike
from transformer_suite.tasks.seq2seq.generation import generate_texts
from transformer_suite.tasks.seq2seq.n_best import Output
from transformer_suite.tasks.seq2seq.scoring import PairScore, score_texts
from transformer_suite.tasks.translation.config import TranslationConfig
from transformer_suite.tasks.translation.dataset import load_codecs
from transformer_suite.tasks.translation.model import TranslationModel
from transformer_suite.tasks.translation.pieces import encoded_pieces


@dataclass(frozen=True)
class Translation:
    """A translated text.

    ``score`` is the search's score: log-probability, in a beam over the length normaliser; it is
    summed over ``pieces``, the number of sentences, or parts of long ones, translated one by one.
    ``others`` are the next best translations, where more than one was asked for (``n_best``).
    """

    text: str
    score: float
    pieces: int
    others: tuple[Translation, ...] = ()

    @property
    def hypotheses(self) -> tuple[Translation, ...]:
        """This one and the others, the best first."""
        return (self, *self.others)

    def record(self) -> dict[str, Any]:
        """What JSON says of it."""
        return {"translation": self.text, "score": self.score, "pieces": self.pieces}


class Translator:
    """A trained model, ready to translate: ``Translator.load().translate(["Ein Hund rennt."])``."""

    def __init__(
        self,
        models: Sequence[SequenceToSequence],
        source: TextCodec,
        target: TextCodec,
        config: TranslationConfig,
        device: torch.device,
    ) -> None:
        self.models = TrainedModels(models)
        self.source = source
        self.target = target
        self.config = config
        self.device = device

    @classmethod
    def load(cls, folder: Folders = None, *, device: str = "auto") -> Translator:
        """The model in ``folder``, or the one that ships; an ensemble, if there are several.

        An ensemble searches with the first model's configuration.

        Raises:
            CheckpointError: a folder is missing, incomplete, damaged or another task's; or models
                of different languages, tokenizers or vocabularies.
        """
        chosen = choose_device(device)
        paths = model_folders("translation", folder)
        each = [_load(path, chosen) for path in paths]
        check_alike(paths, [_facts(source, target, config) for _, source, target, config in each])
        _, source, target, config = each[0]
        max_tokens = min(config.data.max_tokens for *_, config in each)
        config = replace(config, data=replace(config.data, max_tokens=max_tokens))
        return cls([model for model, *_ in each], source, target, config, chosen)

    def translate(self, texts: Sequence[str], **options: Any) -> list[str]:
        """The translations of ``texts``, in their order; an empty text stays empty.

        ``options`` are those of :meth:`translate_scored`.
        """
        return [translation.text for translation in self.translate_scored(texts, **options)]

    def translate_scored(
        self, texts: Sequence[str], *, prefix: str | None = None, **options: Any
    ) -> list[Translation]:
        """As :meth:`translate`, with scores and, if asked for, alternatives.

        A text is translated sentence by sentence, and a sentence that is longer than the model can
        take in pieces; see :mod:`tasks.translation.pieces`. The alternatives to a text of several
        pieces are made of those to its pieces; see :mod:`tasks.seq2seq.n_best`.

        Args:
            prefix: what every translation begins with, in words that the model knows.
            options: replace those of the model's :class:`GenerationConfig` (``beam_size=1`` for
                greedy search, ``n_best=5``, ``sample=True``...); or are ``constraint``,
                ``numbers``, ``batch_tokens`` and ``on_batch`` of
                :func:`tasks.seq2seq.generation.generate_texts`.

        Raises:
            ConfigError: an option out of range, options that contradict each other, a prefix that
                cannot come.
        """
        pieces = [self._pieces(text) for text in texts]
        found = self._generate(pieces, prefix, options)
        return [
            self._translation(outputs, len(of_text))
            for outputs, of_text in zip(found, pieces, strict=True)
        ]

    def attention(self, text: str, *, prefix: str | None = None, **options: Any) -> list[Attention]:
        """Who attends to whom in ``text`` and its translation, a record for each piece of it.

        Args:
            prefix, options: those of :meth:`translate_scored`, for the translation.

        Raises:
            ConfigError: as there; or the model is an ensemble.
        """
        pieces = self._pieces(text)
        ((output, *_),) = self._generate([pieces], prefix, options)
        vocabularies = self.source.vocabulary, self.target.vocabulary
        return [
            attention(self.models, piece, found.tokens, vocabularies, self.device)
            for piece, found in zip(pieces, output.hypotheses, strict=True)
        ]

    def score(
        self, sources: Sequence[str], targets: Sequence[str], **options: Any
    ) -> list[PairScore]:
        """How probable each of ``targets`` is as the translation of the source at its place.

        ``options`` are those of :func:`tasks.seq2seq.scoring.score_texts`.
        """
        return score_texts(
            self.models, self.source, self.target, sources, targets, device=self.device, **options
        )

    @property
    def max_source_tokens(self) -> int:
        """The most source tokens that are translated in one piece."""
        return min(self.config.data.max_tokens, self.models.max_len - 1)

    def _pieces(self, text: str) -> list[list[int]]:
        return encoded_pieces(text, self.source.encode, self.max_source_tokens)

    def _generate(
        self, texts: Sequence[list[list[int]]], prefix: str | None, options: Mapping[str, Any]
    ) -> list[list[Output]]:
        int8 = bool(options.get("int8", self.config.generation.int8))
        return generate_texts(
            self.models.step_model(int8=int8),
            texts,
            self.config.generation,
            device=self.device,
            prefix=() if prefix is None else known_ids(prefix, self.target),
            **options,
        )

    def _translation(self, outputs: Sequence[Output], pieces: int) -> Translation:
        best, *others = (
            Translation(self.target.decode(output.tokens), output.score, pieces)
            for output in outputs
        )
        return replace(best, others=tuple(others))


def _load(
    path: Path, device: torch.device
) -> tuple[TranslationModel, TextCodec, TextCodec, TranslationConfig]:
    """One model, the codecs of source and target, and the configuration."""
    config = read_config(path, "translation", TranslationConfig)
    source, target = load_codecs(path, config.data)
    model = TranslationModel(
        len(source.vocabulary),
        len(target.vocabulary),
        config.model,
        share_embeddings=config.data.share_vocabulary,
    )
    load_weights(path / WEIGHTS_FILE, model)
    return model.to(device).eval().requires_grad_(False), source, target, config


def _facts(
    source: TextCodec, target: TextCodec, config: TranslationConfig
) -> dict[str, str | Vocabulary]:
    """What the models of an ensemble must have in common."""
    return {
        "source language": config.data.src,
        "target language": config.data.tgt,
        "tokenizer": config.data.tokenizer,
        "source vocabulary": source.vocabulary,
        "target vocabulary": target.vocabulary,
    }


def known_ids(prefix: str, codec: TextCodec) -> list[int]:
    """The ids of what a translation is to begin with.

    Raises:
        ConfigError: it has no word, or one that the vocabulary does not know.
    """
    words = codec.tokenizer.tokenize(prefix)
    check(bool(words), "the prefix", prefix, "a text of at least one word")
    ids = codec.vocabulary.encode(words)
    for word, index in zip(words, ids, strict=True):
        if index == UNK_ID:
            unknown = codec.tokenizer.detokenize([word])
            raise ConfigError(f"the model does not know {unknown!r} in the prefix {prefix!r}")
    return ids
