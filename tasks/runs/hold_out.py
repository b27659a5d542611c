"""Holding out validation examples of a corpus that comes without any."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from transformer_suite.core.errors import CorpusError

T = TypeVar("T")


def hold_out(
    examples: Sequence[T], *, share: float, seed: int, path: Path
) -> tuple[list[T], list[T]]:
    """``examples`` without those that ``seed`` picks, and those, both in their order.

    Args:
        share: how much is held out, 0 to 1.
        path: where the examples come from, for the error message.

    Raises:
        CorpusError: nothing would be held out, or nothing left.
    """
    count = round(share * len(examples))
    if not 0 < count < len(examples):
        raise CorpusError(
            path,
            f"its {len(examples)} examples cannot spare data.val_share = {share} of them for "
            "validation: add validation data to the corpus, or give another share",
        )
    held = set(random.Random(seed).sample(range(len(examples)), count))
    return (
        [example for i, example in enumerate(examples) if i not in held],
        [example for i, example in enumerate(examples) if i in held],
    )
