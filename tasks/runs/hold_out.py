"""Holds out validation examples if a corpus has no validation split."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from core.config import check_choice
from core.errors import CorpusError


@dataclass(frozen=True, kw_only=True)
class HoldOut:
    """The validation split of a corpus: its own, or held out from the training examples.

    Attributes:
        is_needed: whether the corpus lacks a validation split.
        share: the share of the training examples that is held out, 0 to 1.
        seed: selects them.
        path: the training examples, for error messages.
    """

    is_needed: bool
    share: float
    seed: int
    path: Path

    def source(self, split: str) -> str:
        """Returns the name of the split whose files contain ``split``."""
        return "train" if self.is_needed and split == "val" else split

    def rows(self, split: str, count: int) -> Sequence[int]:
        """Returns which of the ``count`` examples of those files belong to ``split``, in order.

        Raises:
            CorpusError: no example would be held out, or none would remain.
        """
        if not self.is_needed or split not in ("train", "val"):
            return range(count)
        share = round(self.share * count)
        if not 0 < share < count:
            raise CorpusError(
                self.path,
                f"its {count} examples cannot spare data.val_share = {self.share} of them for "
                "validation: add validation data to the corpus, or give another share",
            )
        held = set(random.Random(self.seed).sample(range(count), share))
        return [i for i in range(count) if (i in held) == (split == "val")]

    def splits(self, present: Iterable[str]) -> list[str]:
        """Returns the names of all splits, sorted; ``present`` are those in files."""
        names = set(present)
        return sorted(names | {"val"} if self.is_needed and "train" in names else names)

    def check_split(self, split: str, present: Iterable[str]) -> None:
        """Raises a ConfigError with the names of all splits, unless ``split`` is one of them."""
        check_choice(f"{self.path.parent}: the split", split, self.splits(present))
