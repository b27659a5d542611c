"""The folder of a run: whether a run may use it, and what a run that fails early leaves there."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from core.config import to_mapping
from core.errors import CheckpointError, ConfigError, UserError
from core.storage.files import exists, is_file, is_folder, reason_of, remove_partial_files
from core.storage.lock import only_writer
from core.training.state import STATE_FILE, STATE_FOLDER
from tasks.runs.checkpoint_folder import CONFIG_FILE, check_begun, read_config, read_metrics

LOCK_FILE = "lock"

# What must not change on the way: with another one of these options of ``train``, the position in
# an epoch would be a position among other batches.
_FIXED_OPTIONS = ("seed", "batch_tokens")


@contextmanager
def locked_folder(task: str, config: Any, out: Path, resume: bool) -> Iterator[Callable[[], None]]:
    """Keeps other runs out of ``out``, and removes what a run that fails before it begins leaves.

    Yields a function that raises a UserError if ``out`` has been removed or replaced since.

    Raises:
        UserError: ``out`` already holds a run and ``resume`` is false, or another process writes
            there.
        CheckpointError, ConfigError: as :func:`check_resumable`, with ``resume``.
    """
    check_folder(task, config, out, resume)  # a folder that is refused is not touched
    try:
        before = set(out.iterdir()) if is_folder(out) else None
    except OSError as error:
        raise UserError(f"{out}: cannot read: {reason_of(error)}") from error
    with only_writer(out, lock=out / STATE_FOLDER / LOCK_FILE) as check_place:
        try:
            check_folder(task, config, out, resume)  # another run may have begun or ended since
            for folder in (out, out / STATE_FOLDER):
                remove_partial_files(folder)
            yield check_place
        except BaseException:
            with suppress(OSError, UserError):
                check_place()
                if not exists(out / CONFIG_FILE):
                    for path in set(out.iterdir()) - (before or set()):
                        shutil.rmtree(path) if path.is_dir() else path.unlink()
                    if before is None:
                        out.rmdir()
            raise


def check_folder(task: str, config: Any, out: Path, resume: bool) -> None:
    """Checks that a run may use the folder ``out``; the errors are those of :func:`locked_folder`.

    The length of a run that is resumed, its learning rate and its decoding options may change; the
    model, the corpus and the options that decide the batches may not.
    """
    if not resume:
        if exists(out / CONFIG_FILE):
            raise UserError(
                f"{out}: there is a run in this folder; continue it with --resume, "
                "or name another --out"
            )
        return
    check_begun(out)
    state = out / STATE_FOLDER / STATE_FILE
    if not is_file(state) and "trained" in read_metrics(out):
        # The run would begin again, and its first epoch would replace the finished model.
        raise CheckpointError(
            f"{out}: cannot resume: the run is finished, and there is no {state}; "
            "name another --out"
        )
    before, now = to_mapping(read_config(out, task, type(config))), to_mapping(config)
    fixed = {"model": now["model"], "data": now["data"], "train": _FIXED_OPTIONS}
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
