"""Several ranks at one file.

Every rank reads the same input and cuts it alike. Chunk i is answered by rank i modulo their
number; its finished text goes to rank 0, which writes the texts in order. A rank is at most
``AHEAD`` chunks ahead of what is written. If one fails or is lost, all end, and nothing with a gap
in it becomes a file.
"""

from __future__ import annotations

import atexit
import math
import os
import signal
import sys
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from types import FrameType, TracebackType
from typing import Any

from click.exceptions import Exit

from transformer_suite.core.device import device_of_rank
from transformer_suite.core.distributed.world import World
from transformer_suite.core.errors import ConfigError, UserError
from transformer_suite.tasks.streaming.lines import CHUNK_LINES, Predict, answer_chunk, ignore
from transformer_suite.tasks.streaming.ranks.link import SILENT_SECONDS, Frame, Kind, Link

# How many chunks a rank may have finished that rank 0 has not taken yet.
AHEAD = 2

# In a file of more rounds of full chunks than these, the last round is a small part of the work.
_FEW_ROUNDS = 4

# torchrun's signal may overtake the news of why it came. The others wait longer for rank 0 to end
# than rank 0 does for the news, or it would take their end for the cause.
_NEWS_SECONDS, _END_SECONDS = 2.0, 10.0

_TERMINATED = 128 + signal.SIGTERM
_IS_LOST = "is lost: its process has ended, or its machine cannot be reached; start again"


class Stopped(BaseException):
    """Raised in the main thread, once, when the work must end: by a signal or from another rank."""


@contextmanager
def rank_of(world: World) -> Iterator[FirstRank | OtherRank]:
    """This process's part, inside a gloo group of all of ``world``."""
    try:
        with FirstRank(world) if world.is_main else OtherRank(world) as rank:
            yield rank
    except Stopped as stop:  # just before the end of the body, or just after
        raise Exit(_TERMINATED) from stop


class _Rank:
    """What all ranks do alike."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._is_stopping = False
        self._handlers: dict[signal.Signals, Any] = {}

    @property
    def is_main(self) -> bool:
        return self.world.is_main

    def chunk_lines(self, total: int | None) -> int:
        if total is None:
            raise ConfigError("several processes must all read the input: it must be a plain file")
        rounds = math.ceil(total / (CHUNK_LINES * self.world.size))
        if rounds > _FEW_ROUNDS:
            return CHUNK_LINES
        # Smaller ones, so that every rank has work, and equally much of it.
        return max(1, math.ceil(total / (max(1, rounds) * self.world.size)))

    def device(self, name: str) -> str:
        return device_of_rank(name, self.world.local_rank)

    def _catch_signals(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._handlers[number] = signal.signal(number, self._on_signal)

    def _release_signals(self) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        # Once: when a rank ends, torchrun signals the others, which may be tidying up already.
        if not self._is_stopping:
            self._is_stopping = True
            raise KeyboardInterrupt if number == signal.SIGINT else Stopped

    def _stop_main_thread(self) -> None:
        if not self._is_stopping:
            main = threading.main_thread().ident
            assert main is not None
            signal.pthread_kill(main, signal.SIGTERM)


class FirstRank(_Rank):
    """Rank 0: answers its own chunks, and writes them and the others' in order."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        others = range(1, world.size)
        self._frames: dict[int, SimpleQueue[Frame]] = {rank: SimpleQueue() for rank in others}
        self._links = {rank: Link(rank, self._on_frame, self._on_loss) for rank in others}
        self._naming = threading.Lock()
        self._lost: int | None = None
        self._has_lost = threading.Event()

    def __enter__(self) -> FirstRank:
        self._catch_signals()
        for link in self._links.values():
            link.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_stopping = True
        ending = self._why_stopped() if isinstance(error, Stopped) else error
        for link in self._links.values():
            link.send(Frame(Kind.GOODBYE, exit_code(ending)))
        close([*self._links.values()], exit_code(ending))
        if ending is None:
            self._release_signals()
        elif ending is not error:
            raise ending from error

    def answer(
        self,
        chunks: Iterable[Sequence[str]],
        predict: Predict,
        show: Callable[[str, Any], Iterable[str]],
        write: Callable[[str], object],
        *,
        on_lines: Callable[[int], None] = ignore,
    ) -> None:
        done = 0
        for number, chunk in enumerate(chunks):
            rank = number % self.world.size
            if rank == self.world.rank:
                write(answer_chunk(chunk, predict, show, first=done, on_lines=on_lines))
            else:
                frame = Frame(Kind.RESULT, checksum(chunk))
                write(self._take(rank, frame, done).decode())
                self._links[rank].send(Frame(Kind.NEXT))
                on_lines(len(chunk))
            done += len(chunk)
        for rank in self._links:
            self._take(rank, Frame(Kind.END), done)

    def _take(self, rank: int, expected: Frame, done: int) -> bytes:
        """The content of the next frame from ``rank``, which must otherwise be as ``expected``.

        Args:
            done: the number of lines before those that it is about.

        Raises:
            UserError: the rank has failed, or has not read these lines.
        """
        kind, number, content = self._frames[rank].get()
        if kind == Kind.FAILURE:
            raise UserError(f"rank {rank}: {content.decode()}")
        if (kind, number) != (expected.kind, expected.number):
            raise UserError(
                f"rank {rank} and rank 0 read different lines after line {done:,} of the input, "
                "which must be the same file for all"
            )
        return content

    def _on_frame(self, rank: int, frame: Frame) -> bool:
        self._frames[rank].put(frame)
        return frame.kind != Kind.END

    def _on_loss(self, rank: int) -> None:
        with self._naming:
            if self._lost is None:
                self._lost = rank
                self._has_lost.set()
        self._stop_main_thread()

    def _why_stopped(self) -> BaseException:
        if self._has_lost.wait(_NEWS_SECONDS):
            return UserError(f"rank {self._lost} {_IS_LOST}")
        return Exit(_TERMINATED)


class OtherRank(_Rank):
    """Any but rank 0: answers its own chunks, and leaves all writing and talking to rank 0."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._link = Link(0, self._on_frame, self._on_loss)
        self._credit = threading.Semaphore(AHEAD)
        self._is_done = False
        self._code: int | None = None  # what rank 0 ends with, once it has said so
        self._is_over = threading.Event()

    def __enter__(self) -> OtherRank:
        self._catch_signals()
        self._link.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            try:
                self._is_over.wait()
                self._is_stopping = True
            except (Stopped, KeyboardInterrupt) as stop:
                error = stop
        self._is_stopping = True
        if error is None and self._code == 0:
            close([self._link], 0)
            self._release_signals()
            return
        is_failure = isinstance(error, Exception) and not isinstance(error, Exit)
        if is_failure:
            name = "" if isinstance(error, UserError) else f"{type(error).__name__}: "
            self._link.send(Frame(Kind.FAILURE, content=f"{name}{error}".encode(errors="replace")))
        # Rank 0 ends first, or torchrun would take this rank's end for the cause, and stop it.
        self._is_over.wait(None if is_failure else _END_SECONDS)
        is_bug = is_failure and not isinstance(error, UserError)
        ending = error if is_bug else self._ending(error)
        close([self._link], exit_code(ending))
        if ending is not None and ending is not error:
            raise ending from error

    def answer(
        self,
        chunks: Iterable[Sequence[str]],
        predict: Predict,
        show: Callable[[str, Any], Iterable[str]],
        write: Callable[[str], object],
        *,
        on_lines: Callable[[int], None] = ignore,
    ) -> None:
        done = 0
        for number, chunk in enumerate(chunks):
            if number % self.world.size == self.world.rank:
                text = answer_chunk(chunk, predict, show, first=done)
                self._credit.acquire()
                self._link.send(Frame(Kind.RESULT, checksum(chunk), text.encode()))
            done += len(chunk)
        self._is_done = True
        self._link.send(Frame(Kind.END))
        self._link.hang_up()

    def _ending(self, error: BaseException | None) -> BaseException | None:
        """Ends as rank 0 does; says why itself only where rank 0 cannot."""
        if self._code is not None:
            return Exit(self._code)
        if isinstance(error, UserError):
            return UserError(f"rank {self.world.rank}: {error}")
        if self._is_over.is_set():
            return UserError(f"rank {self.world.rank}: rank 0 {_IS_LOST}")
        return Exit(_TERMINATED) if isinstance(error, Stopped) else error

    def _on_frame(self, rank: int, frame: Frame) -> bool:
        if frame.kind == Kind.NEXT:
            self._credit.release()
            return True
        self._code = frame.number
        if not self._is_done:
            self._link.send(Frame(Kind.END))
            self._link.hang_up()
            self._stop_main_thread()
        if self._code == 0:
            self._is_over.set()
        return self._code != 0  # rank 0 has still to say why: its end is to be waited for

    def _on_loss(self, rank: int) -> None:
        self._is_over.set()
        self._stop_main_thread()


def close(links: Sequence[Link], code: int) -> None:
    """Waits for ``links`` to close. If one does not, the program will still end with ``code``.

    A thread that comes back from gloo while the interpreter ends would abort the process.
    """
    for link in links:
        link.hang_up()
    # After success all are there, though one may be slow to take the goodbye.
    seconds = SILENT_SECONDS if code == 0 else _END_SECONDS
    if not all(link.is_closed(seconds) for link in links):
        atexit.register(_leave, code)


def _leave(code: int) -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(code)


def checksum(lines: Sequence[str]) -> int:
    """Tells apart what two ranks have read."""
    return zlib.crc32("\n".join(lines).encode())


def exit_code(ending: BaseException | None) -> int:
    """What the program ends with."""
    if ending is None:
        return 0
    if isinstance(ending, Exit):
        return ending.exit_code
    if isinstance(ending, KeyboardInterrupt):
        return 130
    return 2 if isinstance(ending, ConfigError) else 1
