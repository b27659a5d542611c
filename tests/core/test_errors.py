"""Errors carry their place, through worker processes too."""

import pickle
from pathlib import Path

from core.errors import CorpusError


def test_a_corpus_error_says_where_and_why() -> None:
    assert str(CorpusError("a/train.de", "empty line", 7)) == "a/train.de:7: empty line"
    assert str(CorpusError("a/train.de", "no lines")) == "a/train.de: no lines"


def test_a_corpus_error_survives_pickling() -> None:
    error = pickle.loads(pickle.dumps(CorpusError("train.de", "empty line", 7)))
    assert (error.path, error.reason, error.line) == (Path("train.de"), "empty line", 7)
    assert str(error) == "train.de:7: empty line"
