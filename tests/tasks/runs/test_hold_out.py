"""Holding out validation examples."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import CorpusError
from tasks.runs.hold_out import hold_out

HERE = Path("corpus/train.csv")


@given(count=st.integers(2, 200), share=st.floats(0.0, 1.0), seed=st.integers(0, 9))
def test_every_example_is_kept_or_held_out_in_its_order(
    count: int, share: float, seed: int
) -> None:
    examples = [f"example {i}" for i in range(count)]
    wanted = round(share * count)
    if wanted in (0, count):
        with pytest.raises(CorpusError):
            hold_out(examples, share=share, seed=seed, path=HERE)
        return
    kept, held = hold_out(examples, share=share, seed=seed, path=HERE)
    assert len(held) == wanted
    assert set(held).isdisjoint(kept)
    assert sorted([*kept, *held], key=examples.index) == examples
    assert [e for e in examples if e in set(held)] == held
    assert [e for e in examples if e in set(kept)] == kept


def test_the_seed_alone_decides() -> None:
    splits = [hold_out(range(100), share=0.1, seed=seed, path=HERE)[1] for seed in (1, 1, 2)]
    assert splits[0] == splits[1] != splits[2]


def test_too_few_examples_are_named_with_what_to_do() -> None:
    with pytest.raises(CorpusError, match=r"train\.csv: its 9 examples .*data\.val_share = 0\.05"):
        hold_out(range(9), share=0.05, seed=1, path=HERE)
