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
        # [B, H, room, K]. What they hold beyond B sentences and L positions means nothing.
        self._keys: Tensor | None = None
        self._values: Tensor | None = None
        self._sentences = 0
        self._length = 0

    def __len__(self) -> int:
        """L, how many positions are stored."""
        return self._length

    @property
    def sentences(self) -> int:
        """B."""
        return self._sentences

    def append(self, keys: Tensor, values: Tensor) -> None:
        """Adds n positions, ``[B, H, n, K]`` keys and values, after those already there.

        Raises:
            ValueError: they differ from those already there in B, H or K; the message names both.
        """
        end = self._length + keys.shape[2]
        if self._keys is None or self._values is None:
            self._sentences = len(keys)
            self._keys = _with_room(keys[:, :, :0], max(end, _FIRST_ROOM))
            self._values = _with_room(values[:, :, :0], max(end, _FIRST_ROOM))
        # Checked, because the assignment below would broadcast one row to all of them in silence.
        old, new = (self._sentences, *_sizes(self._keys)), (len(keys), *_sizes(keys))
        if old != new:
            raise ValueError(
                f"the cache holds [B, H, K] = {list(old)}, the keys to append have {list(new)}"
            )
        if end > self._keys.shape[2]:
            # Twice the room each time: n steps cost O(n) copies in all, not O(n^2).
            room = max(end, 2 * self._keys.shape[2])
            self._keys, self._values = (_with_room(x, room) for x in self.read())
        self._keys[: self._sentences, :, self._length : end] = keys
        self._values[: self._sentences, :, self._length : end] = values
        self._length = end

    def read(self) -> tuple[Tensor, Tensor]:
        """The stored keys and values, ``[B, H, L, K]`` each (views, not copies)."""
        if self._keys is None or self._values is None:
            raise ValueError("the cache is empty: append keys and values before reading them")
        sentences, length = self._sentences, self._length
        return self._keys[:sentences, :, :length], self._values[:sentences, :, :length]

    def keep(self, count: int, places: Tensor, sentences: Tensor) -> None:
        """Keeps ``count`` sentences: first those named go to the ``places`` named."""
        self._sentences = count
        if self._keys is not None and self._values is not None and len(places) > 0:
            self._keys[places] = self._keys[sentences]
            self._values[places] = self._values[sentences]


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
    """``[B, H, L, K]`` as the beginning of a ``[B, H, room, K]``."""
    batch_size, num_heads, length, head_dim = x.shape
    roomy = x.new_empty(batch_size, num_heads, room, head_dim)
    roomy[:, :, :length] = x
    return roomy


def _sizes(keys: Tensor) -> tuple[int, int]:
    """H and K of ``[B, H, L, K]``."""
    return keys.shape[1], keys.shape[3]
