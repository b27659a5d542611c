"""Dynamic batching: the requests that wait for a model are computed together.

Each model has one thread. It takes parts of waiting requests that can be computed together, up to
a total length, and puts the unfinished requests at the end of the queue. So a long request does not
keep short ones waiting, and every request gets what it would have got alone.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass
from threading import Condition, Thread
from typing import Any, Protocol

import torch

from core.errors import UserError
from tasks.web.errors import RequestError, internal_error, request_error
from tasks.web.metrics import Metrics

# The characters that are computed together: enough to keep a processor busy for about a second.
_BATCH_LENGTH = 4000
_BATCH_ITEMS = 128
# What an item costs besides its length.
_ITEM_LENGTH = 10


class Work(Protocol):
    """What is computed for every item of a request. Requests of equal work share batches."""

    def __call__(
        self, items: Sequence[Any], numbers: Sequence[int], check: Callable[[], None], /
    ) -> Sequence[Any]:
        """Returns a result for each item.

        Args:
            numbers: the number of each item in its own request.
            check: is called often, and raises an exception when the work is no longer wanted.
        """


class Stopped(Exception):
    """Nobody waits for the batch that is being computed."""


class Job:
    """One request for a model: its items and, as far as they are computed, their results.

    Args:
        lengths: of the items, in characters.
        max_seconds: the most computing time.
    """

    def __init__(
        self, work: Work, items: Sequence[Any], lengths: Sequence[int], *, max_seconds: float
    ) -> None:
        self.work = work
        self.items = items
        self.lengths = [length + _ITEM_LENGTH for length in lengths]
        self.max_seconds = max_seconds
        self.seconds = 0.0
        self.results: list[Any] = []
        self.future: Future[list[Any]] = Future()
        if not items:
            self.future.set_result([])

    def is_over(self, seconds: float = 0.0) -> bool:
        """Returns whether no more should be computed, after ``seconds`` in the present batch."""
        return self.future.done() or self.seconds + seconds > self.max_seconds

    def add(self, results: Sequence[Any], seconds: float) -> None:
        """Stores the results of the next items. The last ones finish the job."""
        self.seconds += seconds
        self.results += results
        if len(self.results) == len(self.items):
            with suppress(InvalidStateError):  # the client has just left
                self.future.set_result(self.results)
        elif self.is_over():
            self.fail(too_slow(self.max_seconds))

    def fail(self, error: BaseException) -> None:
        """Finishes the job with an error."""
        with suppress(InvalidStateError):
            self.future.set_exception(error)


@dataclass(frozen=True)
class Part:
    """The items of a job, from its first unfinished one on, that are in a batch."""

    job: Job
    count: int

    @property
    def span(self) -> range:
        """The numbers of the items."""
        start = len(self.job.results)
        return range(start, start + self.count)

    @property
    def length(self) -> int:
        """The total length of the items."""
        return sum(self.job.lengths[number] for number in self.span)


class BatchQueue:
    """The requests that wait for one model, and the thread that computes them.

    Args:
        capacity: the most requests that wait.
    """

    def __init__(self, name: str, *, capacity: int, metrics: Metrics) -> None:
        self.name = name
        self.capacity = capacity
        self._metrics = metrics
        self._waiting: deque[Job] = deque()
        self._condition = Condition()
        self._is_closed = False
        self._thread = Thread(target=self._run, name=f"model {name}", daemon=True)
        self._thread.start()
        metrics.watch_queue(name, lambda: len(self._waiting))

    def put(self, job: Job) -> None:
        """Adds a job to the queue.

        Raises:
            RequestError: the queue is full or closed (503).
        """
        with self._condition:
            # Jobs whose clients have left make room.
            if len(self._waiting) >= self.capacity:
                self._waiting = deque(job for job in self._waiting if not job.is_over())
            if self._is_closed or len(self._waiting) >= self.capacity:
                message = "the service is busy: try again in a few seconds"
                raise RequestError(503, message, Retry_After="5")
            self._waiting.append(job)
            self._condition.notify()

    def close(self) -> None:
        """Fails what waits, stops what is being computed, and ends the thread."""
        with self._condition:
            self._is_closed = True
            self._condition.notify()
        self._thread.join(timeout=10)

    def _run(self) -> None:
        # A thread takes its number of cores from the setting at its first use of torch, which other
        # models' threads lower for moments while they compute.
        torch.get_num_threads()
        while True:
            with self._condition:
                self._condition.wait_for(lambda: self._waiting or self._is_closed)
                if self._is_closed:
                    break
                batch = self._take_batch()
            if batch:
                self._compute(batch)
                with self._condition:
                    self._waiting.extend(part.job for part in batch if not part.job.is_over())
        for job in self._waiting:
            job.fail(stopping())

    def _take_batch(self) -> list[Part]:
        """Takes jobs of equal work out of the queue, the first one and others while they fit."""
        batch: list[Part] = []
        others: deque[Job] = deque()
        length, count = _BATCH_LENGTH, _BATCH_ITEMS
        for job in self._waiting:
            if job.is_over():
                continue
            fitting = 0
            if not batch or job.work == batch[0].job.work:
                for size in job.lengths[len(job.results) :]:
                    is_first = not batch and not fitting  # even if it is too long
                    if count == 0 or (size > length and not is_first):
                        break
                    fitting, length, count = fitting + 1, length - size, count - 1
            if fitting:
                batch.append(Part(job, fitting))
            else:
                others.append(job)
        self._waiting = others
        return batch

    def _compute(self, batch: Sequence[Part]) -> None:
        """Computes a batch and gives the results, or errors, to its jobs."""
        total = sum(part.length for part in batch)
        shares = [part.length / total for part in batch]
        items = [part.job.items[number] for part in batch for number in part.span]
        numbers = [number for part in batch for number in part.span]
        start = time.monotonic()

        def check() -> None:
            seconds = time.monotonic() - start
            over = (
                part.job.is_over(seconds * share) for part, share in zip(batch, shares, strict=True)
            )
            if self._is_closed or all(over):
                raise Stopped

        try:
            results = batch[0].job.work(items, numbers, check)
        except Exception as error:
            if len(batch) > 1 and not isinstance(error, Stopped):
                # One of them is to blame: the others must not suffer from it.
                for part in batch:
                    self._compute([part])
                return
            for part in batch:
                part.job.fail(self._reason(error, part.job))
            return
        finally:
            seconds = time.monotonic() - start
            self._metrics.batch(self.name, len(items), seconds)
        position = 0
        for part, share in zip(batch, shares, strict=True):
            part.job.add(results[position : position + part.count], seconds * share)
            position += part.count

    def _reason(self, error: Exception, job: Job) -> Exception:
        match error:
            case Stopped():
                return stopping() if self._is_closed else too_slow(job.max_seconds)
            case RequestError():
                return error
            case UserError():
                return request_error(error)
        log_failure(f"model {self.name}", error)
        return internal_error()


def too_slow(seconds: float) -> RequestError:
    """Returns the error of a request that needs too much computing time."""
    message = f"more than {seconds:g} s of computing: send less text, or use a smaller beam"
    return RequestError(413, message, field="texts")


def stopping() -> RequestError:
    """Returns the error of requests that a service cannot answer before it ends."""
    return RequestError(503, "the service is stopping", Retry_After="30")


def log_failure(place: str, error: BaseException) -> None:
    """Writes one line about a bug to stderr. Messages may hold texts, so the line has none."""
    trace = error.__traceback__
    where = ""
    while trace is not None:
        where = f" at {trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
        trace = trace.tb_next
    print(f"internal error in {place}: {type(error).__name__}{where}", file=sys.stderr)
