"""Compact sequences: whatever is done with them, they are the lists they were made of."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.storage.checkpoint import load_tensors, save_tensors
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
    assert compact.filled(7) == [ids or [7] for ids in lists]
    assert compact.cut(longest)[part].filled(7) == [ids[:longest] or [7] for ids in lists[part]]
    assert repr(compact) == repr(lists)
    for place in (len(lists), -len(lists) - 1):
        with pytest.raises(IndexError):
            compact[place]


@given(id_lists, id_lists, slices)
def test_lists_are_joined_and_kept(one: list[list[int]], other: list[list[int]], p: slice) -> None:
    """Selected ones too, whose ids do not lie side by side."""
    joined = IdLists.joined([IdLists.of(one)[p], IdLists.of(other)])
    assert joined == [*one[p], *other]
    tensors = IdLists.of(one)[p].to_tensors("a")
    assert sum(tensors["a.lengths"].tolist()) == len(tensors["a.ids"])
    assert IdLists.from_tensors(tensors, "a") == one[p]


def test_lists_in_a_file_are_read_where_they_lie(tmp_path: Path) -> None:
    lists = IdLists.of_lengths(np.arange(9, dtype=np.uint16), np.array([2, 0, 7]))
    save_tensors(tmp_path / "a", lists.to_tensors("side"))
    read = IdLists.from_tensors(load_tensors(tmp_path / "a"), "side")
    assert read == [[0, 1], [], [2, 3, 4, 5, 6, 7, 8]]
    assert read._ids.dtype == np.uint16


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
    assert compact.cut(longest) == [(s[:longest], t[:longest]) for s, t in pairs]
    rows = list(range(len(pairs)))[::-2]
    assert compact.select(rows) == [pairs[i] for i in rows]
    assert Examples.joined([compact[part], compact]) == [*pairs[part], *pairs]
    assert Examples.joined([compact]) is compact
    with pytest.raises(IndexError):
        compact[len(pairs)]


def test_examples_may_have_a_label() -> None:
    examples: Examples[tuple[list[int], int]] = Examples(
        IdLists.of([[4], [5, 6], []]), np.array([2, 0, 1])
    )
    assert examples == [([4], 2), ([5, 6], 0), ([], 1)]
    assert type(examples[0][1]) is int
    assert examples.lengths.tolist() == [[1], [2], [0]]
    assert examples.select([2, 1]).cut(1) == [([], 1), ([5], 0)]


def test_selecting_copies_no_ids() -> None:
    ids = np.arange(1000)
    lists = IdLists.of_lengths(ids, np.full(100, 10))
    for part in (lists[10:20], lists.select([5, 1]), lists.cut(3)):
        assert part._ids is ids


def test_an_id_comes_before_every_list() -> None:
    lists = IdLists.of([[5, 6], [], [7], []])
    assert lists.after(9) == [[9, 5, 6], [9], [9, 7], [9]]
    assert lists.select([2, 0]).after(9) == [[9, 7], [9, 5, 6]]
    assert IdLists.of([]).after(9) == []
