"""The vocabulary: tokens and their ids, beginning with the four special tokens."""

import codecs
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from core.errors import CheckpointError, UserError
from core.special_ids import SPECIAL_IDS
from core.storage.files import read_text, write_text

UNK, PAD, BOS, EOS = SPECIALS = ("<unk>", "<pad>", "<bos>", "<eos>")
UNK_ID, PAD_ID, BOS_ID, EOS_ID = SPECIAL_IDS

# What some editor or tool takes for the end of a line, the backslash itself, and lone surrogates,
# which UTF-8 cannot encode.
_NEEDS_ESCAPE = re.compile("[\\\\\n\r\v\f\x1c-\x1e\x85\u2028\u2029\ud800-\udfff]")
_ESCAPE = re.compile(r"\\(?:\\|n|r|x[0-9a-f]{2}|u[0-9a-f]{4}|(.?))", re.DOTALL)


class Vocabulary:
    """An immutable mapping between tokens and ids. Ids 0 to 3 are unk, pad, bos and eos."""

    def __init__(self, tokens: Sequence[str]) -> None:
        """Numbers ``tokens``, special ones first. Raises a UserError for empty or repeated ones."""
        self.itos: tuple[str, ...] = tuple(tokens)
        if self.itos[:4] != SPECIALS:
            first = [token[:20] for token in self.itos[:4]]
            raise UserError(f"a vocabulary begins with {', '.join(SPECIALS)}, not {first}")
        stoi = {token: index for index, token in enumerate(self.itos)}
        if len(stoi) != len(self.itos):
            twice = next(t for i, t in enumerate(self.itos) if stoi[t] != i)
            raise UserError(f"token {twice[:20]!r} occurs twice in the vocabulary")
        if "" in stoi:
            raise UserError(f"token {stoi['']} of the vocabulary is empty")
        self.stoi: Mapping[str, int] = stoi
        # The text "<eos>" in a sentence must not become the token that ends it.
        self._ids_of_text = {t: index for t, index in stoi.items() if index >= len(SPECIALS)}

    @classmethod
    def build(
        cls, token_lists: Iterable[Sequence[str]], *, min_freq: int = 1, max_size: int | None = None
    ) -> "Vocabulary":
        """Builds the vocabulary of the frequent tokens, most frequent first, then alphabetically.

        A token that is seen less than ``min_freq`` times becomes ``<unk>``. ``max_size`` does not
        include the four special tokens.
        """
        # Imported here: only building a vocabulary needs torchtext, prediction does not.
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

    def encode(self, tokens: Iterable[str]) -> list[int]:
        """Returns the ids of ``tokens``. Unknown and special tokens become ``UNK_ID``."""
        id_of = self._ids_of_text.get
        return [id_of(token, UNK_ID) for token in tokens]

    def decode(self, ids: Iterable[int]) -> list[str]:
        """Returns the tokens up to ``<eos>``, no padding. Raises an IndexError for unknown ids."""
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
        """Writes one token per line, in the order of their ids. Line ends in tokens are escaped."""
        escaped = (_NEEDS_ESCAPE.sub(lambda m: ascii(m[0])[1:-1], token) for token in self.itos)
        write_text(path, "".join(f"{token}\n" for token in escaped))

    @classmethod
    def load(cls, path: str | Path) -> "Vocabulary":
        """Reads what :meth:`save` wrote. Raises a CheckpointError if it is missing or damaged."""
        text = read_text(path, error_class=CheckpointError)
        if not text.endswith("\n"):
            raise CheckpointError(f"{path}: incomplete: its last line has no line end")
        try:
            return cls([_unescape(line) for line in text[:-1].split("\n")])
        except UserError as error:
            raise CheckpointError(f"{path}: {error}") from error


def _unescape(line: str) -> str:
    def character(match: re.Match[str]) -> str:
        if match[1] is not None:
            raise UserError(f"unknown escape {match[0]!r}")
        return codecs.decode(match[0], "unicode_escape")

    return _ESCAPE.sub(character, line)
