"""Errors that a user can cause. A message says what is wrong, where, and what to do about it."""

from pathlib import Path

MAX_SHOWN = 80
"""The most characters of a name or a value that a message shows."""


class UserError(Exception):
    """A problem that the user can solve. It is shown in one line, without a traceback.

    An error without a message is not shown: another process of the same run reports the problem.
    """


class ConfigError(UserError, ValueError):
    """An option or a configuration value that cannot be used.

    ``option`` is the name of the option that is wrong, or None. The message begins with it, and
    ``reason`` is the rest: an interface that has another name for the option says that instead.
    """

    def __init__(self, reason: str, *, option: str | None = None) -> None:
        self.reason = reason
        self.option = option
        super().__init__(reason if option is None else f"{option} {reason}")


class CorpusError(UserError):
    """A corpus that cannot be read: its file or folder, and the line, from 1, or None."""

    def __init__(self, path: str | Path, reason: str, line: int | None = None) -> None:
        self.path = Path(path)
        self.reason = reason
        self.line = line
        place = str(path) if line is None else f"{path}:{line}"
        super().__init__(f"{place}: {reason}")

    def __reduce__(self) -> tuple[type["CorpusError"], tuple[Path, str, int | None]]:
        # Exception pickles only its message, but a worker process sends its errors by pickle.
        return type(self), (self.path, self.reason, self.line)


class CheckpointError(UserError):
    """A checkpoint folder that is incomplete, damaged, or of another task."""


class ChangedConditions(ConfigError):
    """A run cannot be resumed, because its corpus or something else that decides it has changed."""


class TextError(UserError, ValueError):
    """A text that a task cannot take as its input."""


class NetworkError(UserError):
    """A download that failed. The message names the address and what to try instead."""


class Interrupted(Exception):
    """The user stopped the work. Its state is saved, and the message says how to continue."""


def shorten(text: str, length: int = MAX_SHOWN) -> str:
    """Returns ``text`` for a message: its middle cut out beyond ``length``, and then escaped.

    A name from a file may be a megabyte long, or contain sequences that command a terminal.
    """
    if len(text) > length:
        half = (length - 3) // 2
        text = f"{text[:half]}...{text[-half:]}"
    return escape(text)


def escape(text: str) -> str:
    """Returns ``text`` with an escape for every character that is not printable."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def shown(value: object) -> str:
    """Returns the ``repr`` of any value from a file, for a message; see :func:`shorten`."""
    if isinstance(value, str):
        return repr(value if len(value) <= MAX_SHOWN else f"{value[: MAX_SHOWN - 3]}...")
    try:
        return shorten(repr(value))
    except (RecursionError, ValueError):  # nested too deeply, or an integer of too many digits
        return f"a {type(value).__name__} that is too large to show"
