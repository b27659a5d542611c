"""Progress of long work on stderr: a bar on a terminal, plain lines in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import TracebackType

from tqdm import tqdm

LOG_INTERVAL_SECONDS = 30.0

_is_silent = False


def say(line: str) -> None:
    """One line for the person watching, on stderr, above any progress bar.

    Work goes on where nobody can be told: the log may be on a full disk, or its reader gone.
    """
    if _is_silent:
        return
    with suppress(OSError):
        tqdm.write(line, file=sys.stderr)
        sys.stderr.flush()


@contextmanager
def silence() -> Iterator[None]:
    """Nothing is said or shown meanwhile: another process does that for this one too."""
    global _is_silent
    before, _is_silent = _is_silent, True
    try:
        yield
    finally:
        _is_silent = before


class Progress:
    """Counts towards ``total`` units of work; use as a context manager.

    Args:
        total: None where the end is not known.
        label: what is being done.
        unit: what is being counted.
        done: where the count starts, for work that is taken up again.
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
        """``count`` more units are done; ``note`` is shown beside the bar or in the line."""
        self._done += count
        if self._bar is not None:
            if note:
                self._bar.set_postfix_str(note, refresh=False)
            self._bar.update(count)
        elif time.monotonic() - self._logged >= LOG_INTERVAL_SECONDS:
            self._logged = time.monotonic()
            say(self._line(note))

    def _line(self, note: str) -> str:
        elapsed = time.monotonic() - self._started
        line = f"{self._label}: {self._done}"
        if self._total is not None:
            left = elapsed * (self._total - self._done) / max(1, self._done - self._first)
            line += f"/{self._total} {self._unit}, {elapsed:.0f} s, {left:.0f} s left"
        else:
            line += f" {self._unit}, {elapsed:.0f} s"
        return f"{line}, {note}" if note else line
