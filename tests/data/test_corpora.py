"""The catalog is complete and consistent, and agrees with the real files."""

import hashlib
import re
from pathlib import Path

import pytest

from core.errors import ConfigError
from data.corpora import CORPORA, Corpus, corpus_folder, find_corpus

corpora = pytest.mark.parametrize("corpus", CORPORA.values(), ids=CORPORA)


@corpora
def test_the_entry_of_a_file_is_consistent(corpus: Corpus) -> None:
    names = [file.name for file in corpus.files]
    assert len(set(names)) == len(names)
    for file in corpus.files:
        assert not Path(file.name).is_absolute() and ".." not in Path(file.name).parts
        assert file.sha256 is None or re.fullmatch(r"[0-9a-f]{64}", file.sha256)
        assert file.url is not None or not file.is_required
        assert (file.url is None) == (file.rows is None)
        if file.url is not None:
            assert file.url.startswith("https://")
            assert (file.member is not None) == file.url.endswith(".tar.gz")


@corpora
def test_the_tasks_find_the_files_they_expect(corpus: Corpus) -> None:
    required = {file.name for file in corpus.files if file.is_required}
    expected = {
        "translation": {
            f"{split}.{language}"
            for split in ("train", "val", "test_2016_flickr")
            for language in ("de", "en")
        },
        "classification": {"train.csv", "test.csv", "classes.txt"},
        "couplet": {"train/in.txt", "train/out.txt", "test/in.txt", "test/out.txt"},
    }
    assert required == expected[corpus.task]


def test_the_size_is_known_when_every_file_s_is() -> None:
    assert CORPORA["multi30k"].size == 6_441_127
    assert CORPORA["couplet"].size is None


def test_the_real_captions_are_the_published_ones(shared_data: Path) -> None:
    for file in CORPORA["multi30k"].files:
        content = (shared_data / "multi30k" / file.name).read_bytes()
        assert (len(content), content.count(b"\n")) == (file.size, file.rows)
        assert hashlib.sha256(content).hexdigest() == file.sha256


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("multi30", "not 'multi30'; did you mean 'multi30k'"),
        ("wikitext", "corpus must be one of multi30k, ag_news, couplet, not 'wikitext'"),
        ("../etc", "corpus must be one of"),
    ],
)
def test_an_unknown_name_is_answered_with_a_known_one(name: str, message: str) -> None:
    for look_up in (find_corpus, corpus_folder):
        with pytest.raises(ConfigError, match=message):
            look_up(name)


def test_corpora_are_kept_where_the_user_says(data_root: Path) -> None:
    assert corpus_folder("couplet") == data_root / "couplet"


@pytest.mark.parametrize("value", [None, ""])
def test_corpora_are_kept_in_the_cache_otherwise(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, value: str | None
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    if value is None:
        monkeypatch.delenv("TRANSFORMER_SUITE_DATA", raising=False)
    else:
        monkeypatch.setenv("TRANSFORMER_SUITE_DATA", value)
    assert corpus_folder("couplet") == tmp_path / ".cache" / "transformer-suite" / "couplet"
