"""Who computes when: the requests that wait for a model take turns of about a second.

Requests that are estimated to be short are computed together, a long one alone, and these two kinds
take turns. Within a kind, the client whose last turn is longest ago is next. A request that has
used up its turn stops in the middle of its search, keeps what it has found, and goes on in its next
turn. So a short request waits for one turn, whatever the others ask for, and every request gets
what it would have got alone.
"""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from threading import Condition
from typing import Any

import torch

from core.errors import UserError
from tasks.web.errors import RequestError, internal_error, log_failure, request_error, stopping
from tasks.web.metrics import Metrics

TURN_SECONDS = 1.0
TURN_COST = 20_000
"""The cost of what is computed in a turn: rows of a search times characters of its outputs."""

_CLIENT_SHARE = 4  # a client may fill this part of the queue
_MAX_BEGUN = 8  # long requests at a time: their searches stay in memory
_ITEM_LENGTH = 10  # what an item costs besides its characters


class Stopped(Exception):
    """Nobody waits for what is being computed."""


@dataclass(frozen=True)
class Work:
    """What is computed for the items of a request. Requests of equal work are computed together.

    ``function`` gets the ``arguments``, the items, the number of each item in its own request, and
    a function that it must call often: that waits for the next turn, and raises an exception when
    the results are no longer wanted. It returns a result for each item. A character costs ``rate``.
    """

    function: Callable[..., Sequence[Any]]
    arguments: tuple[Any, ...]
    rate: float


@dataclass(eq=False)
class Job:
    """The request of a client for a model. Its future gets a result for each item."""

    work: Work
    items: Sequence[Any]
    client: str
    max_seconds: float
    future: Future[list[Any]] = field(default_factory=Future)

    def __post_init__(self) -> None:
        lengths = (len("".join(item)) + _ITEM_LENGTH for item in self.items)
        self.cost = self.work.rate * sum(lengths)
        self.is_short = self.cost <= TURN_COST

    def fail(self, error: Exception) -> None:
        """Ends the job with an error."""
        with suppress(InvalidStateError):  # the client has just left
            self.future.set_exception(error)


@dataclass(eq=False)
class Batch:
    """Jobs of equal work that are computed together, in one turn or several."""

    jobs: Sequence[Job]
    seconds: float = 0.0  # of its turns so far

    @property
    def client(self) -> str:
        """The client whose turn it is."""
        return self.jobs[0].client

    def is_unwanted(self, seconds: float) -> bool:
        """Returns whether no job may go on: of ``seconds`` each has a part, by its cost."""
        cost = sum(job.cost for job in self.jobs)
        return all(
            job.future.done() or seconds * job.cost > job.max_seconds * cost for job in self.jobs
        )


class Scheduler:
    """The requests that wait for one model, ``capacity`` at most, and threads that compute them.

    A thread has a batch, and computes while it is the turn of that batch; only scores and classes
    that other cores have begun to compute go on.
    """

    def __init__(self, name: str, *, capacity: int, metrics: Metrics) -> None:
        self.name = name
        self.capacity = capacity
        self._metrics = metrics
        self._waiting: list[Job] = []
        self._begun: list[Batch] = []  # without the one whose turn it is
        self._turn: Batch | None = None
        self._start = 0.0  # of the turn
        self._is_short = False  # the turn
        self._last_turns: dict[str, int] = {}  # the number of the last turn of each client
        self._condition = Condition()
        self._is_closed = False
        # A thread takes its number of cores from a setting that computations lower for moments.
        cores = torch.get_num_threads()
        self._threads = ThreadPoolExecutor(
            2 * _MAX_BEGUN, f"model {name}", torch.set_num_threads, (cores,)
        )
        metrics.queue.labels(name).set_function(lambda: len(self._waiting))

    def put(self, job: Job) -> None:
        """Adds a request to those that wait.

        Raises:
            RequestError: too many wait, of this client (429) or of all; or the service ends (503).
        """
        with self._condition:
            if self._is_closed:
                raise stopping()
            self._waiting = [each for each in self._waiting if not each.future.done()]
            if len(self._waiting) >= self.capacity:
                message = "the service is busy: try again in a few seconds"
                raise RequestError(503, message, Retry_After="5")
            own = sum(each.client == job.client for each in self._waiting)
            if own >= max(1, self.capacity // _CLIENT_SHARE):
                message = f"{own} requests of this client are waiting: wait for their answers"
                raise RequestError(429, message, Retry_After="5")
            self._waiting.append(job)
            if self._turn is None:
                self._next_turn()

    def close(self) -> None:
        """Fails what waits, stops what is being computed, and ends the threads."""
        with self._condition:
            self._is_closed = True
            waiting, self._waiting = self._waiting, []
            self._condition.notify_all()
        for job in waiting:
            job.fail(stopping())
        self._threads.shutdown()

    def _next_turn(self) -> None:
        """Decides whose turn it is; the lock is held."""
        ranks: Counter[str] = Counter()

        def place(job: Job) -> tuple[int, int]:
            """The first requests of all clients come before their second ones."""
            ranks[job.client] += 1
            return ranks[job.client], self._last_turns.get(job.client, 0)

        waiting = sorted((job for job in self._waiting if not job.future.done()), key=place)
        short, long = [job for job in waiting if job.is_short], self._begun.copy()
        if len(self._begun) < _MAX_BEGUN:
            clients = {batch.client for batch in self._begun}
            others = (job for job in waiting if not job.is_short and job.client not in clients)
            long += (Batch([job]) for job in others)
        elif len(self._begun) == 2 * _MAX_BEGUN:  # some that seemed short were not
            short = []
        self._is_short = bool(short) and not (long and self._is_short)
        if self._is_short:
            self._turn = Batch(_together(short))
        elif long:
            self._turn = min(long, key=lambda batch: self._last_turns.get(batch.client, 0))
        else:
            self._turn = None
            self._last_turns.clear()
            return
        self._start = time.monotonic()
        number = max(self._last_turns.values(), default=0) + 1
        self._last_turns |= dict.fromkeys((job.client for job in self._turn.jobs), number)
        self._waiting = [job for job in waiting if job not in self._turn.jobs]
        if self._turn in self._begun:
            self._begun.remove(self._turn)
            self._condition.notify_all()
        else:
            self._threads.submit(self._compute, self._turn)

    def _check(self, batch: Batch) -> None:
        """Waits for the next turn of a batch if this one is over; see :class:`Work`."""
        with self._condition:
            if self._turn is batch and self._elapsed() > TURN_SECONDS:
                batch.seconds += self._elapsed()
                self._begun.append(batch)
                self._next_turn()
            self._condition.wait_for(lambda: self._turn is batch or self._is_closed)
            if self._is_closed or batch.is_unwanted(batch.seconds + self._elapsed()):
                raise Stopped

    def _elapsed(self) -> float:
        """Returns the seconds of the turn so far."""
        return time.monotonic() - self._start

    def _compute(self, batch: Batch) -> None:
        """Computes a batch in its turns, then gives the turn to the next one."""
        try:
            self._answer(batch.jobs, partial(self._check, batch))
        finally:
            with self._condition:
                count = sum(len(job.items) for job in batch.jobs)
                self._metrics.batches.labels(self.name).observe(count)
                self._metrics.seconds.labels(self.name).inc(batch.seconds + self._elapsed())
                self._next_turn()

    def _answer(self, jobs: Sequence[Job], check: Callable[[], None]) -> None:
        work = jobs[0].work
        items = [item for job in jobs for item in job.items]
        numbers = [number for job in jobs for number in range(len(job.items))]
        try:
            results = iter(work.function(*work.arguments, items, numbers, check))
        except Exception as error:
            if len(jobs) > 1 and not isinstance(error, Stopped):
                # One of them is to blame: the others must not suffer from it.
                for job in jobs:
                    self._answer([job], check)
                return
            for job in jobs:
                job.fail(self._reason(error, job))
            return
        for job in jobs:
            with suppress(InvalidStateError):  # the client has just left
                job.future.set_result([*islice(results, len(job.items))])

    def _reason(self, error: Exception, job: Job) -> Exception:
        match error:
            case Stopped() if self._is_closed:
                return stopping()
            case Stopped():
                message = (
                    f"more than {job.max_seconds:g} s of computing: send less text, or use a "
                    "smaller beam"
                )
                return RequestError(413, message, field="texts")
            case RequestError():
                return error
            case UserError():
                return request_error(error)
        log_failure(f"model {self.name}", error)
        return internal_error()


def _together(jobs: Sequence[Job]) -> list[Job]:
    """Returns the first job, and the others of equal work that fit into its turn."""
    cost, chosen = 0.0, list[Job]()
    for job in jobs:
        if not chosen or (job.work == chosen[0].work and cost + job.cost <= TURN_COST):
            chosen.append(job)
            cost += job.cost
    return chosen
