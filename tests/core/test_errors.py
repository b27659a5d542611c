"""Errors carry their place, through worker processes too."""

import pickle
from pathlib import Path

import pytest

from core.errors import (
    CheckpointError,
    ConfigError,
    CorpusError,
    NetworkError,
    UserError,
)


def test_a_corpus_error_says_where_and_why() -> None:
    assert str(CorpusError("a/train.de", "empty line", 7)) == "a/train.de:7: empty line"
    assert str(CorpusError("a/train.de", "no lines")) == "a/train.de: no lines"


def test_a_corpus_error_survives_pickling() -> None:
    error = pickle.loads(pickle.dumps(CorpusError("train.de", "empty line", 7)))
    assert (error.path, error.reason, error.line) == (Path("train.de"), "empty line", 7)
    assert str(error) == "train.de:7: empty line"


@pytest.mark.parametrize("kind", [ConfigError, CorpusError, CheckpointError, NetworkError])
def test_one_handler_catches_them_all(kind: type[Exception]) -> None:
    assert issubclass(kind, UserError)


def test_a_bad_value_is_a_value_error_to_a_caller_of_the_library() -> None:
    assert issubclass(ConfigError, ValueError)
