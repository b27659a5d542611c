"""The training curve, written while the run goes on.

``history.csv`` has a row for each epoch. ``steps.csv`` has a row for every ``train.log_every``
steps, with the means over these steps. With ``train.tensorboard``, both go to event files as well.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from core.errors import UserError
from core.storage.files import append, is_file, read_text, reason_of, write_text
from core.training.config import TrainConfig
from core.training.state import CurveRow

HISTORY_FILE = "history.csv"
STEPS_FILE = "steps.csv"
EVENTS_FOLDER = "tensorboard"

_ROW = re.compile(r"\d+,(\d+),.+\n")  # epoch, step, ...


class History:
    """The files of the training curve in ``folder``."""

    def __init__(self, folder: Path, config: TrainConfig) -> None:
        self._folder = folder
        self._config = config
        self._events: Any = None

    def begin(self, step: int) -> None:
        """Removes the rows of steps after ``step``, which a crashed run may have left.

        Raises:
            UserError: a file cannot be read or written.
        """
        path = self._folder / STEPS_FILE
        if is_file(path):
            write_text(path, _until(step, read_text(path, errors="replace")))
        if self._config.tensorboard:
            from torch.utils.tensorboard import SummaryWriter

            # TensorBoard ignores what older files have of the steps from here on.
            self._events = SummaryWriter(self._folder / EVENTS_FOLDER, purge_step=step + 1)

    def add_step(self, row: CurveRow) -> None:
        """Adds a row to ``steps.csv``."""
        path = self._folder / STEPS_FILE
        header, _, line = as_csv([row]).partition("\n")
        is_empty = not is_file(path) or path.stat().st_size == 0
        append(path, f"{header}\n{line}".encode() if is_empty else line.encode())
        self._add_event("steps", row)

    def add_epoch(self, rows: Sequence[CurveRow]) -> None:
        """Writes all of ``history.csv``; the last row is new."""
        write_text(self._folder / HISTORY_FILE, as_csv(rows))
        self._add_event("epochs", rows[-1])

    def _add_event(self, group: str, row: CurveRow) -> None:
        if self._events is None:
            return
        try:
            for name, value in row.columns().items():
                if name != "step":
                    self._events.add_scalar(f"{group}/{name}", value, row.step)
            self._events.flush()
        except OSError as error:
            folder = self._folder / EVENTS_FOLDER
            raise UserError(f"{folder}: cannot write: {reason_of(error)}") from error


def as_csv(rows: Sequence[CurveRow]) -> str:
    """Returns ``rows`` as CSV with a header."""
    text, records = io.StringIO(), [row.columns() for row in rows]
    names = list(dict.fromkeys(name for record in records for name in record))
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()


def _until(step: int, text: str) -> str:
    """The lines of ``steps.csv`` up to ``step``, without a last line that a crash has cut off."""
    header, *rows = text.splitlines(keepends=True) or [""]
    if not header.endswith("\n"):
        return ""
    matches = ((row, _ROW.fullmatch(row)) for row in rows)
    return header + "".join(row for row, match in matches if match and int(match[1]) <= step)
