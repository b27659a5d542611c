"""A corpus as a model reads it, and its splits: files of their own, or held-out training rows."""

import hashlib
import random
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from core.config import check_choice
from core.errors import CorpusError
from data.tables import SUFFIXES, table_files, table_paths

ALL = "all"
"""The split that is every row in the training files."""

R = TypeVar("R")


class Splits(ABC, Generic[R]):
    """The rows of a corpus by split.

    Args:
        path: the corpus, for messages.
        files: those of each split that has some.
        shares: of the training rows, for the splits that are held out if they have no files.
        seed: selects these rows.
    """

    def __init__(
        self,
        path: Path,
        files: Mapping[str, Sequence[Path]],
        shares: Mapping[str, float],
        *,
        seed: int,
    ) -> None:
        self._path, self._files, self._seed = path, files, seed
        self._shares = {name: share for name, share in shares.items() if name not in files}

    @abstractmethod
    def load(self, split: str) -> Sequence[R]:
        """Returns all rows in the files of a split, or raises a CorpusError."""

    def read(self, split: str) -> list[R]:
        """Returns the rows of a split, or raises a CorpusError, also if too few can be held out."""
        if split == ALL:
            return list(self.load("train"))
        if not self._shares or split not in ("train", *self._shares):
            return list(self.load(split))
        rows = self.load("train")
        divided = self.divided(rows)
        if not (divided["train"] and divided.get("val", [0])):
            reason = f"its {len(rows)} rows cannot spare data.val_share = {self._shares['val']} of"
            advice = "them: add rows, or give another share above 0"
            raise CorpusError(self._files["train"][-1], f"{reason} {advice}")
        return [rows[i] for i in divided[split]]

    def divided(self, rows: Sequence[R]) -> dict[str, Sequence[int]]:
        """Returns which of the training rows belong to each split, in order."""
        ((name, share),) = self._shares.items()
        held = set(random.Random(self._seed).sample(range(len(rows)), round(share * len(rows))))
        return {name: sorted(held), "train": [i for i in range(len(rows)) if i not in held]}

    def files(self, split: str) -> list[Path]:
        """Returns the files whose contents decide a split."""
        return [*self._files.get(split, self._files["train"])]

    def names(self) -> list[str]:
        """Returns the names of all splits."""
        return sorted({*self._files, *(self._shares if "train" in self._files else ())})

    def check_split(self, split: str) -> None:
        """Raises a ConfigError with the names of all splits, unless ``split`` is one of them."""
        check_choice(f"{self._path}: the split", split, self.names())

    def test_split(self) -> str | None:
        """Returns the name of the split for the test at the end of a run; None without one."""
        return "test" if "test" in self.names() else None

    def split_to_measure(self, metrics: Mapping[str, Any]) -> str:
        """Returns the split to measure a model on, or raises a CorpusError without one."""
        if (split := self.test_split()) is None:
            names = ", ".join(self.names())
            raise CorpusError(self._path, f"no test split; name one of: {names}")
        return split

    def digest(self) -> str | None:
        """Returns what tells whether a model was trained on these rows; None if nothing does."""
        return None


class TableSplits(Splits[R]):
    """Tables: one, or a folder with ``train`` and maybe ``val`` and ``test``.

    Rows are held out for the test, too, of every label in proportion; equal texts are on one side.

    Args:
        suffixes: of the tables in a folder.
    """

    def __init__(
        self,
        path: Path,
        shares: Mapping[str, float],
        *,
        seed: int,
        suffixes: Sequence[str] = SUFFIXES,
    ) -> None:
        self._tables = table_paths(path, suffixes)
        files = {name: table_files(table) for name, table in self._tables.items()}
        super().__init__(path, files, shares, seed=seed)
        self._loaded: dict[str, Sequence[R]] = {}

    @abstractmethod
    def load_table(self, path: Path) -> Sequence[R]:
        """Returns the rows of a table."""

    @abstractmethod
    def text_and_label(self, row: R) -> tuple[str, str]:
        """Returns the text by which a row is held out, and its label."""

    def load(self, split: str) -> Sequence[R]:
        if split not in self._loaded:
            if split not in self._tables:
                self.check_split(split)
            self._loaded[split] = self.load_table(self._tables[split])
        return self._loaded[split]

    def divided(self, rows: Sequence[R]) -> dict[str, Sequence[int]]:
        return self._division

    @cached_property
    def _division(self) -> dict[str, Sequence[int]]:
        rows = self.load("train")
        texts, labels = zip(*map(self.text_and_label, rows), strict=True)
        rest: Sequence[int] = range(len(rows))
        chosen: dict[str, Sequence[int]] = {}
        for name, share in self._shares.items():
            first = sorted({texts[i]: i for i in reversed(rest)}.values())
            held = stratified_sample([labels[i] for i in first], share=share, seed=self._seed)
            held_texts = {texts[first[i]] for i in held}
            chosen[name] = [i for i in rest if texts[i] in held_texts]
            rest = [i for i in rest if texts[i] not in held_texts]
        return chosen | {"train": rest}

    def names(self) -> list[str]:
        held = (name for name in self._shares if self._division[name])
        return sorted({*self._tables, *held, ALL})

    def split_to_measure(self, metrics: Mapping[str, Any]) -> str:
        """Returns the test split of tables that the model was trained on, or all rows of others."""
        is_known = (metrics.get("test") or {}).get("sha256") == self.digest()
        return super().split_to_measure(metrics) if "test" in self._tables or is_known else ALL

    def digest(self) -> str:
        digest = hashlib.sha256()
        for path in self._files["train"]:
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        return digest.hexdigest()


class Dataset(ABC, Generic[R]):
    """A corpus with the codecs of a model.

    Attributes:
        splits: where its rows come from.
    """

    splits: Splits[R]

    def read(self, split: str) -> list[R]:
        """Returns the rows of a split. Raises a CorpusError if a file is missing or not valid."""
        return self.splits.read(split)

    def files(self, *splits: str) -> list[Path]:
        """Returns the files that decide these splits, each once."""
        return list(dict.fromkeys(path for split in splits for path in self.splits.files(split)))

    @abstractmethod
    def training_data(self, *, batch_tokens: int, seed: int, max_len: int) -> Any:
        """Returns the training rows in batches, for a model of ``max_len`` positions."""


def stratified_sample(labels: Sequence[str], *, share: float, seed: int) -> list[int]:
    """Returns a random ``share`` of the rows, with every label in proportion.

    The rows, sorted by label and shuffled within one, are taken at equal distances. One row of
    every label is never taken.
    """
    order = list(range(len(labels)))
    random.Random(seed).shuffle(order)
    first = set({labels[i]: i for i in order}.values())
    candidates = sorted((i for i in order if i not in first), key=lambda i: labels[i])
    count = min(round(share * len(labels)), len(candidates))
    places = ((np.arange(count) + 0.5) * len(candidates) / max(count, 1)).astype(int)
    return sorted(candidates[place] for place in places)
