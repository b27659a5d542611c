"""Signals to stop become exceptions, so that the program removes its temporary files."""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
import time
from types import FrameType, TracebackType

# After a signal, further ones are ignored for this long.
_CLEANUP_SECONDS = 3.0

# A signal whose exception Python has dropped is sent again after this long, until it counts.
_REPEAT_SECONDS = 0.01


class Terminated(SystemExit):
    """The program was told to end by a signal. Raised so that open files are cleaned up."""


class StopSignals:
    """A context in which SIGINT, SIGTERM and SIGHUP raise an exception in the main thread.

    A second signal that comes soon after the first is ignored: it must not interrupt the cleanup,
    or be shown as a traceback. Users press Ctrl-C twice, and torchrun sends several signals. A
    later one counts again, because an exception can be lost in a library.

    Python drops an exception that is raised while it collects garbage, in a finalizer or a
    callback, and so does C code that imports a module. The signal is sent again a moment later.
    """

    def __init__(self) -> None:
        self._last = -math.inf  # when the last signal came
        self._number = 0
        self._is_repeating = False
        self._error: BaseException | None = None
        self._hook = sys.unraisablehook
        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        # A signal that the parent process ignores (nohup) stays ignored. Other threads than the
        # main one get no signals.
        is_main = threading.current_thread() is threading.main_thread()
        found = {number: signal.getsignal(number) for number in numbers if is_main}
        self._handlers = {n: handler for n, handler in found.items() if handler != signal.SIG_IGN}

    def __enter__(self) -> None:
        for number in self._handlers:
            signal.signal(number, self._stop)
        if self._handlers:
            sys.unraisablehook = self._on_dropped

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_repeating = False
        if self._handlers:
            sys.unraisablehook = self._hook
        for number, handler in self._handlers.items():
            # After a failure, a signal must not come before the message about it.
            signal.signal(number, handler if error is None else signal.SIG_IGN)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        previous, self._last = self._last, time.monotonic()
        if not self._is_repeating and self._last - previous <= _CLEANUP_SECONDS:
            return
        if _is_dropping(frame):
            self._repeat(number)
            return
        self._is_repeating, self._number = False, number
        self._error = KeyboardInterrupt() if number == signal.SIGINT else Terminated(128 + number)
        raise self._error

    def _on_dropped(self, dropped: sys.UnraisableHookArgs) -> None:
        """Sends the signal again whose exception is ``dropped``."""
        if self._error is None or dropped.exc_value is not self._error:
            self._hook(dropped)
        else:
            self._repeat(self._number)

    def _repeat(self, number: int) -> None:
        """Lets a thread send a signal until it is handled: a read that begins then misses one."""
        if not self._is_repeating:
            self._is_repeating = True
            threading.Thread(target=self._send, args=(number,), daemon=True).start()

    def _send(self, number: int) -> None:
        while self._is_repeating:
            time.sleep(_REPEAT_SECONDS)
            os.kill(os.getpid(), number)


def _is_dropping(frame: FrameType | None) -> bool:
    """Returns whether an exception may be dropped, and unseen: in an import, or in the hook."""
    while frame is not None:
        code = frame.f_code
        is_hook = code is StopSignals._on_dropped.__code__
        if is_hook or code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False
