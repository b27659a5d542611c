"""The folder of a run: whether a run may use it, and what a run that fails early leaves there."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from core.config import to_mapping
from core.errors import CheckpointError, ConfigError, UserError
from core.storage.files import exists, is_file
from core.training.state import STATE_FILE, STATE_FOLDER
from tasks.runs.checkpoint_folder import (
    CONFIG_FILE,
    check_begun,
    read_config,
    read_metrics,
)


def check_folder(task: str, config: Any, out: Path, resume: bool) -> None:
    """Checks that a run may use the folder ``out``.

    Raises:
        UserError: ``out`` already holds a run and ``resume`` is false.
        CheckpointError, ConfigError: as :func:`check_resumable`, with ``resume``.
    """
    if resume:
        check_resumable(task, config, out)
    elif exists(out / CONFIG_FILE):
        raise UserError(
            f"{out}: there is a run in this folder; continue it with --resume, "
            "or name another --out"
        )


def check_resumable(task: str, config: Any, out: Path) -> None:
    """Checks that the run in ``out`` can continue with ``config``.

    The length of the run, the learning rate and the decoding options may change; the model, the
    corpus and the options that decide the batches may not.

    Raises:
        CheckpointError: there is no run of ``task`` in ``out``, or a finished model without the
            state of its run.
        ConfigError: names the options that have changed.
    """
    check_begun(out)
    state = out / STATE_FOLDER / STATE_FILE
    if not is_file(state) and "trained" in read_metrics(out):
        # The run would begin again, and its first epoch would replace the finished model.
        raise CheckpointError(
            f"{out}: cannot resume: the run is finished, and there is no {state}; "
            "name another --out"
        )
    before, now = to_mapping(read_config(out, task, type(config))), to_mapping(config)
    fixed = {"model": now["model"], "data": now["data"], "train": ("seed", "batch_tokens")}
    changed = [
        f"{section}.{key}"
        for section, keys in fixed.items()
        for key in keys
        if now[section][key] != before[section][key]
    ]
    if changed:
        raise ConfigError(
            f"{out}: {', '.join(changed)} cannot change in the middle of a run; "
            "restore the old value, or begin a new run in another --out"
        )


@contextmanager
def nothing_left(
    out: Path, before: set[Path] | None, check_place: Callable[[], None]
) -> Iterator[None]:
    """Removes what a run has left in ``out`` if it fails before the training begins.

    ``before`` is what ``out`` contained, None if there was no such folder.
    """
    try:
        yield
    except BaseException:
        with suppress(OSError, UserError):
            check_place()
            if not exists(out / CONFIG_FILE):
                for path in set(out.iterdir()) - (before or set()):
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
                if before is None:
                    out.rmdir()
        raise
