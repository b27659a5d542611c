"""Settings of a process that does nothing but train: its threads and its memory.

They change the whole process, so the ``train`` command makes them and no library function does.
"""

from __future__ import annotations

from pathlib import Path

from core.device import use_threads
from core.training.memory import keep_freed_memory
from tasks.runs.checkpoint_folder import read_metrics


def configure_process(*, threads: int | None = None, resumed: Path | None = None) -> None:
    """Sets the number of threads, and keeps freed memory for the next step.

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
    keep_freed_memory()
