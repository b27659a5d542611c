"""Compact sequences: whatever is done with them, they are the lists they were made of."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.examples import Examples, IdLists, Pair

id_lists = st.lists(st.lists(st.integers(0, 70_000), max_size=6), max_size=12)
pair_lists = st.lists(st.tuples(*[st.lists(st.integers(0, 99), max_size=6)] * 2), max_size=12)
slices = st.slices(12)


@given(id_lists, slices, st.integers(0, 7))
def test_lists_come_back(lists: list[list[int]], part: slice, longest: int) -> None:
    compact = IdLists.of(lists)
    assert compact == lists
    assert lists == compact
    assert len(compact) == len(lists)
    assert [compact[i] for i in range(-len(lists), len(lists))] == [*lists, *lists]
    assert compact.lengths.tolist() == list(map(len, lists))
    assert compact[part] == lists[part]
    assert compact.cut(longest) == [ids[:longest] for ids in lists]
    assert compact.cut(longest)[part] == [ids[:longest] for ids in lists[part]]
    for place in (len(lists), -len(lists) - 1):
        with pytest.raises(IndexError):
            compact[place]


def test_no_list_equals_another() -> None:
    lists = IdLists.of([[1, 2], [3]])
    assert lists != [[1, 2]]
    assert lists != [[1], [2, 3]]
    assert lists != 3
    assert lists == ([1, 2], [3])


@given(pair_lists, slices, st.integers(0, 7))
def test_pairs_come_back(pairs: list[Pair], part: slice, longest: int) -> None:
    compact = Examples.of_pairs(iter(pairs))
    assert compact == pairs
    assert Examples.of_pairs(compact) is compact
    assert [compact[i] for i in range(-len(pairs), len(pairs))] == [*pairs, *pairs]
    assert compact[part] == pairs[part]
    assert compact.lengths.tolist() == [[len(s), len(t)] for s, t in pairs]
    rows = list(range(len(pairs)))[::-2]
    assert compact.select(rows) == [pairs[i] for i in rows]
    assert Examples.of_pairs([*compact[part], *compact]) == [*pairs[part], *pairs]
    with pytest.raises(IndexError):
        compact[len(pairs)]


def test_examples_may_have_a_label() -> None:
    examples: Examples[tuple[list[int], int]] = Examples(
        IdLists.of([[4], [5, 6], []]), np.array([2, 0, 1])
    )
    assert examples == [([4], 2), ([5, 6], 0), ([], 1)]
    assert type(examples[0][1]) is int
    assert examples.lengths.tolist() == [[1], [2], [0]]
    assert examples.select([2, 1]) == [([], 1), ([5, 6], 0)]


def test_selecting_copies_no_ids() -> None:
    lists = IdLists.of([[i] * 10 for i in range(100)])
    for part in (lists[10:20], lists.select([5, 1]), lists.cut(3)):
        assert part._ids is lists._ids
