"""``models``: the shipped models, and the calibration of checkpoint folders."""

import csv
import json
from pathlib import Path
from typing import Any

import click

from core.errors import shorten
from core.storage.files import is_file
from data.readers import iter_lines
from tasks.commands import parameters
from tasks.commands.data import corpus_for
from tasks.commands.options import PATH, use_threads
from tasks.commands.output import print_results, table
from tasks.runs import checkpoint_folder
from tasks.task import task_named


@click.group(invoke_without_command=True)
@click.option("--json", "is_json", is_flag=True, help="Print one JSON object per line.")
@click.option(
    "--corpora",
    is_flag=True,
    help="List what each was trained on: examples, share of an epoch, terms, source.",
)
@click.pass_context
def models(context: click.Context, is_json: bool, corpora: bool) -> None:
    """List the shipped models, which the commands take without --model."""
    if context.invoked_subcommand is not None:
        return
    records = [_record(folder) for folder in checkpoint_folder.shipped_models()]
    if is_json:
        print_results("".join(f"{json.dumps(about, ensure_ascii=False)}\n" for about in records))
        return
    for about in records:
        if (found := about.pop("corpora")) and corpora:
            print_results(f"{about['task']}, {about['name']}\n{table(found)}\n")
    if corpora:
        return
    for about in records:
        about["parameters"] = about["parameters"] and f"{about['parameters']:,}"
        about["size"] = f"{about['size'] / 1e6:.1f} MB"
    rows = [[shorten(str(value or "?"), 200) for value in about.values()] for about in records]
    print_results(table([*([*about] for about in records[:1]), *rows]))


@models.command()
@click.argument("folder", metavar="FOLDER", type=PATH)
@parameters.corpora(
    "A corpus with the splits train and val: a folder, or a name from `data list`.", required=True
)
@click.option(
    "--unlike",
    type=PATH,
    help="Texts of other kinds than the training data, one a line: such texts become unfamiliar.",
)
@parameters.machine
def calibrate(
    folder: Path, corpora: tuple[Path, ...], unlike: Path | None, device: str, threads: int | None
) -> None:
    """Calibrate the translation model in FOLDER, as a training run does at its end.

    It learns how probable it is that a translation of its own is good (confidence), which texts
    are like its training data (familiarity), and which are in the target language already. Give
    the corpora that it was trained on; each contributes equally many pairs.
    """
    use_threads(threads)
    from tasks.translation.calibration import calibrate_folder

    found = [corpus_for(task_named("translation"), corpus) for corpus in corpora]
    others = [*iter_lines(unlike)] if unlike else []
    calibrate_folder(folder, found, others, device=device)
    print_results(f"{folder}: calibrated\n")


def _record(folder: Path) -> dict[str, Any]:
    metrics = checkpoint_folder.read_metrics(folder)
    corpora = folder / "corpora.tsv"
    lines = corpora.read_text(encoding="utf-8").splitlines() if is_file(corpora) else []
    task = checkpoint_folder.describe(folder)["task"]
    return {
        "task": task,
        "name": folder.name.removeprefix(task).lstrip("-") or "default",
        "parameters": metrics.get("parameters"),
        "size": sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()),
        "trained": metrics.get("trained"),
        "headline": checkpoint_folder.headline(metrics),
        "folder": str(folder),
        "corpora": [*csv.reader(lines, delimiter="\t")],
    }
