"""The shards of several processes: how they are dealt out, joined, and refused if incomplete."""

import math
import threading
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.distributed.world import World
from core.errors import ConfigError, UserError
from tasks.streaming import sharding
from tasks.streaming.lines import CHUNK_LINES
from tasks.streaming.sharding import Shards, open_shards

CHUNKS = ["a\n", "b\nbb\n", "", "d\n", "ä\n"]


@pytest.fixture
def store() -> Any:
    """A real store in this process."""
    dist = pytest.importorskip("torch.distributed")
    return dist.TCPStore("localhost", 0, is_master=True, timeout=timedelta(seconds=20))


def world_of(rank: int, size: int = 2) -> World:
    return World(rank=rank, size=size, local_rank=rank)


def shards_of(store: Any, folder: Path, size: int = 2) -> list[Shards]:
    """The shards of all processes, with every chunk written by the one that it is dealt to."""
    shards = [Shards(world_of(rank, size), store, folder) for rank in range(size)]
    for number, text in enumerate(CHUNKS):
        shards[number % size].write(text)
    return shards


# Chunks


@given(total=st.integers(1, 60_000), size=st.integers(2, 9))
def test_all_processes_have_work_and_about_equally_much(total: int, size: int) -> None:
    lines = sharding.chunk_lines(total, size)
    assert 1 <= lines <= CHUNK_LINES
    chunks = math.ceil(total / lines)
    if total > 4 * size * CHUNK_LINES:
        assert lines == CHUNK_LINES  # as in a single process
    else:
        # All processes have a chunk in every round but the last; no round is superfluous.
        assert math.ceil(chunks / size) == math.ceil(total / (size * CHUNK_LINES))
        # The busiest process has at most the rounding of a chunk more than its share.
        assert math.ceil(chunks / size) * lines <= total / size + math.ceil(chunks / size)


def test_an_empty_file_is_no_division_by_zero() -> None:
    assert sharding.chunk_lines(0, 3) == 1


def test_input_that_cannot_be_counted_cannot_be_read_by_all() -> None:
    with pytest.raises(ConfigError, match="must be a plain file"):
        sharding.chunk_lines(None, 2)


# Joining


@pytest.mark.parametrize("size", [2, 3, 7])
def test_results_are_joined_in_the_order_of_the_chunks(
    size: int, store: Any, tmp_path: Path
) -> None:
    shards = shards_of(store, tmp_path, size)
    for shard in shards:
        shard.finish(5, 123, {"refused": 2})
    written: list[str] = []
    assert shards[0].join(written.append) == {"refused": 2 * size}
    assert written == CHUNKS


def test_rank_0_waits_until_all_shards_are_complete(store: Any, tmp_path: Path) -> None:
    shards = shards_of(store, tmp_path)
    shards[0].finish(5, 123, {})
    threading.Timer(0.3, shards[1].finish, (5, 123, {})).start()
    written: list[str] = []
    shards[0].join(written.append)
    assert written == CHUNKS


def test_a_process_that_has_read_other_lines_is_named(store: Any, tmp_path: Path) -> None:
    shards = shards_of(store, tmp_path)
    shards[0].finish(5, 123, {})
    shards[1].finish(5, 124, {})
    with pytest.raises(UserError, match="rank 1 and rank 0 read different lines"):
        shards[0].join(pytest.fail)


@pytest.mark.parametrize("cut", [1, 10])
def test_a_shard_that_is_cut_off_is_an_error_and_not_a_gap(
    cut: int, store: Any, tmp_path: Path
) -> None:
    shards = shards_of(store, tmp_path)
    for shard in shards:
        shard.finish(5, 123, {})
    path = tmp_path / "1"
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(UserError, match="1: cut off"):
        shards[0].join(lambda text: None)


def test_a_process_without_progress_is_lost(
    store: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sharding, "SILENT_SECONDS", 0.2)
    shards = shards_of(store, tmp_path)
    shards[0].finish(5, 123, {})
    with pytest.raises(UserError, match="rank 1 is lost"):
        shards[0].join(pytest.fail)


def test_a_slow_process_that_makes_progress_is_waited_for(
    store: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sharding, "SILENT_SECONDS", 1.0)
    shards = shards_of(store, tmp_path)
    shards[0].finish(5, 123, {})
    for number in range(1, 6):
        threading.Timer(number * 0.4, shards[1].report_progress).start()
    threading.Timer(2.4, shards[1].finish, (5, 123, {})).start()
    written: list[str] = []
    shards[0].join(written.append)
    assert written == CHUNKS


# Folders and failures


def test_the_folder_is_beside_the_output_and_removed_at_the_end(
    store: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So are the folders of earlier runs that were killed; other files stay."""
    monkeypatch.setattr(sharding, "_store_of", lambda world: store)
    leftover = tmp_path / ".out.0123456789ab.shards"
    leftover.mkdir()
    (leftover / "0").write_bytes(b"half")
    other = tmp_path / ".other.0123456789ab.shards"
    other.mkdir()
    with (
        open_shards(world_of(0), tmp_path / "out") as first,
        open_shards(world_of(1), tmp_path / "out") as second,
    ):
        assert first.folder == second.folder
        assert first.folder.parent == tmp_path
        assert {path.name for path in first.folder.iterdir()} == {"0", "1"}
        assert not leftover.exists()
    assert list(tmp_path.iterdir()) == [other]


def test_standard_output_has_its_shards_in_a_temporary_folder(
    store: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sharding, "_store_of", lambda world: store)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with open_shards(world_of(0), None) as shards:
        assert shards.folder.parent == tmp_path
    assert list(tmp_path.iterdir()) == []


def failures_of(store: Any, errors: Sequence[UserError], output: Path) -> list[UserError]:
    """The errors that come out of the processes, which fail one after another."""
    found = []
    for rank, error in enumerate(errors):
        with pytest.raises(UserError) as caught, open_shards(world_of(rank), output):
            raise error
        found.append(caught.value)
    return found


def test_an_error_is_reported_by_the_first_process_that_meets_it(
    store: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sharding, "_store_of", lambda world: store)
    monkeypatch.setattr(sharding, "REPORT_SECONDS", 0.0)
    first, second = failures_of(store, [ConfigError("bad"), UserError("bad")], tmp_path / "out")
    assert (type(first), str(first)) == (ConfigError, "bad")
    assert str(second) == ""


def test_a_lost_connection_to_torchrun_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Lost:
        def add(self, key: str, count: int) -> int:
            raise RuntimeError("Connection reset by peer")

    shards = Shards(world_of(1), Lost(), tmp_path)
    with pytest.raises(UserError, match="rank 1 has lost the connection to torchrun"):
        shards.report_progress()


def test_a_shard_that_cannot_be_written_is_named(store: Any, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="none: cannot write: No such file or directory"):
        Shards(world_of(0), store, tmp_path / "none")
