"""Text to ids and back: a tokenizer and its vocabulary, saved in a folder."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from core.config import check, check_choice, check_range
from core.errors import CheckpointError, ConfigError
from core.progress import log
from data.tokenizers import (
    TOKENIZER_NAMES,
    WORD_START,
    Characters,
    SentencePieceBPE,
    Tokenizer,
    get_tokenizer,
    tag_token,
    train_sentencepiece,
)
from data.vocabulary import SPECIALS, UNK_ID, Vocabulary

MAX_TOKENS = 1_000_000_000
"""The largest number of tokens that a configuration can ask for."""


@dataclass(frozen=True, kw_only=True)
class CodecConfig:
    """How text becomes ids.

    Attributes:
        tokenizer: the name of a tokenizer.
        vocab_size: the most tokens of the vocabulary. For SentencePiece it includes the special
            tokens and the bytes, and cannot be None; for the others it does not include the special
            tokens, and None means no limit.
        min_freq: tokens that are seen less often become ``<unk>``. Not used by SentencePiece.
        byte_fallback: characters that are not in the vocabulary become their UTF-8 bytes, 256 of
            the tokens, and never ``<unk>``. For SentencePiece only.
    """

    RETIRED = MappingProxyType({"bpe_dropout": None})

    tokenizer: str = SentencePieceBPE.name
    vocab_size: int | None = 8000
    min_freq: int = 2
    byte_fallback: bool = False

    def __post_init__(self) -> None:
        check_choice("data.tokenizer", self.tokenizer, TOKENIZER_NAMES)
        size = self.vocab_size
        if self.tokenizer == SentencePieceBPE.name:
            check(size is not None, "data.vocab_size", size, "a number for sentencepiece")
        check(size is None or size >= 8, "data.vocab_size", size, "at least 8, or none")
        check_range("data.vocab_size", size or 8, 8, MAX_TOKENS)
        check_range("data.min_freq", self.min_freq, 1, MAX_TOKENS)


class TextCodec:
    """Encodes texts as ids and decodes ids to text.

    Its files are ``vocabulary.txt`` and, for SentencePiece, ``sentencepiece.model``; with a
    ``side`` ("src" or "tgt"), ``vocabulary.src.txt`` and ``sentencepiece.src.model``.
    """

    def __init__(self, tokenizer: Tokenizer, vocabulary: Vocabulary) -> None:
        self.tokenizer = tokenizer
        self.vocabulary = vocabulary

    @classmethod
    def build(
        cls,
        texts: Iterable[str],
        folder: Path,
        config: CodecConfig,
        *,
        side: str = "",
        tags: Sequence[str] = (),
    ) -> "TextCodec":
        """Builds a vocabulary from ``texts`` and saves the codec in ``folder``.

        ``tags``, for SentencePiece only, can be put before a text (:meth:`tag_id`). Raises a
        ConfigError if ``config`` does not suit the texts.
        """
        if config.tokenizer == SentencePieceBPE.name:
            assert config.vocab_size is not None
            model_file = _file(folder, "sentencepiece", side, "model")
            train_sentencepiece(
                texts,
                model_file,
                vocab_size=config.vocab_size,
                byte_fallback=config.byte_fallback,
                tags=tags,
            )
            subwords = SentencePieceBPE(model_file)
            tokenizer: Tokenizer = subwords
            vocabulary = Vocabulary(subwords.pieces)
            if len(vocabulary) < config.vocab_size:
                wanted = f"data.vocab_size = {config.vocab_size:,}"
                log(f"the training texts have {len(vocabulary):,} subwords, fewer than {wanted}")
        else:
            tokenizer = get_tokenizer(config.tokenizer)
            vocabulary = Vocabulary.build(
                map(tokenizer.tokenize, texts), min_freq=config.min_freq, max_size=config.vocab_size
            )
            if len(vocabulary) == len(SPECIALS):
                raise ConfigError(
                    f"the vocabulary is empty: no token of the {config.tokenizer} tokenizer is "
                    f"seen data.min_freq = {config.min_freq} times"
                )
        vocabulary.save(_file(folder, "vocabulary", side, "txt"))
        return cls(tokenizer, vocabulary)

    @classmethod
    def load(cls, folder: Path, *, tokenizer: str, side: str = "") -> "TextCodec":
        """Loads what :meth:`build` saved. Raises a CheckpointError if its files do not match."""
        model_file = _file(folder, "sentencepiece", side, "model")
        vocabulary_file = _file(folder, "vocabulary", side, "txt")
        loaded = get_tokenizer(tokenizer, model_file=model_file)
        vocabulary = Vocabulary.load(vocabulary_file)
        tokens = vocabulary.itos
        if isinstance(loaded, SentencePieceBPE) and tokens != tuple(loaded.pieces):
            raise CheckpointError(
                f"{model_file}: its pieces are not the tokens in {vocabulary_file.name}: "
                "the two come from different models"
            )
        if isinstance(loaded, Characters):
            for number, token in enumerate(tokens[len(SPECIALS) :], start=len(SPECIALS) + 1):
                if len(token) != 1:
                    raise CheckpointError(
                        f"{vocabulary_file}:{number}: {token[:20]!r} is not one character"
                    )
        return cls(loaded, vocabulary)

    def encode(self, text: str) -> list[int]:
        """Returns the ids of ``text``, without ``<bos>`` and ``<eos>``."""
        if isinstance(self.tokenizer, SentencePieceBPE):
            return self.tokenizer.encode(text)
        return self.vocabulary.encode(self.tokenizer.tokenize(text))

    def encode_all(self, texts: Sequence[str], *, threads: int) -> list[list[int]]:
        """Returns what :meth:`encode` returns for each text; SentencePiece uses ``threads``."""
        if isinstance(self.tokenizer, SentencePieceBPE):
            return self.tokenizer.encode_all(texts, threads=threads)
        return [self.encode(text) for text in texts]

    def tag_id(self, tag: str) -> int:
        """Returns the id of a tag. Raises a ConfigError if the vocabulary was built without it."""
        token = tag_token(tag)
        if not (isinstance(self.tokenizer, SentencePieceBPE) and self.tokenizer.is_tag(token)):
            raise ConfigError(
                f"the vocabulary has no tag {tag!r}: leave out the tag in data.extra, or begin a "
                "run with a new vocabulary"
            )
        return self.vocabulary.stoi[token]

    def is_inside_word(self, ids: Sequence[int]) -> bool:
        """Returns whether ``ids`` begin with a subword that does not start a word."""
        if not isinstance(self.tokenizer, SentencePieceBPE) or ids[0] == UNK_ID:
            return False
        return not self.vocabulary.itos[ids[0]].startswith(WORD_START)

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of ``ids``, up to the first ``<eos>``."""
        return self.tokenizer.detokenize(self.vocabulary.decode(ids))


def _file(folder: Path, stem: str, side: str, suffix: str) -> Path:
    return folder / ".".join(filter(None, (stem, side, suffix)))
