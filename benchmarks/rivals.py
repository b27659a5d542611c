"""Rivals that take turns, each in a process of its own, which stands still while it waits.

In one process they would share what the C library keeps of freed memory, and libraries that bring
their own threads disturb one another long after their work is done: such threads wait for more in a
busy loop.
"""

from __future__ import annotations

import atexit
import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any


class Rival:
    """A function in a process of its own, and how long its calls take.

    Args:
        name: for the table.
        make: makes the function, in that process; with ``arguments``.
    """

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
        atexit.register(self.end)  # before multiprocessing waits for it to end by itself
        self._connection.recv()
        os.kill(self._pid, signal.SIGSTOP)

    def call(self, items: Sequence[Any]) -> tuple[list[float], list[Any]]:
        """The function of each of ``items``, one after another: seconds, and what it returned."""
        os.kill(self._pid, signal.SIGCONT)
        try:
            self._connection.send(items)
            return self._connection.recv()
        finally:
            os.kill(self._pid, signal.SIGSTOP)

    def end(self) -> None:
        """Ends the process, which cannot end by itself while it stands still."""
        atexit.unregister(self.end)
        os.kill(self._pid, signal.SIGKILL)


def _serve(
    connection: Connection, make: Callable[..., Callable[[Any], Any]], arguments: Any
) -> None:
    function = make(*arguments)
    connection.send(None)
    with suppress(EOFError):  # nobody is left to work for
        while True:
            seconds, results = [], []
            for item in connection.recv():
                started = time.perf_counter()
                results.append(function(item))
                seconds.append(time.perf_counter() - started)
            connection.send((seconds, results))
