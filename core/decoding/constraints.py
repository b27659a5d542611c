"""Rules for the outputs of any search: each is a :data:`core.decoding.search.Constraint`.

A rule is made for one batch, and its arguments are in the order of the sentences of that batch.
Rules only forbid tokens, so they can be combined freely (:func:`all_of`). Where they forbid every
token together, the output ends as it is.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from core.decoding.search import Constraint
from core.special_ids import EOS_ID, PAD_ID


def all_of(*constraints: Constraint) -> Constraint:
    """Returns a constraint that forbids what any of ``constraints``, at least one, forbids."""

    def forbidden(outputs: Tensor, sentences: Tensor) -> Tensor:
        is_forbidden = constraints[0](outputs, sentences)
        for constraint in constraints[1:]:
            is_forbidden = is_forbidden | constraint(outputs, sentences)
        return is_forbidden

    return forbidden


class MinimumLength:
    """Forbids an output to end before it has ``lengths`` ``[B]`` tokens (without ``<eos>``)."""

    def __init__(self, lengths: Tensor, *, vocab_size: int) -> None:
        self._lengths = lengths
        self._is_end = torch.arange(vocab_size, device=lengths.device) == EOS_ID

    def __call__(self, outputs: Tensor, sentences: Tensor) -> Tensor:
        is_short = self._lengths[sentences] > len(outputs)
        return is_short.unsqueeze(1) & self._is_end


class NoRepeatNgram:
    """Forbids n-grams of ``size`` n that an output contains (Paulus et al. 2018, section 2.5)."""

    def __init__(self, size: int, *, vocab_size: int) -> None:
        self._size = size
        self._vocab_size = vocab_size

    def __call__(self, outputs: Tensor, sentences: Tensor) -> Tensor:
        forbidden = outputs.new_zeros(len(sentences), self._vocab_size, dtype=torch.bool)
        if len(outputs) < self._size:
            return forbidden
        ngrams = outputs.unfold(0, self._size, 1)  # [t - n + 1, R, n]
        latest = outputs[len(outputs) - self._size + 1 :].t()  # [R, n - 1]
        # Tokens that have followed the latest n - 1 tokens before.
        starts, rows = (ngrams[..., :-1] == latest).all(dim=-1).nonzero(as_tuple=True)
        forbidden[rows, ngrams[starts, rows, -1]] = True
        return forbidden


class ForcedPrefix:
    """Makes outputs begin with ``prefixes`` of ids, which may be empty, one for each sentence.

    Given tokens are the only ones allowed, so their probability is 1.
    """

    def __init__(
        self,
        prefixes: Sequence[Sequence[int]],
        *,
        vocab_size: int,
        device: torch.device | str | None = None,
    ) -> None:
        self._lengths = torch.tensor([len(prefix) for prefix in prefixes], device=device)
        longest = max(map(len, prefixes), default=0)
        # [B, longest]: the padding is never read.
        padded = [[*prefix, *[PAD_ID] * (longest - len(prefix))] for prefix in prefixes]
        self._tokens = torch.tensor(padded, dtype=torch.long, device=device)
        self._ids = torch.arange(vocab_size, device=device)

    def __call__(self, outputs: Tensor, sentences: Tensor) -> Tensor:
        position = len(outputs)
        if position >= self._tokens.shape[1]:
            return self._ids.new_zeros(len(sentences), len(self._ids), dtype=torch.bool)
        is_forced = self._lengths[sentences] > position
        is_other = self._ids != self._tokens[sentences, position].unsqueeze(1)
        return is_forced.unsqueeze(1) & is_other
