"""A corpus as a model reads it: the base class of the datasets of all tasks."""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, Generic, TypeVar

from tasks.runs.hold_out import Splits

R = TypeVar("R")


class Dataset(ABC, Generic[R]):
    """A corpus with the codecs of a model.

    Attributes:
        splits: where its rows come from.
    """

    splits: Splits[R]

    def read(self, split: str) -> list[R]:
        """Returns the rows of a split; a CorpusError if a file is missing or not valid."""
        return self.splits.read(split)

    def files(self, *splits: str) -> list[Path]:
        """Returns the files that decide these splits, each once."""
        return list(dict.fromkeys(path for split in splits for path in self.splits.files(split)))

    @abstractmethod
    def training_data(self, *, batch_tokens: int, seed: int, max_len: int) -> Any:
        """Returns the training rows in batches, for a model of ``max_len`` positions."""
