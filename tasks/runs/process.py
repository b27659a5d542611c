"""The number of threads of a process that does nothing but train.

It is a setting of the whole process, so the ``train`` command makes it and no library function."""

from __future__ import annotations

from pathlib import Path

from core.device import use_threads
from tasks.runs.checkpoint_folder import read_metrics


def configure_process(*, threads: int | None = None, resumed: Path | None = None) -> None:
    """Sets the number of threads.

    Args:
        threads: None: those of the resumed run, else as many as there are free cores. The number of
            threads decides the order of sums, so a resumed run needs its own to end in the same
            bits.
        resumed: the folder of the run that is resumed.

    Raises:
        CheckpointError: the metrics of the resumed run are damaged.
    """
    if threads is None and resumed is not None:
        recorded = read_metrics(resumed).get("threads")
        threads = recorded if type(recorded) is int and 1 <= recorded <= 1024 else None
    use_threads(threads)
