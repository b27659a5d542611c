"""The key/value cache of decoding: a step computes the newest position only.

Every attention of the decoder caches keys and values: those of the positions so far in
self-attention, and those of the memory in cross-attention, computed once for each sentence.

Beam search reorders its outputs at every step. Here that moves no keys. All positions that the
beams of a sentence have computed stay where they were written, and :class:`Lineage` knows from
which of them each beam descends. It is an attention mask, a thousand times smaller than the keys.
"""

from typing import NamedTuple

import torch
from torch import Tensor

_FIRST_CAPACITY = 16


class KeyValueCache:
    """The keys and values of one attention: L positions of each of B sentences.

    Args:
        keys_values: the first positions, ``[2, B, H, L, K]``; L may be 0.
    """

    def __init__(self, keys_values: Tensor) -> None:
        self.sentences, self._length = keys_values.shape[1], keys_values.shape[3]  # B, L
        # [2, B, H, capacity, K]. Numbers beyond B sentences are meaningless, those beyond L
        # positions are zero.
        self._stored = _with_capacity(keys_values, max(self._length, _FIRST_CAPACITY))

    def __len__(self) -> int:
        """Returns L, the number of positions."""
        return self._length

    def append(self, keys_values: Tensor) -> None:
        """Appends n positions, ``[2, B, H, n, K]``: their keys, then their values."""
        added, capacity = keys_values.shape[3], self._stored.shape[3]
        end = self._length + added
        if end > capacity:
            # Doubled each time, so n steps copy O(n) positions in total, not O(n^2).
            self._stored = _with_capacity(self._used(), max(end, 2 * capacity))
        free = self._stored.narrow(1, 0, self.sentences).narrow(3, self._length, added)
        free.copy_(keys_values)
        self._length = end

    def read(self, least: int = 0) -> tuple[Tensor, Tensor]:
        """Returns all keys and values, ``[B, H, L, K]`` each (views, not copies).

        If L is below ``least`` (16 at most), they are zero from position L to ``least``.
        """
        length = max(self._length, least)
        keys, values = self._stored.narrow(1, 0, self.sentences).narrow(3, 0, length).unbind()
        return keys, values

    def keep(self, count: int, places: Tensor, sentences: Tensor) -> None:
        """Copies ``sentences`` to ``places``, then keeps the first ``count`` sentences."""
        self.sentences = count
        if len(places) > 0:
            self._stored[:, places] = self._stored[:, sentences]

    def _used(self) -> Tensor:
        return self._stored.narrow(1, 0, self.sentences).narrow(3, 0, self._length)


class LayerCache(NamedTuple):
    """The caches of one decoder layer: of the memory, and of the positions so far."""

    memory: KeyValueCache
    past: KeyValueCache

    def keep(self, count: int, places: Tensor, sentences: Tensor) -> None:
        """Keeps some sentences in both, see :meth:`KeyValueCache.keep`."""
        self.memory.keep(count, places, sentences)
        self.past.keep(count, places, sentences)


class Lineage:
    """The cached positions that each of N beams descends from, for B sentences.

    Args:
        like: a tensor of the type and on the device of the attention scores.
    """

    def __init__(self, like: Tensor) -> None:
        self._like = like
        # [B, N, L], 0 or minus infinity. None while no sentence has had a second beam: every beam
        # then descends from all cached positions.
        self._mask: Tensor | None = None
        self._count = 0  # L
        self.beams = 1  # N

    def append(self) -> None:
        """Adds one position for each beam, which only that beam descends from."""
        self._count += self.beams
        if self._mask is not None:
            own = self._like.new_full((self.beams, self.beams), -torch.inf).fill_diagonal_(0.0)
            self._mask = torch.cat([self._mask, own.expand(len(self._mask), -1, -1)], dim=2)

    def mask(self) -> Tensor | None:
        """Returns ``[B, 1, N, L]`` to add to the attention scores, or None if nothing is masked."""
        return None if self._mask is None else self._mask.unsqueeze(1)

    def select(self, rows: Tensor, sentences: int) -> None:
        """Keeps the given rows, the same number for each of the ``sentences``, in their order.

        Raises:
            ValueError: the rows are no multiple of the sentences; the message gives both numbers.
        """
        beams = len(rows) // sentences if sentences > 0 else self.beams
        if len(rows) != beams * sentences:
            raise ValueError(f"{len(rows)} rows are no multiple of {sentences} sentences")
        self.beams = beams
        if self._mask is not None:
            kept = self._mask.flatten(0, 1).index_select(0, rows)
            self._mask = kept.view(sentences, beams, self._count)
        elif beams > 1:
            self._mask = self._like.new_zeros(sentences, beams, self._count)


def _with_capacity(x: Tensor, capacity: int) -> Tensor:
    """Copies ``[2, B, H, L, K]`` into the beginning of a new ``[2, B, H, capacity, K]``."""
    two, count, heads, length, width = x.shape
    larger = x.new_zeros(two, count, heads, capacity, width)
    larger[:, :, :, :length] = x
    return larger
