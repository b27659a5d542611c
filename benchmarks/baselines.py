"""Contestants of a benchmark: the program and its baselines, each in a process of its own.

They take turns; a process is stopped while it waits. In one process, they would share freed memory,
and the threads of one library would disturb the others: they wait for work in a busy loop.
"""

from __future__ import annotations

import atexit
import os
import resource
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any


class Contestant:
    """A function in a process of its own, whose calls are timed.

    Args:
        name: its name in the table.
        make: returns the function when it is called in that process with ``arguments``.

    Attributes:
        cpu_seconds: of the last call, in all threads of that process.
        megabytes: the peak memory of that process so far.
    """

    cpu_seconds = megabytes = 0.0

    def __init__(
        self, name: str, make: Callable[..., Callable[[Any], Any]], *arguments: Any
    ) -> None:
        self.name = name
        context = get_context("spawn")
        self._connection, other = context.Pipe()
        process = context.Process(target=_serve, args=(other, make, arguments), daemon=True)
        process.start()
        assert process.pid is not None
        self._pid = process.pid
        atexit.register(self.end)  # before multiprocessing waits for the process
        self._connection.recv()
        os.kill(self._pid, signal.SIGSTOP)

    def call(self, items: Sequence[Any]) -> tuple[list[float], list[Any]]:
        """Returns the seconds and the results of the function for each of ``items``."""
        os.kill(self._pid, signal.SIGCONT)
        try:
            self._connection.send(items)
            *found, self.cpu_seconds, self.megabytes = self._connection.recv()
            return found[0], found[1]
        finally:
            os.kill(self._pid, signal.SIGSTOP)

    def end(self) -> None:
        """Ends the process, which cannot end by itself while it is stopped."""
        atexit.unregister(self.end)
        os.kill(self._pid, signal.SIGKILL)


def _serve(
    connection: Connection, make: Callable[..., Callable[[Any], Any]], arguments: Any
) -> None:
    function = make(*arguments)
    connection.send(None)
    with suppress(EOFError):  # the parent has ended
        while True:
            seconds, results = [], []
            items, cpu_start = connection.recv(), time.process_time()
            for item in items:
                started = time.perf_counter()
                results.append(function(item))
                seconds.append(time.perf_counter() - started)
            used = time.process_time() - cpu_start
            megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            connection.send((seconds, results, used, megabytes))
