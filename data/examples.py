"""Encoded corpora in memory: flat arrays of ids, not a Python object for every token."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import eq
from typing import Any, Self, TypeVar, cast, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

T = TypeVar("T")

Pair = tuple[list[int], list[int]]
"""A source and a target, as ids."""


class _LazySequence(Sequence[T]):
    """Items that are created on access. Equal to the list of the items, and printed like it."""

    @abstractmethod
    def select(self, rows: Any) -> Self:
        """Returns the items at these indices, or of a slice, in that order."""

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: int | slice) -> T | Self:
        return self.select(index) if isinstance(index, slice) else next(iter(self.select([index])))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(map(eq, self, other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(list(self))


class IdLists(_LazySequence[list[int]]):
    """Lists of token ids in one array, which may be mapped from a file.

    Args:
        ids: the ids of all lists.
        starts, ends: the positions in ``ids`` where each list begins and ends.
    """

    def __init__(
        self, ids: NDArray[Any], starts: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> None:
        self._ids = ids
        self._starts = starts
        self._ends = ends

    @classmethod
    def of_lengths(cls, ids: NDArray[Any], lengths: NDArray[Any]) -> IdLists:
        """Returns lists of these lengths that follow each other in ``ids``."""
        ends = np.cumsum(lengths, dtype=np.int64)
        return cls(ids, ends - lengths, ends)

    @classmethod
    def of(cls, lists: Iterable[Sequence[int]]) -> IdLists:
        """Returns a compact copy of ``lists``."""
        lengths = []

        def tokens() -> Iterator[int]:
            for ids in lists:
                lengths.append(len(ids))
                yield from ids

        ids = np.fromiter(tokens(), np.int32)
        return cls.of_lengths(ids, np.array(lengths, np.int64))

    @classmethod
    def joined(cls, parts: Sequence[IdLists]) -> IdLists:
        """Returns the lists of all ``parts``, in their order."""
        ids = np.concatenate([part._flat() for part in parts])
        return cls.of_lengths(ids, np.concatenate([part.lengths for part in parts]))

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor], name: str) -> IdLists:
        """Returns the lists that :meth:`to_tensors` stored; their ids are not copied."""
        return cls.of_lengths(tensors[f"{name}.ids"].numpy(), tensors[f"{name}.lengths"].numpy())

    def to_tensors(self, name: str) -> dict[str, Tensor]:
        """Returns the lists as tensors, to be stored in a file."""
        return {
            f"{name}.ids": torch.from_numpy(self._flat()),
            f"{name}.lengths": torch.from_numpy(self.lengths.astype(np.int32)),
        }

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The number of ids of each list."""
        return self._ends - self._starts

    def select(self, rows: Any) -> Self:
        return type(self)(self._ids, self._starts[rows], self._ends[rows])

    def cut(self, longest: int) -> IdLists:
        """Returns the lists, each cut to its first ``longest`` ids."""
        return IdLists(self._ids, self._starts, np.minimum(self._ends, self._starts + longest))

    def after(self, first: int) -> IdLists:
        """Returns the lists, each with the id ``first`` before the others."""
        flat, lengths = self._flat(), self.lengths
        starts = np.cumsum(lengths) - lengths
        return IdLists.of_lengths(np.insert(flat, starts, flat.dtype.type(first)), lengths + 1)

    def filled(self, filler: int) -> IdLists:
        """Returns the lists, with ``[filler]`` in place of empty ones."""
        is_empty = self._starts == self._ends
        end = len(self._ids)
        return IdLists(
            np.append(self._ids, self._ids.dtype.type(filler)),
            np.where(is_empty, end, self._starts),
            np.where(is_empty, end + 1, self._ends),
        )

    def __len__(self) -> int:
        return len(self._starts)

    def __iter__(self) -> Iterator[list[int]]:
        for start, end in zip(self._starts.tolist(), self._ends.tolist(), strict=True):
            yield self._ids[start:end].tolist()

    def _flat(self) -> NDArray[Any]:
        """Returns the ids of these lists alone, without gaps."""
        if not len(self):
            return self._ids[:0]
        if np.array_equal(self._starts[1:], self._ends[:-1]):
            return self._ids[self._starts[0] : self._ends[-1]]
        bounds = zip(self._starts.tolist(), self._ends.tolist(), strict=True)
        return np.concatenate([self._ids[start:end] for start, end in bounds])


class Examples(_LazySequence[T]):
    """Encoded examples: tuples of the sides as lists of ids, or of a text and its label.

    Args:
        columns: the elements of the tuples, one column for each position.
    """

    def __init__(self, *columns: IdLists | NDArray[np.int64]) -> None:
        self.columns = columns

    @staticmethod
    def of_pairs(pairs: Iterable[Pair]) -> Examples[Pair]:
        """Returns ``pairs`` in compact form; a copy unless they are compact already."""
        if isinstance(pairs, Examples):
            return pairs
        sides = IdLists.of(side for pair in pairs for side in pair)
        return Examples(sides[::2], sides[1::2])

    @classmethod
    def joined(cls, parts: Sequence[Examples[T]]) -> Examples[T]:
        """Returns the examples of all ``parts``, whose columns are all lists, in their order."""
        if len(parts) == 1:
            return parts[0]
        columns = zip(*(part.columns for part in parts), strict=True)
        return cls(*(IdLists.joined(cast(Any, column)) for column in columns))

    @property
    def lengths(self) -> NDArray[np.int64]:
        """``[N, sides]``: the number of ids of each side of every example."""
        sides = [column.lengths for column in self.columns if isinstance(column, IdLists)]
        return np.stack(sides, axis=1)

    def select(self, rows: Any) -> Self:
        columns = (c.select(rows) if isinstance(c, IdLists) else c[rows] for c in self.columns)
        return type(self)(*columns)

    def cut(self, longest: int) -> Examples[T]:
        """Returns the examples, each side cut to its first ``longest`` ids."""
        return Examples(*(c.cut(longest) if isinstance(c, IdLists) else c for c in self.columns))

    def after(self, first: int) -> Examples[T]:
        """Returns the examples, with the id ``first`` before the first side of each of them."""
        side, *others = self.columns
        return Examples(cast(IdLists, side).after(first), *others)

    def __len__(self) -> int:
        return len(self.columns[0])

    def __iter__(self) -> Iterator[T]:
        columns = (c if isinstance(c, IdLists) else c.tolist() for c in self.columns)
        return cast(Iterator[T], zip(*columns, strict=True))
