"""What decoding remembers, so that a step computes nothing but the newest position.

Every attention of the decoder keeps keys and values: of the positions so far in self-attention, and
of the memory in cross-attention, computed once a sentence.

Beam search reorders its outputs at every step. Here that moves no keys: what a sentence's beams
have computed stays where it was written, all of it, and :class:`Lineage` says which of it each beam
descends from. It is a mask like any other, a thousand times smaller than the keys.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

_FIRST_ROOM = 16


class KeyValueCache:
    """Keys and values of one attention: L positions of each of B sentences."""

    def __init__(self) -> None:
        # [2, B, H, room, K]: what it holds beyond B sentences and L positions means nothing.
        self._stored: Tensor | None = None
        self._sentences = 0
        self._length = 0

    def __len__(self) -> int:
        """L, how many positions are stored."""
        return self._length

    @property
    def sentences(self) -> int:
        """B."""
        return self._sentences

    def append(self, keys_values: Tensor) -> None:
        """Adds n positions, ``[2, B, H, n, K]``: their keys and then their values.

        Raises:
            ValueError: they differ from those already there in B, H or K; the message names both.
        """
        _, count, heads, added, width = keys_values.shape
        end = self._length + added
        if self._stored is None:
            self._sentences = count
            self._stored = _with_room(keys_values[:, :, :, :0], max(end, _FIRST_ROOM))
        _, _, old_heads, room, old_width = self._stored.shape
        # Checked, because the copy below would broadcast one row to all of them in silence.
        old, new = [self._sentences, old_heads, old_width], [count, heads, width]
        if old != new:
            raise ValueError(f"the cache holds [B, H, K] = {old}, the keys to append have {new}")
        if end > room:
            # Twice the room each time: n steps cost O(n) copies in all, not O(n^2).
            self._stored = _with_room(self._held(self._stored), max(end, 2 * room))
        free = self._stored.narrow(1, 0, count).narrow(3, self._length, added)
        free.copy_(keys_values)
        self._length = end

    def read(self) -> tuple[Tensor, Tensor]:
        """All keys and values, ``[B, H, L, K]`` each (views, not copies).

        Raises:
            ValueError: there are none.
        """
        if self._stored is None:
            raise ValueError("the cache is empty: append keys and values before reading them")
        keys, values = self._held(self._stored).unbind()
        return keys, values

    def keep(self, count: int, places: Tensor, sentences: Tensor) -> None:
        """Keeps ``count`` sentences: first those named go to the ``places`` named."""
        self._sentences = count
        if self._stored is not None and len(places) > 0:
            self._stored[:, places] = self._stored[:, sentences]

    def _held(self, stored: Tensor) -> Tensor:
        """``[2, B, H, L, K]`` of it."""
        return stored.narrow(1, 0, self._sentences).narrow(3, 0, self._length)


@dataclass
class LayerCache:
    """What one decoder layer remembers: the keys of the outputs so far, and those of the memory."""

    memory: KeyValueCache
    past: KeyValueCache = field(default_factory=KeyValueCache)

    def keep(self, count: int, places: Tensor, sentences: Tensor) -> None:
        """See :meth:`KeyValueCache.keep`."""
        self.memory.keep(count, places, sentences)
        self.past.keep(count, places, sentences)


class Lineage:
    """Which cached positions each of N beams descends from, for B sentences."""

    def __init__(self, like: Tensor) -> None:
        """``like`` has the type and the device of the attention scores."""
        self._like = like
        # [B, N, L], 0 or minus infinity. None as long as no sentence has had a second beam: then
        # everything in the cache is everybody's past.
        self._mask: Tensor | None = None
        self._length = 0
        self._beams = 1

    @property
    def beams(self) -> int:
        """N."""
        return self._beams

    def append(self) -> None:
        """Every beam goes on by one position, which is its own."""
        self._length += self._beams
        if self._mask is not None:
            own = self._like.new_full((self._beams, self._beams), -torch.inf).fill_diagonal_(0.0)
            self._mask = torch.cat([self._mask, own.expand(len(self._mask), -1, -1)], dim=2)

    def mask(self) -> Tensor | None:
        """``[B, 1, N, L]`` to add to the attention scores, or None where every beam sees all."""
        return None if self._mask is None else self._mask.unsqueeze(1)

    def select(self, rows: Tensor, sentences: int) -> None:
        """Keeps the named rows, equally many of each of the ``sentences`` that stay, in order.

        Raises:
            ValueError: the rows cannot be equally many of each; the message names both numbers.
        """
        beams = len(rows) // sentences if sentences > 0 else self._beams
        if len(rows) != beams * sentences:
            raise ValueError(f"{len(rows)} rows cannot be equally many of {sentences} sentences")
        self._beams = beams
        if self._mask is not None:
            kept = self._mask.flatten(0, 1).index_select(0, rows)
            self._mask = kept.view(sentences, beams, self._length)
        elif beams > 1:
            self._mask = self._like.new_zeros(sentences, beams, self._length)


def _with_room(x: Tensor, room: int) -> Tensor:
    """``[2, B, H, L, K]`` as the beginning of a ``[2, B, H, room, K]``."""
    two, count, heads, length, width = x.shape
    roomy = x.new_empty(two, count, heads, room, width)
    roomy[:, :, :, :length] = x
    return roomy
