"""The corpus that a command works on: a folder, a name in the catalog, or the task's default."""

from pathlib import Path

from core.config import nearest
from core.errors import ConfigError, UserError
from core.storage.files import exists, is_folder
from tasks.task import Task


def corpus_for(task: Task, chosen: Path | None) -> Path:
    """Returns the folder of a corpus for ``task``.

    Args:
        chosen: a folder, a file, or the name of a corpus in the catalog; None for the task's
            default. A folder that exists takes precedence over a name.

    Raises:
        ConfigError: the corpus is for another task, or the name is nearly that of a corpus.
        UserError: the corpus of the catalog is not here.
    """
    from data.corpora import CORPORA, corpus_folder

    name = task.corpus if chosen is None else str(chosen)
    if chosen is not None and (is_folder(chosen) or name not in CORPORA):
        if not exists(chosen) and (hint := nearest(name, CORPORA)):
            raise ConfigError(f"{name}: there is no such folder or corpus{hint}")
        return chosen
    if CORPORA[name].task != task.name:
        raise ConfigError(f"{name} is a corpus for {CORPORA[name].task}, not for {task.name}")
    folder = corpus_folder(name)
    if not is_folder(folder):
        raise UserError(
            f"{folder}: the corpus {name} is not here: get it with `cli.py data fetch {name}`, or "
            "name a folder with --data"
        )
    return folder
