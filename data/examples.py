"""Encoded corpora in memory: flat arrays of ids, not a Python object for every token."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from operator import eq
from typing import Any, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from torch import get_num_threads

from data.codec import TextCodec
from data.pairs import TextPair

T = TypeVar("T")

_CHUNK_TEXTS = 10_000  # as Python integers, ids take many times the memory

Pair = tuple[list[int], list[int]]
"""A source and a target, as ids."""


class _LazySequence(Sequence[T]):
    """Items that are created on access. Equal to the list of the items."""

    @abstractmethod
    def select(self, rows: Any) -> Self:
        """Returns the items at these indices, or of a slice, in that order."""

    def __getitem__(self, index: Any) -> Any:
        return self.select(index) if isinstance(index, slice) else next(iter(self.select([index])))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(map(eq, self, other))


class IdLists(_LazySequence[list[int]]):
    """Lists of token ids in one array ``ids``: list i is from ``starts[i]`` to ``ends[i]``."""

    def __init__(
        self, ids: NDArray[Any], starts: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> None:
        self._ids = ids
        self._starts = starts
        self._ends = ends

    @classmethod
    def of(cls, lists: Iterable[Sequence[int]]) -> "IdLists":
        """Returns a compact copy of ``lists``."""
        ends = [0]

        def tokens() -> Iterator[int]:
            for ids in lists:
                ends.append(ends[-1] + len(ids))
                yield from ids

        ids = np.fromiter(tokens(), np.int32)
        return cls(ids, np.array(ends[:-1], np.int64), np.array(ends[1:], np.int64))

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The number of ids of each list."""
        return self._ends - self._starts

    def select(self, rows: Any) -> Self:
        return type(self)(self._ids, self._starts[rows], self._ends[rows])

    def cut(self, longest: int) -> "IdLists":
        """Returns the lists, each cut to its first ``longest`` ids."""
        return IdLists(self._ids, self._starts, np.minimum(self._ends, self._starts + longest))

    def __len__(self) -> int:
        return len(self._starts)

    def __iter__(self) -> Iterator[list[int]]:
        for start, end in zip(self._starts.tolist(), self._ends.tolist(), strict=True):
            yield self._ids[start:end].tolist()


class Examples(_LazySequence[T]):
    """Encoded examples, by column: tuples of the sides as ids, or of a text and its label."""

    def __init__(self, *columns: IdLists | NDArray[np.int64]) -> None:
        self.columns = columns

    @staticmethod
    def of_pairs(pairs: Iterable[Pair]) -> "Examples[Pair]":
        """Returns ``pairs`` in compact form; a copy unless they are compact already."""
        if isinstance(pairs, Examples):
            return pairs
        sides = IdLists.of(side for pair in pairs for side in pair)
        return Examples(sides[::2], sides[1::2])

    @property
    def lengths(self) -> NDArray[np.int64]:
        """``[N, sides]``: the number of ids of each side of every example."""
        sides = [column.lengths for column in self.columns if isinstance(column, IdLists)]
        return np.stack(sides, axis=1)

    def select(self, rows: Any) -> Self:
        columns = (c.select(rows) if isinstance(c, IdLists) else c[rows] for c in self.columns)
        return type(self)(*columns)

    def __len__(self) -> int:
        return len(self.columns[0])

    def __iter__(self) -> Iterator[T]:
        columns = (c if isinstance(c, IdLists) else c.tolist() for c in self.columns)
        return cast(Iterator[T], zip(*columns, strict=True))


def encode_texts(
    codec: TextCodec, texts: Iterable[str], *, prefix: Sequence[int] = (), empty: Sequence[int] = ()
) -> IdLists:
    """Returns the ids of every text, after ``prefix``; ``empty`` for a text without tokens."""
    rest = iter(texts)
    chunks = iter(lambda: list(islice(rest, _CHUNK_TEXTS)), [])
    return IdLists.of(
        [*prefix, *(ids or empty)]
        for chunk in chunks
        for ids in codec.encode_all(chunk, threads=get_num_threads())
    )


def encode_pairs(
    pairs: Sequence[TextPair], codecs: tuple[TextCodec, TextCodec], *, prefix: Sequence[int] = ()
) -> Examples[Pair]:
    """Returns pairs as ids; every source begins with ``prefix``."""
    source, target = codecs
    return Examples(
        encode_texts(source, (pair.source for pair in pairs), prefix=prefix),
        encode_texts(target, (pair.target for pair in pairs)),
    )
