"""The training curve, written while the run goes on.

``history.csv`` has a row for each epoch. ``steps.csv`` has a row for every ``train.log_every``
steps, with the means over these steps.
"""

import csv
import io
import re
from collections.abc import Sequence
from pathlib import Path

from core.storage.files import append, is_file, read_text, write_text
from core.training.state import CurveRow

HISTORY_FILE = "history.csv"
STEPS_FILE = "steps.csv"

_ROW = re.compile(r"\d+,(\d+),.+\n")  # epoch, step, ...


def cut_steps(folder: Path, step: int) -> None:
    """Removes the rows of steps after ``step`` from ``steps.csv``, and a line that a crash has cut.

    Raises:
        UserError: the file cannot be read or written.
    """
    path = folder / STEPS_FILE
    if is_file(path):
        header, *rows = read_text(path, errors="replace").splitlines(keepends=True) or [""]
        kept = [row for row in rows if (match := _ROW.fullmatch(row)) and int(match[1]) <= step]
        write_text(path, "".join([header, *kept]) if header.endswith("\n") else "")


def add_step(folder: Path, row: CurveRow) -> None:
    """Adds a row to ``steps.csv``."""
    path = folder / STEPS_FILE
    header, _, line = as_csv([row]).partition("\n")
    is_empty = not is_file(path) or path.stat().st_size == 0
    append(path, f"{header}\n{line}".encode() if is_empty else line.encode())


def as_csv(rows: Sequence[CurveRow]) -> str:
    """Returns ``rows`` as CSV with a header."""
    text, records = io.StringIO(), [row.columns() for row in rows]
    names = list(dict.fromkeys(name for record in records for name in record))
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()
