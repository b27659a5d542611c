"""Several ranks at one file, each on its own: what they take, send, and make of what they hear."""

import math
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.exceptions import Exit
from hypothesis import given
from hypothesis import strategies as st

from transformer_suite.core.distributed.world import World
from transformer_suite.core.errors import ConfigError, UserError
from transformer_suite.tasks.streaming.lines import CHUNK_LINES
from transformer_suite.tasks.streaming.ranks import several
from transformer_suite.tasks.streaming.ranks.joined import SingleProcess, joined
from transformer_suite.tasks.streaming.ranks.link import Frame, Kind
from transformer_suite.tasks.streaming.ranks.several import (
    AHEAD,
    FirstRank,
    OtherRank,
    Stopped,
    checksum,
    exit_code,
)

ROOT = Path(__file__).resolve().parents[3]


class FakeLink:
    """Keeps what is sent; the test plays the other side."""

    def __init__(
        self, peer: int, on_frame: Callable[[int, Frame], bool], on_loss: Callable[[int], None]
    ) -> None:
        self.peer, self.on_frame, self.on_loss = peer, on_frame, on_loss
        self.sent: list[Frame] = []

    def start(self) -> None:
        pass

    def send(self, frame: Frame) -> None:
        self.sent.append(frame)

    def hang_up(self) -> None:
        pass

    def is_closed(self, seconds: float) -> bool:
        return True


@pytest.fixture
def _fake_links(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """And signals as they were, which a rank that fails leaves caught."""
    monkeypatch.setattr(several, "Link", FakeLink)
    monkeypatch.setattr(several, "_END_SECONDS", 0.01)
    monkeypatch.setattr(several, "_NEWS_SECONDS", 0.01)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


fake_links = pytest.mark.usefixtures("_fake_links")


def first_of(size: int) -> FirstRank:
    return FirstRank(World(rank=0, size=size, local_rank=0))


def other() -> tuple[OtherRank, Any]:
    rank = OtherRank(World(rank=1, size=2, local_rank=1))
    return rank, rank._link


def shout(
    texts: Sequence[str], *, numbers: Sequence[int], on_batch: Callable[[int], None]
) -> list[str]:
    return [f"{number} {text.upper()}" for number, text in zip(numbers, texts, strict=True)]


def second(text: str, result: str) -> list[str]:
    return [result]


# One process


def test_a_process_on_its_own_loads_nothing_of_all_this() -> None:
    program = (
        "import sys, cli\n"
        "from transformer_suite.tasks.streaming.ranks.joined import joined\n"
        "with joined(): print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert "tasks.streaming.ranks.joined" in loaded
    assert not loaded & {"torch", "tasks.streaming.ranks.several", "tasks.streaming.ranks.link"}


def test_a_world_of_one_is_a_process_on_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {"RANK": 0, "WORLD_SIZE": 1, "LOCAL_RANK": 0, "MASTER_ADDR": "a", "MASTER_PORT": 1}
    for name, value in values.items():
        monkeypatch.setenv(name, str(value))
    with joined() as ranks:
        assert isinstance(ranks, SingleProcess)
        assert ranks.is_main
        assert ranks.chunk_lines(7) == CHUNK_LINES
        assert ranks.device("auto") == "auto"


# Chunks


@given(total=st.integers(1, 60_000), size=st.integers(2, 9))
def test_all_ranks_have_work_and_about_equally_much(total: int, size: int) -> None:
    lines = first_of(size).chunk_lines(total)
    assert 1 <= lines <= CHUNK_LINES
    chunks = math.ceil(total / lines)
    if total > 4 * size * CHUNK_LINES:
        assert lines == CHUNK_LINES  # as one process has them
    else:
        # In every round but the last all have a chunk; there are no more rounds than it takes.
        assert math.ceil(chunks / size) == math.ceil(total / (size * CHUNK_LINES))
        # The busiest rank has at most a chunk's rounding more than its share.
        assert math.ceil(chunks / size) * lines <= total / size + math.ceil(chunks / size)


def test_an_empty_file_is_no_division_by_zero() -> None:
    assert first_of(3).chunk_lines(0) == 1


def test_what_cannot_be_counted_cannot_be_read_by_all() -> None:
    with pytest.raises(ConfigError, match="must be a plain file"):
        first_of(2).chunk_lines(None)


# Rank 0


@fake_links
def test_texts_are_written_in_the_order_of_the_chunks() -> None:
    chunks = [["a"], ["b", "bb"], ["c"], ["d"], ["e"]]
    written: list[str] = []
    finished: list[int] = []
    with first_of(3) as rank:
        for other, numbers in ((1, (1, 4)), (2, (2,))):
            for i in numbers:
                text = "".join(f"{line} of {other}\n" for line in chunks[i])
                rank._on_frame(other, Frame(Kind.RESULT, checksum(chunks[i]), text.encode()))
            assert not rank._on_frame(other, Frame(Kind.END))
        rank.answer(chunks, shout, second, written.append, on_lines=finished.append)
        links: Any = rank._links
    expected = "0 A\n|b of 1\nbb of 1\n|c of 2\n|4 D\n|e of 1\n"
    assert "|".join(written) == expected
    assert sum(finished) == 6
    assert [frame.kind for frame in links[1].sent] == [Kind.NEXT, Kind.NEXT, Kind.GOODBYE]
    assert [frame.kind for frame in links[2].sent] == [Kind.NEXT, Kind.GOODBYE]
    assert links[1].sent[-1].number == 0


@fake_links
@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (Frame(Kind.RESULT, checksum(["c"]), b"C\n"), "rank 1 and rank 0 read different lines"),
        (Frame(Kind.END), "rank 1 and rank 0 read different lines after line 1 of"),
        (Frame(Kind.FAILURE, 0, b"in:7: not valid"), "rank 1: in:7: not valid"),
    ],
)
def test_a_rank_without_the_right_lines_ends_all(frame: Frame, message: str) -> None:
    written: list[str] = []
    rank = first_of(3)
    with pytest.raises(UserError, match=message), rank:
        rank._on_frame(1, frame)
        rank.answer([["a"], ["b"], ["c"]], shout, second, written.append)
    links: Any = rank._links
    assert written == ["0 A\n"]
    assert all(links[i].sent[-1] == Frame(Kind.GOODBYE, 1) for i in (1, 2))


@fake_links
def test_a_rank_that_goes_on_after_the_end_ends_all() -> None:
    rank = first_of(2)
    with pytest.raises(UserError, match="read different lines after line 1 of"), rank:
        rank._on_frame(1, Frame(Kind.RESULT, checksum(["b"]), b"B\n"))
        rank.answer([["a"]], shout, second, lambda text: None)


@fake_links
def test_a_loss_interrupts_whatever_rank_0_does() -> None:
    rank = first_of(3)
    with pytest.raises(UserError, match="rank 2 is lost"), rank:
        threading.Timer(0.05, lambda: [rank._on_loss(2), rank._on_loss(1)]).start()
        time.sleep(20)


@fake_links
def test_a_signal_that_no_loss_explains_is_the_users() -> None:
    rank = first_of(2)
    with pytest.raises(Exit) as ending, rank:
        signal.raise_signal(signal.SIGTERM)
    assert ending.value.exit_code == 143


@fake_links
def test_signals_come_once_and_are_given_back() -> None:
    """torchrun sends one more while the first is being dealt with."""
    before = signal.getsignal(signal.SIGTERM)
    with first_of(2):
        with pytest.raises(Stopped):
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGTERM) == before


# The other ranks


@fake_links
def test_a_rank_takes_its_own_chunks_and_waits_for_rank_0() -> None:
    rank, link = other()
    chunks = [[f"line {i}", ""] for i in range(11)]
    worker = threading.Thread(
        target=rank.answer, args=(chunks, shout, second, pytest.fail), daemon=True
    )
    worker.start()
    for taken in range(3):
        deadline = time.monotonic() + 60
        while len(link.sent) < taken + AHEAD and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.05)  # in which nothing more must come
        assert len(link.sent) == taken + AHEAD
        link.on_frame(0, Frame(Kind.NEXT))
    worker.join(60)
    assert [frame.content.decode() for frame in link.sent] == [
        *(f"{2 * i} LINE {i}\n{2 * i + 1} \n" for i in (1, 3, 5, 7, 9)),
        "",
    ]
    assert [frame.number for frame in link.sent[:-1]] == [checksum(c) for c in chunks[1::2]]
    assert link.sent[-1] == Frame(Kind.END)


@fake_links
@pytest.mark.parametrize("code", [0, 1, 2, 130])
def test_a_rank_ends_as_rank_0_does(code: int) -> None:
    rank, link = other()
    with pytest.raises(Exit) as ending, rank:
        threading.Timer(0.05, link.on_frame, (0, Frame(Kind.GOODBYE, code))).start()
        time.sleep(20)
    assert ending.value.exit_code == code
    assert link.sent == [Frame(Kind.END)]


@fake_links
def test_a_rank_that_is_done_waits_for_the_goodbye() -> None:
    rank, link = other()
    with rank:
        rank.answer([["a"]], shout, second, pytest.fail)
        threading.Timer(0.05, link.on_frame, (0, Frame(Kind.GOODBYE, 0))).start()
    assert link.sent == [Frame(Kind.END)]


@fake_links
def test_a_failure_is_left_to_rank_0_to_report() -> None:
    rank, link = other()
    with pytest.raises(Exit) as ending, rank:
        threading.Timer(
            0.05, lambda: [link.on_frame(0, Frame(Kind.GOODBYE, 1)), link.on_loss(0)]
        ).start()
        raise UserError("in:7: not valid")
    assert ending.value.exit_code == 1
    assert link.sent[0] == Frame(Kind.FAILURE, 0, b"in:7: not valid")


@fake_links
def test_a_fault_of_ours_shows_where_it_is() -> None:
    rank, link = other()
    with pytest.raises(ZeroDivisionError), rank:
        threading.Timer(
            0.05, lambda: [link.on_frame(0, Frame(Kind.GOODBYE, 1)), link.on_loss(0)]
        ).start()
        raise ZeroDivisionError("division by zero")
    assert link.sent[0].content == b"ZeroDivisionError: division by zero"


@fake_links
def test_the_loss_of_rank_0_is_said() -> None:
    rank, link = other()
    with pytest.raises(UserError, match="rank 1: rank 0 is lost"), rank:
        threading.Timer(0.05, link.on_loss, (0,)).start()
        time.sleep(20)
    rank, link = other()
    with pytest.raises(UserError, match="rank 1: in:7"), rank:
        threading.Timer(0.05, link.on_loss, (0,)).start()
        raise UserError("in:7: not valid")


def test_exit_codes() -> None:
    endings = [
        None,
        Exit(0),
        Exit(143),
        KeyboardInterrupt(),
        ConfigError(),
        UserError(),
        KeyError(),
    ]
    assert [exit_code(ending) for ending in endings] == [0, 0, 143, 130, 2, 1, 1]
