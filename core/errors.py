"""The errors a user can cause. Each message says what is wrong, where, and what to do about it."""

from pathlib import Path


class UserError(Exception):
    """Something the person at the command line can put right. Shown in one line, no traceback.

    Without a message it is not shown: another process of the same run says what is wrong.
    """


class ConfigError(UserError, ValueError):
    """An option or a configuration value that cannot be used."""


class CorpusError(UserError):
    """Text that cannot be read as the corpus it should be.

    `path` is the file (or folder) and `line` the 1-based line, where one line is to blame.
    """

    def __init__(self, path: str | Path, reason: str, line: int | None = None) -> None:
        self.path = Path(path)
        self.reason = reason
        self.line = line
        place = str(path) if line is None else f"{path}:{line}"
        super().__init__(f"{place}: {reason}")

    def __reduce__(self) -> tuple[type["CorpusError"], tuple[Path, str, int | None]]:
        # Exception pickles its message alone, and a data-loading worker process sends errors home.
        return type(self), (self.path, self.reason, self.line)


class CheckpointError(UserError):
    """A checkpoint folder that is incomplete, damaged, or not for this task."""


class TextError(UserError, ValueError):
    """A text that a task cannot take as its input."""


class NetworkError(UserError):
    """A download that failed; the message names the address and what can be tried instead."""


class Interrupted(Exception):
    """The user asked the work to stop; what was done is saved and the message says how to go on."""
