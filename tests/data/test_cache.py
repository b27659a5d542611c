"""What is prepared once: when it is taken from disk, and when it had better not be."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from core.errors import CorpusError
from data import cache
from data.cache import cached, cached_files
from data.corpora import DATA_FOLDER_VARIABLE

Remember = Callable[..., list[float]]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.txt"
    path.write_text("a corpus\n")
    return path


@pytest.fixture
def folder(data_root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where entries are kept, even those of small corpora."""
    monkeypatch.setattr(cache, "_MIN_CORPUS_BYTES", 0)
    return data_root / "prepared"


class Work:
    """Something to be done once; counts how often it is."""

    def __init__(self, size: int = 3) -> None:
        self.times = 0
        self._size = size

    def __call__(self) -> Mapping[str, Tensor]:
        self.times += 1
        return {"numbers": torch.arange(self._size) + self.times}


def ask(work: Callable[[], Mapping[str, Tensor]], *files: Path, **changes: Any) -> list[int]:
    options: dict[str, Any] = {"kind": "test", "files": files, "settings": {"a": 1}} | changes
    kind = options.pop("kind")
    numbers: list[int] = cached(kind, work, **options)["numbers"].tolist()
    return numbers


def entries(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


def test_the_second_time_it_is_read(corpus: Path, folder: Path) -> None:
    work = Work()
    assert ask(work, corpus) == ask(work, corpus) == [1, 2, 3]
    assert work.times == 1
    assert len(entries(folder)) == 1


def test_contents_count_and_names_do_not(corpus: Path, folder: Path) -> None:
    work = Work()
    ask(work, corpus)
    corpus.rename(corpus.with_name("renamed"))
    ask(work, corpus.with_name("renamed"))
    assert work.times == 1
    corpus.write_text("A corpus\n")  # of the same length
    ask(work, corpus)
    assert work.times == 2


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "another"},
        {"settings": {"a": 2}},
        {"settings": {}},
        {"settings": {"a": 1, "b": None}},
        {"code": [__file__]},
    ],
)
def test_whatever_decides_the_result_is_in_the_key(
    changes: dict[str, Any], corpus: Path, folder: Path
) -> None:
    work = Work()
    ask(work, corpus)
    ask(work, corpus, **changes)
    ask(work, corpus, corpus)
    assert work.times == 3


def test_a_program_that_has_changed_makes_it_anew(
    corpus: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No version number must be raised by hand when a tokenizer is repaired."""
    work = Work()
    code = corpus.with_name("code.py")
    code.write_text("one")
    ask(work, corpus, code=[str(code)])
    code.write_text("two")
    ask(work, corpus, code=[str(code)])
    assert work.times == 2
    assert {Path(name).name for name in cache._OWN_CODE} >= {"tokenizers.py", "vocabulary.py"}
    monkeypatch.setattr(cache, "_OWN_CODE", cache._OWN_CODE[1:])
    ask(work, corpus, code=[str(code)])
    assert work.times == 3


@pytest.mark.parametrize("damage", ["cut", "altered", "text", "empty"])
def test_a_damaged_entry_is_made_anew_and_named(
    damage: str, corpus: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    work = Work(50)
    first = ask(work, corpus)
    (path,) = entries(folder)
    whole = path.read_bytes()
    other = {"cut": whole[:-9], "text": b"hello", "empty": b""}
    path.write_bytes(other.get(damage, whole[:-9] + b"\7" + whole[-8:]))
    work.times = 0
    assert ask(work, corpus) == first
    said = capsys.readouterr().err
    assert str(path) in said and "damaged" in said and "computed again" in said
    assert ask(work, corpus) == first
    assert work.times == 1
    assert capsys.readouterr().err == ""


def test_what_is_done_in_no_time_is_not_kept(corpus: Path, data_root: Path) -> None:
    work = Work()
    ask(work, corpus)
    ask(work, corpus)
    assert work.times == 2
    assert not data_root.exists()


def test_where_nothing_can_be_written_the_work_is_done_all_the_same(
    corpus: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder.parent.mkdir()
    folder.write_text("a file where the folder should be")
    assert ask(Work(), corpus) == [1, 2, 3]
    assert "cannot be cached for the next" in capsys.readouterr().err


def test_there_may_be_no_home(corpus: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv(DATA_FOLDER_VARIABLE)
    monkeypatch.setattr(Path, "home", homeless)
    assert ask(Work(), corpus) == [1, 2, 3]


def test_an_error_of_the_work_is_its_own(tmp_path: Path, folder: Path) -> None:
    """A missing file is the reader's to name, and nothing is kept of what failed."""
    missing = tmp_path / "missing"

    def work() -> Mapping[str, Tensor]:
        raise CorpusError(missing, "cannot read")

    with pytest.raises(CorpusError, match="missing: cannot read"):
        ask(work, missing)
    (tmp_path / "missing").write_text("now it is there")
    with pytest.raises(CorpusError, match="missing: cannot read"):
        ask(work, missing)
    assert not folder.exists()


def test_two_programs_may_prepare_the_same(corpus: Path, folder: Path) -> None:
    def first() -> Mapping[str, Tensor]:
        ask(Work(), corpus)  # the second begins later and is done sooner
        return {"numbers": torch.tensor([1, 2, 3])}

    assert ask(first, corpus) == [1, 2, 3]
    assert ask(Work(9), corpus) == [1, 2, 3]
    assert len(entries(folder)) == 1


def test_what_is_read_stays_when_its_file_goes(corpus: Path, folder: Path) -> None:
    ask(Work(), corpus)
    tensors = cached("test", Work(), files=[corpus], settings={"a": 1})
    entries(folder)[0].unlink()
    assert tensors["numbers"].tolist() == [1, 2, 3]


def test_the_longest_unused_goes_first(
    corpus: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = Work()
    for number in range(3):
        before = set(entries(folder)) if number else set()
        ask(work, corpus, settings={"number": number})
        (new,) = set(entries(folder)) - before
        os.utime(new, (1000 + number, 1000 + number))
    size = new.stat().st_size
    ask(work, corpus, settings={"number": 0})  # used again
    (folder / ".left-by-a-crash.safetensors").write_bytes(b"x" * size)
    os.utime(folder / ".left-by-a-crash.safetensors", (500, 500))
    monkeypatch.setattr(cache, "_MAX_BYTES", 2 * size)
    ask(work, corpus, settings={"number": 3})
    assert work.times == 4
    assert len(entries(folder)) == 2
    for number in (0, 3):
        ask(work, corpus, settings={"number": number})
    assert work.times == 4


def test_the_newest_stays_however_big_it_is(
    corpus: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "_MAX_BYTES", 10)
    work = Work()
    for number in (1, 2, 2):
        ask(work, corpus, settings={"number": number})
    assert work.times == 2
    assert len(entries(folder)) == 1


def test_files_are_made_once(corpus: Path, folder: Path, tmp_path: Path) -> None:
    made = []

    def make(place: Path) -> None:
        made.append(place)
        place.mkdir()
        (place / "a").write_bytes(b"\x00\xff one")
        (place / "b").write_bytes(b"two")

    for place in (tmp_path / "first", tmp_path / "second"):
        about = {"files": [corpus], "settings": {}}
        cached_files("files", lambda p=place: make(p), place, ["a", "b"], **about)  # type: ignore[misc]
        assert (place / "a").read_bytes() == b"\x00\xff one"
        assert (place / "b").read_bytes() == b"two"
    assert made == [tmp_path / "first"]


def test_a_named_pipe_is_not_opened(corpus: Path, folder: Path, tmp_path: Path) -> None:
    """The cache read the files for its key, before the reader could refuse them, and hung."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert ask(Work(), corpus, pipe) == [1, 2, 3]
    assert not folder.exists()


def test_swapped_entries_are_computed_again(
    corpus: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both had right checksums, and each run trained on the data of the other."""
    work = Work()
    assert ask(work, corpus) == [1, 2, 3]
    assert ask(work, corpus, settings={"a": 2}) == [2, 3, 4]
    first, second = entries(folder)
    first.rename(folder / "other")
    second.rename(first)
    (folder / "other").rename(second)
    assert ask(work, corpus) == [3, 4, 5]
    assert "the content of another entry; it is computed again" in capsys.readouterr().err
    assert ask(work, corpus) == [3, 4, 5]
