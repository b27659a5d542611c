"""``data``: the corpora, how to get them and how to check them; the corpus of other commands."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from core.config import nearest
from core.errors import ConfigError, UserError
from core.storage.files import exists, is_file, is_folder
from tasks.commands.output import print_results, table
from tasks.task import Task

if TYPE_CHECKING:
    from data.fetching import FileReport


@click.group()
def data() -> None:
    """Get the corpora and check them."""


@data.command("list")
def list_corpora() -> None:
    """List the corpora that this program knows, and whether they are here."""
    from data.corpora import CORPORA, corpus_folder

    for corpus in CORPORA.values():
        folder = corpus_folder(corpus.name)
        is_here = any(is_file(folder / file.name) for file in corpus.files)
        facts = {
            "task": corpus.task,
            "size": "not known" if corpus.size is None else f"{corpus.size / 1e6:.1f} MB",
            "license": corpus.license,
            "address": corpus.homepage,
            "citation": corpus.citation,
            "remark": corpus.remark,
            "folder": f"{folder} ({'here' if is_here else 'not here'})",
        }
        block = "".join(f"    {name:<10}{fact}\n" for name, fact in facts.items() if fact)
        print_results(f"{corpus.name}: {corpus.title}\n{block}")


@data.command()
@click.argument("name")
def fetch(name: str) -> None:
    """Download the files of the corpus NAME that are missing or damaged."""
    from data import fetching

    show_reports(name, fetching.fetch(name, show_progress=True))


@data.command()
@click.argument("name")
def verify(name: str) -> None:
    """Compare the files of the corpus NAME with the published ones."""
    from data import fetching

    show_reports(name, fetching.verify(name))


def show_reports(name: str, reports: "Sequence[FileReport]") -> None:
    """Prints the state of all files of a corpus. Raises a UserError if one is missing or wrong."""
    from data.corpora import corpus_folder, find_corpus

    folder = corpus_folder(name)
    rows = [("ok" if file.is_ok else "WRONG", file.name, file.note) for file in reports]
    print_results(f"{find_corpus(name).title}\n{folder}\n{table(rows)}")
    if wrong := sum(not file.is_ok for file in reports):
        raise UserError(f"{folder}: {wrong} of {len(rows)} files are not as they should be")


def corpus_for(task: Task, chosen: Path | None) -> Path:
    """Returns the folder of a corpus for ``task``, or raises a UserError if it is not here.

    ``chosen`` is a folder, a file, or the name of a corpus in the catalog; None: the task's
    default. A folder that exists takes precedence over a name.
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
