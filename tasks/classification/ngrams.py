"""Hashed n-grams of tokens and characters with a weight for every class.

A linear model over n-grams knows rare words and fixed phrases, which an encoder of the same size
does not learn from so few examples. Its scores are added to those of the encoder: "wide and deep"
learning (Cheng et al. 2016). N-grams have no vocabulary: a hash function assigns each to a row of
one table, as in fastText (Joulin et al. 2017, section 2.1; Bojanowski et al. 2017, section 3.2 for
the characters). All are computed from token ids, so a model needs no other input.
"""

from collections.abc import Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from core.model.dropout import dropout
from data.tokenizers import WORD_START
from data.vocabulary import PAD_ID, SPECIALS
from tasks.classification.config import MIN_CHARACTERS

# FNV-1a with 32 bits (Fowler, Noll and Vo), one step for each element of an n-gram. The bits of an
# unsigned hash are kept in a signed int32: products wrap around in the same way.
_FNV_OFFSET = 2166136261 - (1 << 32)
_FNV_PRIME = 16777619
_LOW_16, _LOW_32 = (1 << 16) - 1, (1 << 32) - 1

_MAX_TOKEN_LENGTH = 32  # characters; the rest of a longer token has no n-grams
_SPACE = ord(" ")

# Adam moves every weight by about the learning rate, however small its gradient is. This factor
# makes the steps of the table larger than those of the encoder.
SCALE = 10.0


class HashedNgrams(nn.Module):
    """Computes class scores from the n-grams of a text.

    An n-gram of characters is in lower case, and lies in one word with the spaces around it. The
    scores are the sum of the table's rows of all n-grams, divided by the square root of their
    number: the scores of a long text are not much larger than those of a short one.

    Args:
        tokens: the tokens of the vocabulary, in the order of their ids.
        num_classes: C.
        order: the longest n-gram of tokens. 0: none.
        characters: the longest n-gram of characters; the shortest has ``MIN_CHARACTERS``. 0: none.
        num_weights: the size of the table, which has ``num_weights // C`` rows.
        dropout: the probability that an n-gram is left out in training.
        pad_id: the id of padding.
    """

    characters: Tensor  # [V, W]: the code points of each token, 0 after its end

    def __init__(
        self,
        tokens: Sequence[str],
        num_classes: int,
        *,
        order: int,
        characters: int,
        num_weights: int,
        dropout: float = 0.0,
        pad_id: int = PAD_ID,
    ) -> None:
        super().__init__()
        self.order, self.character_order = order, characters
        self.dropout, self.pad_id = dropout, pad_id
        self.weight = nn.Parameter(torch.zeros(max(1, num_weights // num_classes), num_classes))
        self.register_buffer("characters", _characters(tokens, pad_id), persistent=False)

    def forward(self, src: Tensor) -> Tensor:
        """Ids ``[S, B]``, padded at the end -> class scores ``[B, C]``."""
        rows, texts = self.rows(src)
        if self.training and self.dropout > 0.0:
            is_kept = dropout(torch.ones(len(rows), device=rows.device), self.dropout) > 0.0
            rows, texts = rows[is_kept], texts[is_kept]
        weights = F.embedding(rows, self.weight)
        total = weights.new_zeros(src.shape[1], weights.shape[1]).index_add(0, texts, weights)
        count = torch.bincount(texts, minlength=src.shape[1]).clamp(min=1).to(total.dtype)
        return total * (SCALE / count.sqrt()).unsqueeze(1)

    def rows(self, src: Tensor) -> tuple[Tensor, Tensor]:
        """Returns, for the n-grams in ``src`` ``[S, B]``, the rows of the table and the texts."""
        ids = src.t()
        is_token = ids != self.pad_id
        parts = list(_ngrams(ids[is_token].int(), _texts(is_token), 1, self.order))
        if self.character_order:
            # One padding position of each text is a space, which ends its last word.
            is_token = F.pad(is_token, (1, 0), value=True)
            tokens = F.pad(ids, (0, 1), value=self.pad_id).masked_select(is_token)
            characters = self.characters.index_select(0, tokens)
            is_character = characters != 0
            texts = _texts(is_token)[:, None].expand_as(is_character).masked_select(is_character)
            stream = characters.masked_select(is_character)
            orders = MIN_CHARACTERS, self.character_order
            parts += _ngrams(stream, texts, *orders, separator=_SPACE)
        hashes, texts = (torch.cat(column) for column in zip(*parts, strict=True))
        # The low bits of FNV depend on the elements' low bits alone; xor-folding adds high ones.
        folded = (hashes ^ (hashes >> 16 & _LOW_16)).long() & _LOW_32
        return folded % len(self.weight), texts.long()


def _characters(tokens: Sequence[str], pad_id: int) -> Tensor:
    """Returns ``[V, W]``, the code points of the tokens in lower case, each row padded with zeros.

    Each word begins with a space. Special tokens have no characters, but padding is a space.
    """
    has_word_starts = any(token.startswith(WORD_START) for token in tokens)
    texts = [
        (token.replace(WORD_START, " ") if has_word_starts else f" {token}").lower()
        for token in tokens[len(SPECIALS) :]
    ]
    texts = [" " if i == pad_id else "" for i in range(len(SPECIALS))] + texts
    texts = [text[:_MAX_TOKEN_LENGTH] for text in texts]
    width = max(map(len, texts))
    return torch.tensor([[*map(ord, t), *[0] * (width - len(t))] for t in texts], dtype=torch.int32)


def _texts(is_token: Tensor) -> Tensor:
    """Returns the number of the text of each token, for ``[B, S]``."""
    numbers = torch.arange(len(is_token), dtype=torch.int32, device=is_token.device)
    return numbers[:, None].expand_as(is_token).masked_select(is_token)


def _ngrams(
    elements: Tensor, texts: Tensor, shortest: int, longest: int, *, separator: int | None = None
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yields the hashes of all n-grams and the numbers of their texts, for each length n.

    ``elements`` ``[N]`` are those of one text after another, with the numbers of their ``texts``;
    no n-gram is in two texts. A ``separator`` stands at the ends of n-grams only. All are int32:
    int64 takes twice the time.
    """
    inner = torch.zeros(len(elements) + 1, dtype=torch.int32, device=elements.device)
    if separator is not None:
        torch.cumsum(elements == separator, dim=0, out=inner[1:])  # before each position
    # N-grams of tokens and of characters begin with different states.
    hashes = torch.full_like(elements, _FNV_OFFSET + (separator or 0))
    for n in range(1, longest + 1):
        count = max(0, len(elements) - n + 1)
        hashes = (hashes[:count] ^ elements[n - 1 :]) * _FNV_PRIME
        if n < shortest:
            continue
        is_valid = texts[:count] == texts[n - 1 :]
        if separator is not None and n > 2:
            is_valid &= inner[n - 1 : n - 1 + count] == inner[1 : 1 + count]
        yield hashes.masked_select(is_valid), texts[:count].masked_select(is_valid)
