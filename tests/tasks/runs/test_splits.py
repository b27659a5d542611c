"""Holding out validation examples."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import CorpusError
from tasks.runs.dataset import Splits


class Numbers(Splits[int]):
    """A corpus whose rows are their numbers."""

    def __init__(self, count: int, share: float, seed: int) -> None:
        path = Path("corpus/train.csv")
        super().__init__(path.parent, {"train": [path]}, {"val": share}, seed=seed)
        self.count = count

    def load(self, split: str) -> list[int]:
        return list(range(self.count))


def split(count: int, share: float, seed: int) -> tuple[list[int], list[int]]:
    numbers = Numbers(count, share, seed)
    return numbers.read("train"), numbers.read("val")


@given(count=st.integers(2, 200), share=st.floats(0.0, 1.0), seed=st.integers(0, 9))
def test_every_example_is_kept_or_held_out_in_its_order(
    count: int, share: float, seed: int
) -> None:
    wanted = round(share * count)
    if wanted in (0, count):
        with pytest.raises(CorpusError):
            split(count, share, seed)
        return
    kept, held = split(count, share, seed)
    assert len(held) == wanted
    assert (sorted(kept), sorted(held)) == (kept, held)
    assert sorted([*kept, *held]) == list(range(count))


def test_the_seed_alone_decides() -> None:
    splits = [split(100, 0.1, seed) for seed in (1, 1, 2)]
    assert splits[0] == splits[1] != splits[2]


def test_too_few_examples_are_named_with_what_to_do() -> None:
    with pytest.raises(CorpusError, match=r"train\.csv: its 9 rows .*data\.val_share = 0\.05"):
        split(9, 0.05, 1)
