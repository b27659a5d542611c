"""Text to ids and back: a tokeniser and the vocabulary that goes with it, kept in a folder."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from data.tokenizers import (
    SentencePieceBPE,
    Tokenizer,
    get_tokenizer,
    sentencepiece_vocabulary,
    train_sentencepiece,
)
from data.vocabulary import Vocabulary


class TextCodec:
    """Encodes texts as ids and decodes ids to text.

    In a checkpoint folder it is `vocabulary.txt` and, for SentencePiece, `sentencepiece.model`; with a
    `side` ("src", "tgt") these are `vocabulary.src.txt` and `sentencepiece.src.model`.
    """

    def __init__(self, tokenizer: Tokenizer, vocabulary: Vocabulary) -> None:
        self.tokenizer = tokenizer
        self.vocabulary = vocabulary

    @classmethod
    def build(
        cls,
        texts: Iterable[str],
        folder: Path,
        *,
        tokenizer: str,
        vocab_size: int | None = None,
        min_freq: int = 1,
        side: str = "",
    ) -> "TextCodec":
        """Learns a vocabulary from `texts` and saves the codec in `folder`.

        Args:
            vocab_size: the number of SentencePiece pieces, or the most words of another tokeniser's
                vocabulary (None: all of them).
            min_freq: words seen less often become `<unk>`; SentencePiece knows no such thing.
        """
        if tokenizer == SentencePieceBPE.name:
            model_file = _model_file(folder, side)
            train_sentencepiece(texts, model_file, vocab_size=vocab_size or 8000)
            vocabulary = sentencepiece_vocabulary(model_file)
            codec = cls(get_tokenizer(tokenizer, model_file=model_file), vocabulary)
        else:
            splitter = get_tokenizer(tokenizer)
            vocabulary = Vocabulary.build(
                (splitter.tokenize(text) for text in texts), min_freq=min_freq, max_size=vocab_size
            )
            codec = cls(splitter, vocabulary)
        vocabulary.save(_vocabulary_file(folder, side))
        return codec

    @classmethod
    def load(cls, folder: Path, *, tokenizer: str, side: str = "") -> "TextCodec":
        """Reads what `build` left in `folder`.

        Raises:
            CheckpointError: a file is missing or damaged.
        """
        splitter = get_tokenizer(tokenizer, model_file=_model_file(folder, side))
        return cls(splitter, Vocabulary.load(_vocabulary_file(folder, side)))

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
