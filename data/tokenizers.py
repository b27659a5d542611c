"""Text to tokens and back, by name. No tokeniser here needs anything to predict but its own name,
except SentencePiece, which needs its model file."""

import difflib
import io
import random
import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from transformer_suite.core.errors import CheckpointError, ConfigError
from transformer_suite.core.storage.files import atomic_write, reason_of
from transformer_suite.data.bpe_dropout import merge_characters
from transformer_suite.data.vocabulary import BOS_ID, EOS_ID, PAD_ID, SPECIALS, UNK_ID, Vocabulary

if TYPE_CHECKING:
    import jieba

_WORD_START = "\u2581"  # how SentencePiece writes the space before a word
_CHANCE = random.Random()  # BPE-dropout's

_BASIC_ENGLISH = [
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"'", " '  "),
        (r'"', ""),
        (r"\.", " . "),
        (r"<br />", " "),
        (r",", " , "),
        (r"\(", " ( "),
        (r"\)", " ) "),
        (r"!", " ! "),
        (r"\?", " ? "),
        (r"[;:]", " "),
    )
]
_SPACE_BEFORE_CLOSING = re.compile(r" (?=[.,!?)])")
_SPACE_AFTER_OPENING = re.compile(r"(?<=\() ")
_SPACED_CONTRACTION = re.compile(r"(?<=\w) ' (?=(?:s|t|re|ve|ll|d|m)\b)")


class Tokenizer(Protocol):
    """What every tokeniser can do. `name` is what `get_tokenizer` knows it by."""

    @property
    def name(self) -> str: ...

    def tokenize(self, text: str) -> list[str]:
        """The tokens of one text; none for an empty text."""

    def detokenize(self, tokens: Sequence[str]) -> str:
        """One readable text; not always the very text that was tokenised."""


class BasicEnglish:
    """torchtext's `basic_english`: lower case, punctuation apart, quotes, `;` and `:` dropped.

    The result equals that of `torchtext.data.utils.get_tokenizer("basic_english")`.
    """

    name = "basic_english"

    def tokenize(self, text: str) -> list[str]:
        text = text.lower()
        for pattern, replacement in _BASIC_ENGLISH:
            text = pattern.sub(replacement, text)
        return text.split()

    def detokenize(self, tokens: Sequence[str]) -> str:
        text = _SPACE_BEFORE_CLOSING.sub("", " ".join(tokens))
        return _SPACED_CONTRACTION.sub("'", _SPACE_AFTER_OPENING.sub("", text))


class Whitespace:
    """Tokens are what stands between white space."""

    name = "whitespace"

    def tokenize(self, text: str) -> list[str]:
        return text.split()

    def detokenize(self, tokens: Sequence[str]) -> str:
        return " ".join(tokens)


class Characters:
    """One token per code point; white space is dropped, so `春 风` and `春风` are the same."""

    name = "characters"

    def tokenize(self, text: str) -> list[str]:
        return [character for character in text if not character.isspace()]

    def detokenize(self, tokens: Sequence[str]) -> str:
        return "".join(tokens)


class JiebaWords:
    """Chinese words as jieba finds them; white space is dropped."""

    name = "jieba"

    def tokenize(self, text: str) -> list[str]:
        return [word for word in self._words.lcut(text) if not word.isspace()]

    def detokenize(self, tokens: Sequence[str]) -> str:
        return "".join(tokens)

    @cached_property
    def _words(self) -> "jieba.Tokenizer":
        import jieba

        words = jieba.Tokenizer()
        # jieba's own start would read whatever lies at /tmp/jieba.cache, anybody's file, and write
        # one there; reading its dictionary takes a second.
        words.FREQ, words.total = words.gen_pfdict(words.get_dict_file())
        words.initialized = True
        return words


class SentencePieceBPE:
    """Subwords of a SentencePiece model (Sennrich et al. 2016; Kudo and Richardson 2018)."""

    name = "sentencepiece"

    def __init__(self, model: Path | bytes) -> None:
        """Load a model from its file or from the file's bytes.

        Raises:
            CheckpointError: the file cannot be read or is not a SentencePiece model.
        """
        import sentencepiece

        content = model if isinstance(model, bytes) else _read(model)
        try:
            if not content:  # which sentencepiece takes for "no model given"
                raise RuntimeError
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=content)
            self.model = content
        except RuntimeError as error:
            origin = "" if isinstance(model, bytes) else f"{model}: "
            raise CheckpointError(f"{origin}not a SentencePiece model") from error

    def tokenize(self, text: str, dropout: float = 0.0) -> list[str]:
        """The pieces of `text`.

        With `dropout` (0 to 1) each merge is left out with that probability, so that the same
        sentence is cut another way each time (BPE-dropout, Provilkov et al. 2020; for training
        only). `seed_dropout` makes it repeatable.
        """
        if dropout:
            normalised = self._processor.normalize(text)
            return merge_characters(normalised, self._scores, dropout, _CHANCE)
        pieces: list[str] = self._processor.encode(text, out_type=str)
        return pieces

    def detokenize(self, tokens: Sequence[str]) -> str:
        return "".join(tokens).replace(_WORD_START, " ").strip()

    @property
    def pieces(self) -> list[str]:
        """All pieces in the order of their ids."""
        processor = self._processor
        return [processor.id_to_piece(index) for index in range(processor.get_piece_size())]

    @cached_property
    def _scores(self) -> dict[str, float]:
        """Of the pieces that text can have: not of the special ones."""
        processor = self._processor
        return {
            piece: processor.get_score(index)
            for index, piece in enumerate(self.pieces)
            if not (processor.is_control(index) or processor.is_unknown(index))
        }


_BY_NAME: dict[str, type[BasicEnglish | Whitespace | Characters | JiebaWords]] = {
    kind.name: kind for kind in (BasicEnglish, Whitespace, Characters, JiebaWords)
}
TOKENIZER_NAMES = (*_BY_NAME, SentencePieceBPE.name)


def get_tokenizer(name: str, *, model_file: Path | None = None) -> Tokenizer:
    """The tokeniser of that name; `model_file` is for `sentencepiece`, which cannot do without.

    Raises:
        ConfigError: there is no tokeniser of that name, or no model file where one is needed.
        CheckpointError: the model file cannot be used.
    """
    if name == SentencePieceBPE.name:
        if model_file is None:
            raise ConfigError("the tokenizer 'sentencepiece' needs a trained model file")
        return SentencePieceBPE(model_file)
    if name not in _BY_NAME:
        near = difflib.get_close_matches(name, TOKENIZER_NAMES, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(TOKENIZER_NAMES)}"
        raise ConfigError(f"unknown tokenizer {name!r}; {hint}")
    return _BY_NAME[name]()


def version_of(name: str) -> str:
    """The version of the library behind the tokeniser of that name; "" where there is none."""
    library = {SentencePieceBPE.name: "sentencepiece", JiebaWords.name: "jieba"}.get(name)
    return version(library) if library else ""


def train_sentencepiece(texts: Iterable[str], model_file: Path, *, vocab_size: int) -> None:
    """Train a BPE model of `vocab_size` pieces, the four specials among them, into `model_file`.

    The same texts give the same file. Every character of the texts is in the vocabulary.

    Raises:
        ConfigError: `vocab_size` does not suit the texts.
    """
    import sentencepiece

    # A list first: an error inside a lazy iterator would come out as one of sentencepiece's own.
    lines = list(texts)
    unk, pad, bos, eos = SPECIALS
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=model,
            model_type="bpe",
            vocab_size=vocab_size,
            character_coverage=1.0,
            normalization_rule_name="nmt_nfkc",
            byte_fallback=False,
            max_sentence_length=1 << 24,  # bytes; longer lines would be left out without a word
            minloglevel=2,
            unk_id=UNK_ID,
            pad_id=PAD_ID,
            bos_id=BOS_ID,
            eos_id=EOS_ID,
            unk_piece=unk,
            pad_piece=pad,
            bos_piece=bos,
            eos_piece=eos,
        )
    except RuntimeError as error:
        reason = _training_failure(str(error))
        raise ConfigError(f"cannot make a vocabulary of {vocab_size:,} pieces: {reason}") from error
    with atomic_write(model_file) as temporary:
        temporary.write_bytes(model.getvalue())


def sentencepiece_vocabulary(model_file: Path) -> Vocabulary:
    """The vocabulary of a model made by `train_sentencepiece`: its pieces in order."""
    return Vocabulary(SentencePieceBPE(model_file).pieces)


def seed_dropout(seed: int) -> None:
    """Begin BPE-dropout's random numbers anew, for all models."""
    _CHANCE.seed(seed % 2**64)


def _training_failure(message: str) -> str:
    """sentencepiece's message without its source lines and options, which mean nothing here."""
    if most := re.search(r"<= (\d+)", message):
        return f"these texts give {most[1]} at most"
    if least := re.search(r"\d+ vs (\d+)", message):
        return f"these texts need {least[1]} at least, one for each character"
    return message.rpartition("] ")[2] or "there is no text"


def _read(model_file: Path) -> bytes:
    try:
        return Path(model_file).read_bytes()
    except OSError as error:
        raise CheckpointError(f"{model_file}: cannot read: {reason_of(error)}") from error
