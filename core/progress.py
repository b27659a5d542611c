"""Progress of long work on stderr: a bar on a terminal, plain lines in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import TracebackType

from tqdm import tqdm

from core.errors import escape

LOG_INTERVAL_SECONDS = 30.0

_is_silent = False


def log(line: str) -> None:
    """Writes one line to stderr, above any progress bar; control characters in it are escaped.

    A line that cannot be written (a full disk, a closed pipe) is dropped: the work continues.
    """
    if _is_silent:
        return
    with suppress(OSError):
        tqdm.write(escape(line), file=sys.stderr)
        sys.stderr.flush()


@contextmanager
def silence() -> Iterator[None]:
    """Logs and shows nothing while the context lasts: another process logs for this one."""
    global _is_silent
    before, _is_silent = _is_silent, True
    try:
        yield
    finally:
        _is_silent = before


class Progress:
    """The progress of a long task, as a context manager.

    Args:
        total: the number of units; None if it is unknown.
        label: the name of the task.
        unit: the name of a unit.
        done: the units done before, for a task that is resumed.
    """

    def __init__(self, total: int | None, label: str, *, unit: str = "it", done: int = 0) -> None:
        self._label = label
        self._unit = unit
        self._total = total
        self._done = self._first = done
        self._started = self._logged = time.monotonic()
        self._bar = (
            tqdm(total=total, desc=label, unit=unit, initial=done, leave=False, file=sys.stderr)
            if sys.stderr.isatty() and not _is_silent
            else None
        )

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.close()

    def advance(self, count: int = 1, note: str = "") -> None:
        """Adds ``count`` units; ``note`` is shown beside the bar or in the line."""
        self._done += count
        if self._bar is not None:
            if note:
                self._bar.set_postfix_str(note, refresh=False)
            self._bar.update(count)
        elif time.monotonic() - self._logged >= LOG_INTERVAL_SECONDS:
            self._logged = time.monotonic()
            log(self._line(note))

    def _line(self, note: str) -> str:
        elapsed = time.monotonic() - self._started
        line = f"{self._label}: {self._done}"
        if self._total is not None:
            left = elapsed * (self._total - self._done) / max(1, self._done - self._first)
            line += f"/{self._total} {self._unit}, {elapsed:.0f} s, {left:.0f} s left"
        else:
            line += f" {self._unit}, {elapsed:.0f} s"
        return f"{line}, {note}" if note else line
