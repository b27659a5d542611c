"""Rules that any search can be told to keep: each is a :data:`core.decoding.search.Constraint`.

A rule is made for one batch: what it says of "each sentence" is in the order of that batch. It
forbids and never allows, so rules combine freely (:func:`all_of`); where together they forbid
everything, the output ends as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..config import check
from ..errors import ConfigError
from ..special_ids import SpecialIds
from .search import Constraint


def all_of(*constraints: Constraint) -> Constraint:
    """What any of ``constraints`` forbids is forbidden.

    Raises:
        ConfigError: there are none.
    """
    if not constraints:
        raise ConfigError("all_of needs at least one constraint; a search without any takes None")

    def forbidden(outputs: Tensor, sentences: Tensor) -> Tensor:
        found = constraints[0](outputs, sentences)
        for constraint in constraints[1:]:
            found = found | constraint(outputs, sentences)
        return found

    return forbidden


class ForbiddenTokens:
    """Some tokens never come.

    Args:
        tokens: their ids; at least one.
        vocab_size: V.
        device: where the search runs.

    Raises:
        ConfigError: no token, or one that is not in the vocabulary.
    """

    def __init__(
        self,
        tokens: Sequence[int],
        *,
        vocab_size: int,
        device: torch.device | str | None = None,
    ) -> None:
        check(len(tokens) > 0, "the forbidden tokens", list(tokens), "at least one")
        for token in tokens:
            check(0 <= token < vocab_size, "a token's id", token, f"from 0 to {vocab_size - 1}")
        self._is_forbidden = torch.zeros(vocab_size, dtype=torch.bool, device=device)
        self._is_forbidden[list(tokens)] = True

    def __call__(self, outputs: Tensor, sentences: Tensor) -> Tensor:
        """``[t, R]`` and ``[R]`` -> ``[R, V]``, as every constraint."""
        return self._is_forbidden.expand(len(sentences), -1)


class MinimumLength:
    """An output does not end before it has so many tokens (without ``<eos>``).

    Args:
        lengths: ``[B]``, the fewest tokens of each sentence's output, on the search's device.
        vocab_size: V.
        special: the ids of the special tokens.
    """

    def __init__(
        self, lengths: Tensor, *, vocab_size: int, special: SpecialIds = SpecialIds()
    ) -> None:
        self._lengths = lengths
        self._is_end = torch.arange(vocab_size, device=lengths.device) == special.eos

    def __call__(self, outputs: Tensor, sentences: Tensor) -> Tensor:
        """``[t, R]`` and ``[R]`` -> ``[R, V]``, as every constraint."""
        is_short = self._lengths[sentences] > len(outputs)
        return is_short.unsqueeze(1) & self._is_end


class NoRepeatNgram:
    """No n tokens in a row come twice in one output (Paulus et al. 2018, section 2.5, for n = 3).

    Args:
        size: n; 1 lets no token come twice.
        vocab_size: V.

    Raises:
        ConfigError: an n below 1.
    """

    def __init__(self, size: int, *, vocab_size: int) -> None:
        check(size >= 1, "the size of the n-grams", size, "at least 1")
        self._size = size
        self._vocab_size = vocab_size

    def __call__(self, outputs: Tensor, sentences: Tensor) -> Tensor:
        """``[t, R]`` and ``[R]`` -> ``[R, V]``, as every constraint."""
        forbidden = torch.zeros(
            len(sentences), self._vocab_size, dtype=torch.bool, device=outputs.device
        )
        if len(outputs) < self._size:
            return forbidden
        ngrams = outputs.unfold(0, self._size, 1)  # [t - n + 1, R, n]
        latest = outputs[len(outputs) - self._size + 1 :].t()  # [R, n - 1]
        # Whatever once followed what now stands at the end.
        places, rows = (ngrams[..., :-1] == latest).all(dim=-1).nonzero(as_tuple=True)
        forbidden[rows, ngrams[places, rows, -1]] = True
        return forbidden


class ForcedPrefix:
    """An output begins with given tokens; what comes after them is free.

    A forced token has the probability 1, being the only one allowed. A prefix beyond the length
    limit of its sentence is cut there.

    Args:
        prefixes: the ids that each sentence's output begins with, without ``<bos>``; may be empty.
        vocab_size: V.
        special: the ids of the special tokens.
        device: where the search runs.

    Raises:
        ConfigError: a special token in a prefix (``<unk>``: a word that the vocabulary does not
            know), or an id that is not in the vocabulary; the message names prefix and id.
    """

    def __init__(
        self,
        prefixes: Sequence[Sequence[int]],
        *,
        vocab_size: int,
        special: SpecialIds = SpecialIds(),
        device: torch.device | str | None = None,
    ) -> None:
        for number, prefix in enumerate(prefixes):
            for token in prefix:
                if token in special or not 0 <= token < vocab_size:
                    raise ConfigError(
                        f"prefix {number} has the id {token}; the ids of words are those from 0 to "
                        f"{vocab_size - 1} without the special tokens' {sorted(special)}"
                    )
        self._lengths = torch.tensor([len(prefix) for prefix in prefixes], device=device)
        longest = max(map(len, prefixes), default=0)
        # [B, longest]: a filler is never read.
        filled = [[*prefix, *[special.pad] * (longest - len(prefix))] for prefix in prefixes]
        self._tokens = torch.tensor(filled, dtype=torch.long, device=device)
        self._ids = torch.arange(vocab_size, device=device)

    def __call__(self, outputs: Tensor, sentences: Tensor) -> Tensor:
        """``[t, R]`` and ``[R]`` -> ``[R, V]``, as every constraint."""
        place = len(outputs)
        if place >= self._tokens.shape[1]:
            return torch.zeros(
                len(sentences), len(self._ids), dtype=torch.bool, device=self._ids.device
            )
        is_forced = self._lengths[sentences] > place
        return is_forced.unsqueeze(1) & (self._ids != self._tokens[sentences, place].unsqueeze(1))
