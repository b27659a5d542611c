"""Signals that stop a run after the current step."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from core.distributed.process_group import ProcessGroup
from core.progress import log


@contextmanager
def stop_requests(group: ProcessGroup) -> Iterator[Callable[[], bool]]:
    """Turns the first SIGINT or SIGTERM to any process into a request to all of them.

    In a single process, a second signal has its usual effect. Several processes ignore it: each may
    get the same signal from the scheduler and again from torchrun, which later sends SIGKILL.

    Yields:
        A function that returns whether the run shall stop.
    """
    received: list[int] = []
    previous: dict[int, Any] = {}

    def request_stop(number: int, frame: Any) -> None:
        received.append(number)
        line = "stopping as soon as this step is saved"
        if group.size == 1:
            signal.signal(number, previous[number])
            line += "; once more to stop at once"
        elif len(received) > 1:
            return
        # The signal may have interrupted the writing of another line to stderr.
        with suppress(RuntimeError):
            log(line)

    try:
        for wanted in (signal.SIGINT, signal.SIGTERM):
            previous[wanted] = signal.signal(wanted, request_stop)
    except ValueError:  # not the main thread, which alone gets signals
        pass
    try:
        yield lambda: group.any(bool(received))
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
