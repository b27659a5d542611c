"""Errors that a user can cause. A message says what is wrong, where, and what to do about it."""

from pathlib import Path


class UserError(Exception):
    """A problem that the user can solve. It is shown in one line, without a traceback.

    An error without a message is not shown: another process of the same run reports the problem.
    """


class ConfigError(UserError, ValueError):
    """An option or a configuration value that cannot be used."""


class CorpusError(UserError):
    """A corpus that cannot be read.

    ``path`` is the file or folder. ``line`` is the line, counted from 1, or None if the problem is
    not in one line.
    """

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
