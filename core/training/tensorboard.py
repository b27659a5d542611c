"""Event files for TensorBoard, where its package is installed."""

from __future__ import annotations

import io
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from core.errors import UserError
from core.storage.files import append


def check_installed() -> None:
    """Raises a UserError if the package of TensorBoard is not installed."""
    if find_spec("tensorboard") is None:
        raise UserError(
            "train.tensorboard needs the package tensorboard, which is not installed: "
            "pip install 'transformer-suite[tensorboard]'"
        )


class EventFile:
    """A new event file in ``folder``, for numbers by name and step.

    Args:
        first_step: TensorBoard ignores this step and later ones in the older files of the folder;
            a crashed run may have written them.

    Raises:
        UserError: TensorBoard is not installed, or the file cannot be written.
    """

    def __init__(self, folder: Path, *, first_step: int) -> None:
        check_installed()
        from tensorboard.compat.proto.event_pb2 import SessionLog

        # TensorBoard reads the files of a folder in the order of their names.
        self._path = folder / f"events.out.tfevents.{time.time_ns()}"
        self._write(file_version="brain.Event:2")
        self._write(step=first_step, session_log=SessionLog(status=SessionLog.START))

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """Adds the ``values`` of ``step``."""
        from tensorboard.compat.proto.summary_pb2 import Summary

        scalars = [Summary.Value(tag=name, simple_value=value) for name, value in values.items()]
        self._write(step=step, summary=Summary(value=scalars))

    def _write(self, **content: Any) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.summary.writer.record_writer import RecordWriter

        record = io.BytesIO()
        event = Event(wall_time=time.time(), **content)
        RecordWriter(record).write(event.SerializeToString())
        append(self._path, record.getvalue())
