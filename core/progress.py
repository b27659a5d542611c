"""Progress of long work on stderr: a bar on a terminal, plain lines in a log."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tqdm import tqdm

from core.errors import escape

_LINES = {"mininterval": 30.0, "delay": 30.0, "miniters": 1}
_LINE = "{desc}: {n_fmt}/{total_fmt} {unit}, {elapsed}, {remaining} left{postfix}"
_LINE_WITHOUT_TOTAL = "{desc}: {n_fmt} {unit}, {elapsed}{postfix}"

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


class Progress(tqdm):  # type: ignore[misc]
    """The progress of a long task: a bar on a terminal, a line every half minute in a log.

    ``done`` of ``total`` units, which may be unknown, were done before.
    """

    monitor_interval = 0  # no thread

    def __init__(self, total: int | None, label: str, *, unit: str = "it", done: int = 0) -> None:
        is_terminal = sys.stderr.isatty()
        line = _LINE_WITHOUT_TOTAL if total is None else _LINE
        super().__init__(
            total=total,
            desc=label,
            unit=unit,
            initial=done,
            leave=False,
            file=sys.stderr if is_terminal else _Log(),
            disable=_is_silent,
            **({} if is_terminal else {**_LINES, "bar_format": line}),
        )

    def advance(self, count: int = 1, note: str = "") -> None:
        """Adds ``count`` units; ``note`` is shown beside the bar or in the line."""
        self.set_postfix_str(note, refresh=False)
        self.update(count)


class _Log:
    """The file of a bar in a log: what would be drawn is a line."""

    def write(self, text: str) -> None:
        if line := text.strip():
            log(line)

    def flush(self) -> None:
        """Does nothing: lines are written at once."""
