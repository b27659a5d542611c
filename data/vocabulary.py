"""Which token has which number, and the four special tokens that every model relies on."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from transformer_suite.core.errors import CheckpointError, UserError
from transformer_suite.core.storage.files import reason_of, write_text

UNK, PAD, BOS, EOS = SPECIALS = ("<unk>", "<pad>", "<bos>", "<eos>")
UNK_ID, PAD_ID, BOS_ID, EOS_ID = range(4)

# Everything that some editor or tool takes for the end of a line, the escape sign itself, and lone
# surrogates, which UTF-8 cannot hold.
_NEEDS_ESCAPE = re.compile("[\\\\\n\r\v\f\x1c-\x1e\x85\u2028\u2029\ud800-\udfff]")
_ESCAPE = re.compile(r"\\(\\|n|r|u[0-9a-f]{4}|.?)", re.DOTALL)
_SHORT_ESCAPES = {"\\": "\\", "n": "\n", "r": "\r"}
_SHORT_NAMES = {character: name for name, character in _SHORT_ESCAPES.items()}


class Vocabulary:
    """An immutable two-way table of tokens and ids; ids 0 to 3 are unk, pad, bos and eos."""

    def __init__(self, tokens: Sequence[str]) -> None:
        """Number `tokens`, the whole list with the four specials first, in the order given.

        Raises:
            UserError: the specials are not at 0 to 3, or a token stands twice.
        """
        self.itos: tuple[str, ...] = tuple(tokens)
        if self.itos[:4] != SPECIALS:
            raise UserError(
                f"a vocabulary begins with {', '.join(SPECIALS)}, not {list(self.itos[:4])}"
            )
        stoi = {token: index for index, token in enumerate(self.itos)}
        if len(stoi) != len(self.itos):
            twice = next(t for i, t in enumerate(self.itos) if stoi[t] != i)
            raise UserError(f"token {twice!r} stands twice in the vocabulary")
        self.stoi: Mapping[str, int] = stoi
        # A sentence that contains the text "<eos>" must not be able to end itself.
        self._ids_of_text = {t: index for t, index in stoi.items() if index >= len(SPECIALS)}

    @classmethod
    def build(
        cls,
        token_lists: Iterable[Sequence[str]],
        *,
        min_freq: int = 1,
        max_size: int | None = None,
    ) -> "Vocabulary":
        """Count tokens and keep the frequent ones, by falling frequency, then alphabetically.

        Args:
            token_lists: one list of tokens per sentence.
            min_freq: a token seen fewer times than this becomes `<unk>`.
            max_size: the most tokens to keep, the four specials not counted.
        """
        # Here and not above: building is the only thing that needs torchtext, predicting does not.
        from torchtext.vocab import Vocab

        counter: Counter[str] = Counter()
        for tokens in token_lists:
            counter.update(tokens)
        vocab = Vocab(counter, max_size=max_size, min_freq=min_freq, specials=list(SPECIALS))
        return cls(vocab.itos)

    def __len__(self) -> int:
        return len(self.itos)

    def __contains__(self, token: object) -> bool:
        return token in self.stoi

    def __eq__(self, other: object) -> bool:
        return self.itos == other.itos if isinstance(other, Vocabulary) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.itos)

    def __repr__(self) -> str:
        return f"Vocabulary({len(self)} tokens)"

    def encode(self, tokens: Iterable[str]) -> list[int]:
        """Ids of `tokens`; unknown ones, and texts that look like specials, are `UNK_ID`."""
        id_of = self._ids_of_text.get
        return [id_of(token, UNK_ID) for token in tokens]

    def decode(self, ids: Iterable[int]) -> list[str]:
        """Tokens of `ids` up to the first `<eos>`, without padding and `<bos>`.

        `<unk>` stays, for the caller to see. An id outside the vocabulary is an IndexError.
        """
        tokens = []
        for index in ids:
            if index == EOS_ID:
                break
            if index < 0:
                raise IndexError(f"token id {index} is negative")
            if index not in (PAD_ID, BOS_ID):
                tokens.append(self.itos[index])
        return tokens

    def save(self, path: str | Path) -> None:
        """Write one token a line, in order of their ids; line ends inside tokens are escaped."""
        write_text(path, "".join(_escape(token) + "\n" for token in self.itos))

    @classmethod
    def load(cls, path: str | Path) -> "Vocabulary":
        """Read what `save` wrote.

        Raises:
            CheckpointError: the file is missing, unreadable, or not a vocabulary.
        """
        try:
            text = Path(path).read_bytes().decode("utf-8")
        except OSError as error:
            raise CheckpointError(f"{path}: cannot read: {reason_of(error)}") from error
        except UnicodeDecodeError as error:
            raise CheckpointError(f"{path}: not a vocabulary: invalid UTF-8") from error
        if not text.endswith("\n"):
            raise CheckpointError(f"{path}: the vocabulary is cut off: its last line has no end")
        try:
            return cls([_unescape(line) for line in text[:-1].split("\n")])
        except UserError as error:
            raise CheckpointError(f"{path}: {error}") from error


def _escape(token: str) -> str:
    def escaped(match: re.Match[str]) -> str:
        character = match.group()
        return "\\" + _SHORT_NAMES.get(character, f"u{ord(character):04x}")

    return _NEEDS_ESCAPE.sub(escaped, token)


def _unescape(line: str) -> str:
    def character(match: re.Match[str]) -> str:
        name = match.group(1)
        if name in _SHORT_ESCAPES:
            return _SHORT_ESCAPES[name]
        if len(name) == 5:
            return chr(int(name[1:], 16))
        raise UserError(f"unknown escape {match.group()!r}")

    return _ESCAPE.sub(character, line)
