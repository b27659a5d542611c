"""Text to ids and back: a tokeniser and the vocabulary that goes with it, kept in a folder."""

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformer_suite.core.config import check, check_choice
from transformer_suite.core.errors import CheckpointError, ConfigError
from transformer_suite.data.tokenizers import (
    TOKENIZER_NAMES,
    SentencePieceBPE,
    Tokenizer,
    get_tokenizer,
    sentencepiece_vocabulary,
    train_sentencepiece,
    version_of,
)
from transformer_suite.data.vocabulary import SPECIALS, Vocabulary


@dataclass(frozen=True, kw_only=True)
class CodecConfig:
    """How text becomes ids.

    `vocab_size` counts SentencePiece's pieces; of another tokeniser's words those seen `min_freq`
    times are kept, the `vocab_size` most frequent of them (None: all). `bpe_dropout`, which
    SentencePiece alone has, cuts the training texts into other pieces every epoch.
    """

    tokenizer: str = SentencePieceBPE.name
    vocab_size: int | None = 8000
    min_freq: int = 2
    bpe_dropout: float = 0.0

    def __post_init__(self) -> None:
        check_choice("data.tokenizer", self.tokenizer, TOKENIZER_NAMES)
        size = self.vocab_size
        if self.tokenizer == SentencePieceBPE.name:
            check(size is not None, "data.vocab_size", size, "a number for sentencepiece")
        check(size is None or size >= 8, "data.vocab_size", size, "at least 8, or none")
        check(self.min_freq >= 1, "data.min_freq", self.min_freq, "at least 1")
        value = self.bpe_dropout
        check(0.0 <= value < 1.0, "data.bpe_dropout", value, "at least 0 and below 1")

    def vocabulary_settings(self) -> dict[str, object]:
        """What decides a vocabulary, apart from the texts, as plain values."""
        return {
            "tokenizer": self.tokenizer,
            "version": version_of(self.tokenizer),
            "vocab_size": self.vocab_size,
            "min_freq": self.min_freq,
        }


class TextCodec:
    """Encodes texts as ids and decodes ids to text.

    In a checkpoint folder it is `vocabulary.txt` and, for SentencePiece, `sentencepiece.model`;
    with a `side` ("src", "tgt") these are `vocabulary.src.txt` and `sentencepiece.src.model`.
    """

    def __init__(self, tokenizer: Tokenizer, vocabulary: Vocabulary) -> None:
        self.tokenizer = tokenizer
        self.vocabulary = vocabulary

    @classmethod
    def build(
        cls, texts: Iterable[str], folder: Path, config: CodecConfig, *, side: str = ""
    ) -> "TextCodec":
        """Learns a vocabulary from `texts` and saves the codec in `folder`.

        Raises:
            ConfigError: no vocabulary comes of these texts and this configuration.
        """
        if config.tokenizer == SentencePieceBPE.name:
            assert config.vocab_size is not None
            model_file = _model_file(folder, side)
            train_sentencepiece(texts, model_file, vocab_size=config.vocab_size)
            tokenizer = get_tokenizer(config.tokenizer, model_file=model_file)
            vocabulary = sentencepiece_vocabulary(model_file)
        else:
            tokenizer = get_tokenizer(config.tokenizer)
            vocabulary = Vocabulary.build(
                map(tokenizer.tokenize, texts),
                min_freq=config.min_freq,
                max_size=config.vocab_size,
            )
            if len(vocabulary) == len(SPECIALS):
                raise ConfigError(
                    f"the vocabulary is empty: no word of the {config.tokenizer} tokenizer is "
                    f"seen data.min_freq = {config.min_freq} times"
                )
        vocabulary.save(_vocabulary_file(folder, side))
        return cls(tokenizer, vocabulary)

    @classmethod
    def load(cls, folder: Path, *, tokenizer: str, side: str = "") -> "TextCodec":
        """Reads what `build` left in `folder`.

        Raises:
            CheckpointError: a file is missing, damaged, or does not belong to the other.
        """
        model_file = _model_file(folder, side)
        splitter = get_tokenizer(tokenizer, model_file=model_file)
        vocabulary_file = _vocabulary_file(folder, side)
        vocabulary = Vocabulary.load(vocabulary_file)
        if isinstance(splitter, SentencePieceBPE) and vocabulary.itos != tuple(splitter.pieces):
            raise CheckpointError(
                f"{model_file}: its pieces are not the tokens in {vocabulary_file.name}: "
                "the two come from different models"
            )
        return cls(splitter, vocabulary)

    @staticmethod
    def file_names(tokenizer: str, side: str = "") -> list[str]:
        """What `build` leaves in its folder."""
        paths = [_vocabulary_file(Path(), side)]
        if tokenizer == SentencePieceBPE.name:
            paths.append(_model_file(Path(), side))
        return [path.name for path in paths]

    def describe(self) -> dict[str, Any]:
        """All that decides what the codec does, as plain values; `restore` makes its equal."""
        tokenizer = self.tokenizer
        model = tokenizer.model if isinstance(tokenizer, SentencePieceBPE) else b""
        return {
            "tokenizer": tokenizer.name,
            "version": version_of(tokenizer.name),
            "model": base64.b64encode(model).decode(),
            "tokens": self.vocabulary.itos,
        }

    @classmethod
    def restore(cls, description: Mapping[str, Any]) -> "TextCodec":
        """The codec that `describe` described."""
        model = base64.b64decode(description["model"])
        name = description["tokenizer"]
        tokenizer = SentencePieceBPE(model) if model else get_tokenizer(name)
        return cls(tokenizer, Vocabulary(description["tokens"]))

    def encode(self, text: str, *, dropout: float = 0.0) -> list[int]:
        """The ids of `text`, without `<bos>` and `<eos>`; `dropout` is SentencePiece's alone."""
        if dropout > 0.0 and isinstance(self.tokenizer, SentencePieceBPE):
            return self.vocabulary.encode(self.tokenizer.tokenize(text, dropout))
        return self.vocabulary.encode(self.tokenizer.tokenize(text))

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`, up to `<eos>`."""
        return self.tokenizer.detokenize(self.vocabulary.decode(ids))


def _model_file(folder: Path, side: str) -> Path:
    return folder / (f"sentencepiece.{side}.model" if side else "sentencepiece.model")


def _vocabulary_file(folder: Path, side: str) -> Path:
    return folder / (f"vocabulary.{side}.txt" if side else "vocabulary.txt")
