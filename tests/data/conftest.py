"""A web server, corpora published there, and a data folder of the test's own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from data.corpora import CORPORA, DATA_FOLDER_VARIABLE, Corpus
from tests.data.small_corpora import publish_captions, publish_couplets, publish_news
from tests.data.web_server import Behavior, serving


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Behavior]:
    monkeypatch.setenv("no_proxy", "*")
    with serving() as behavior:
        yield behavior


@pytest.fixture
def data_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where corpora are kept during a test."""
    root = tmp_path / "data_root"
    monkeypatch.setenv(DATA_FOLDER_VARIABLE, str(root))
    return root


@pytest.fixture
def captions(server: Behavior, monkeypatch: pytest.MonkeyPatch) -> Corpus:
    return _registered(publish_captions(server), monkeypatch)


@pytest.fixture
def news(server: Behavior, monkeypatch: pytest.MonkeyPatch) -> Corpus:
    return _registered(publish_news(server), monkeypatch)


@pytest.fixture
def couplets(server: Behavior, monkeypatch: pytest.MonkeyPatch) -> Corpus:
    return _registered(publish_couplets(server), monkeypatch)


def _registered(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> Corpus:
    monkeypatch.setitem(CORPORA, corpus.name, corpus)
    return corpus
