"""Tokenizers: text to tokens and back, known by name. Only SentencePiece needs a model file."""

import io
import re
import string
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from core.config import check_choice
from core.errors import CheckpointError, ConfigError
from core.storage.files import atomic_write, reason_of, require_regular_file
from data.vocabulary import SPECIALS

WORD_START = "\u2581"  # how SentencePiece writes the space before a word

# With byte fallback, these have pieces of their own, and so do all characters of the texts but the
# rarest, one in ten thousand in all. Those are bytes, which are trained in this way.
_REQUIRED = string.ascii_letters + string.digits + string.punctuation
_COVERAGE = 0.9999

# A letter and the accents that follow it. More accents than this are no word of any language.
_DECOMPOSED = re.compile(r"\w[\u0300-\u036f]{1,8}")


class Tokenizer(ABC):
    """Text to tokens and back. ``separator`` is between two tokens, and between two sentences."""

    name: str
    separator = " "

    @abstractmethod
    def tokenize(self, text: str) -> list[str]:
        """Returns the tokens of one text; none for an empty text."""

    def detokenize(self, tokens: Sequence[str]) -> str:
        """Returns one text, which may differ from the text that was tokenized."""
        return self.separator.join(tokens)


class BasicEnglish(Tokenizer):
    """Lower-case words and punctuation marks, as torchtext cuts them, which drops some marks."""

    name = "basic_english"

    def tokenize(self, text: str) -> list[str]:
        # Imported here: torchtext takes a second, and the other tokenizers do without it.
        from torchtext.data.utils import get_tokenizer

        return get_tokenizer(self.name)(text)


class Whitespace(Tokenizer):
    """Splits at white space."""

    name = "whitespace"

    def tokenize(self, text: str) -> list[str]:
        return text.split()


class Characters(Tokenizer):
    """One token per code point, without white space: ``春 风`` and ``春风`` are the same."""

    name = "characters"
    separator = ""

    def tokenize(self, text: str) -> list[str]:
        return [character for character in text if not character.isspace()]


class JiebaWords(Tokenizer):
    """Chinese words as segmented by jieba, without white space."""

    name = "jieba"
    separator = ""

    def tokenize(self, text: str) -> list[str]:
        return [word for word in _jieba().lcut(text) if not word.isspace()]


@cache
def _jieba() -> Any:
    """Returns jieba's segmentation, with the dictionary of its package, which all codecs share."""
    import jieba

    words = jieba.Tokenizer()
    # jieba's own initialization would load /tmp/jieba.cache, which any user can have written.
    # Reading the dictionary instead takes a second.
    words.FREQ, words.total = words.gen_pfdict(words.get_dict_file())
    words.initialized = True
    return words


class SentencePieceBPE(Tokenizer):
    """Subwords of a SentencePiece model (Sennrich et al. 2016; Kudo and Richardson 2018).

    A model with byte fallback writes characters that it does not know as their UTF-8 bytes, so any
    text comes back as :func:`normalized` gives it. Bytes that are not valid UTF-8, as a search can
    produce, are left out of the text. A model without byte fallback has ``<unk>`` instead, and
    normalizes by SentencePiece's rule nmt_nfkc.

    Attributes:
        model: the content of its file.
        pieces: in the order of their ids.
    """

    name = "sentencepiece"

    def __init__(self, model_file: Path) -> None:
        """Loads a model. Raises a CheckpointError if the file cannot be read or is not a model."""
        import sentencepiece

        try:
            require_regular_file(model_file)
            self.model = Path(model_file).read_bytes()
            if not self.model:  # sentencepiece would take this for a missing argument
                raise RuntimeError
            model = self._model = sentencepiece.SentencePieceProcessor(model_proto=self.model)
            self.pieces = [model.id_to_piece(index) for index in range(model.get_piece_size())]
        except OSError as error:
            raise CheckpointError(f"{model_file}: cannot read: {reason_of(error)}") from error
        except (RuntimeError, UnicodeDecodeError) as error:
            raise CheckpointError(f"{model_file}: not a SentencePiece model") from error

    def tokenize(self, text: str) -> list[str]:
        return self._model.encode(normalized(text) if self._has_bytes else text, out_type=str)

    def encode(self, text: str) -> list[int]:
        """Returns the numbers of the pieces of ``text``: their places in :attr:`pieces`."""
        return self._model.encode(normalized(text) if self._has_bytes else text)

    def encode_all(self, texts: Sequence[str], *, threads: int) -> list[list[int]]:
        """Returns what :meth:`encode` returns for each text, computed in ``threads``."""
        if self._has_bytes:
            texts = [normalized(text) for text in texts]
        return self._model.encode(list(texts), num_threads=threads)

    def detokenize(self, tokens: Sequence[str]) -> str:
        known = self._bytes_of
        text = b"".join(known[token] if token in known else token.encode() for token in tokens)
        return text.decode(errors="ignore").replace(WORD_START, " ").strip()

    def is_tag(self, piece: str) -> bool:
        """Returns whether ``piece`` is the token of a tag."""
        return self._bytes_of.get(piece) == b"" and piece not in SPECIALS

    @cached_property
    def _bytes_of(self) -> dict[str, bytes]:
        """The bytes that pieces like ``<0x0A>`` stand for, and none for special tokens and tags."""
        is_byte, is_control = self._model.is_byte, self._model.is_control
        return {
            piece: bytes.fromhex(piece[3:5]) if is_byte(index) else b""
            for index, piece in enumerate(self.pieces)
            if is_byte(index) or is_control(index)
        }

    @cached_property
    def _has_bytes(self) -> bool:
        return any(self._bytes_of.values())


_BY_NAME: dict[str, type[Tokenizer]] = {
    kind.name: kind for kind in (BasicEnglish, Whitespace, Characters, JiebaWords)
}
TOKENIZER_NAMES = (*_BY_NAME, SentencePieceBPE.name)


def get_tokenizer(name: str, *, model_file: Path | None = None) -> Tokenizer:
    """Returns a tokenizer. Raises a ConfigError if it is unknown or lacks its ``model_file``."""
    if name == SentencePieceBPE.name:
        if model_file is None:
            raise ConfigError("the tokenizer 'sentencepiece' needs a trained model file")
        return SentencePieceBPE(model_file)
    check_choice("tokenizer", name, TOKENIZER_NAMES)
    return _BY_NAME[name]()


def normalized(text: str) -> str:
    """Returns ``text`` as models with byte fallback read it.

    White space of any kind and length is one space, and so is U+2581, by which SentencePiece marks
    spaces. Letters with combining accents are composed where Unicode has one character for both.
    Nothing else changes.
    """
    text = _DECOMPOSED.sub(lambda match: unicodedata.normalize("NFC", match[0]), text)
    return " ".join(text.replace(WORD_START, " ").split())


def train_sentencepiece(
    texts: Iterable[str],
    model_file: Path,
    *,
    vocab_size: int,
    byte_fallback: bool = False,
    tags: Sequence[str] = (),
) -> None:
    """Trains a BPE model of at most ``vocab_size`` pieces, special tokens and bytes included.

    The same texts give the same file. Without ``byte_fallback``, every character of the texts is in
    the vocabulary. ``tags`` are further tokens that no text contains (:func:`tag_token`). Raises a
    ConfigError if there is no text, or if the texts have more characters than ``vocab_size``.
    """
    import sentencepiece

    # Read first: sentencepiece would replace an error of a lazy iterator by its own.
    lines = [normalized(text) for text in texts] if byte_fallback else list(texts)
    special: dict[str, Any] = {}
    for index, piece in enumerate(SPECIALS):
        special |= {f"{piece[1:-1]}_id": index, f"{piece[1:-1]}_piece": piece}
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=model,
            model_type="bpe",
            vocab_size=vocab_size,
            hard_vocab_limit=False,
            character_coverage=_COVERAGE if byte_fallback else 1.0,
            required_chars=_REQUIRED if byte_fallback else "",
            normalization_rule_name="identity" if byte_fallback else "nmt_nfkc",
            byte_fallback=byte_fallback,
            control_symbols=[tag_token(tag) for tag in tags],
            max_sentence_length=1 << 24,  # bytes; longer lines are silently left out
            minloglevel=2,
            **special,
        )
    except RuntimeError as error:
        raise ConfigError(_training_failure(str(error), vocab_size)) from error
    with atomic_write(model_file) as temporary:
        temporary.write_bytes(model.getvalue())


def tag_token(tag: str) -> str:
    """Returns the token of a tag."""
    return f"<{tag}>"


def _training_failure(message: str, vocab_size: int) -> str:
    """Returns what the user should know of an error message of sentencepiece."""
    if least := re.search(r"\d+ vs (\d+)", message):
        return (
            f"data.vocab_size = {vocab_size:,} is too small; set it to at least {least[1]}: one "
            "token for each character of the texts, and 256 for bytes with data.byte_fallback"
        )
    reason = message.rpartition("] ")[2] or "there is no text"
    return f"cannot build a vocabulary of data.vocab_size = {vocab_size:,} tokens: {reason}"
