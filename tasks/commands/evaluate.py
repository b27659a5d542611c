"""``evaluate``: the quality of a model on a corpus."""

import json
from pathlib import Path
from typing import Any

import click

from tasks.commands import parameters
from tasks.commands.data import corpus_for
from tasks.commands.options import (
    PATH,
    ModelOptions,
    given,
    option_names,
    table_assignments,
    take,
    take_given,
    use_threads,
)
from tasks.commands.output import print_results
from tasks.task import Task


@click.command()
@parameters.task
@parameters.models
@parameters.corpora(f"{parameters.CORPUS_HELP} Several are compared in a table.")
@parameters.table
@click.option("--split", metavar="NAME", help="A split of the corpus; else the test split.")
@parameters.machine
@parameters.batch
@parameters.search
@parameters.length
@parameters.engine
@click.option("--json", "is_json", is_flag=True, help="Print the report as JSON.")
@click.option(
    "--report",
    "report_in",
    type=PATH,
    metavar="FOLDER",
    help="Classification: write report.html and report.json into this folder.",
)
def evaluate(
    task: Task, corpora: tuple[Path, ...], split: str | None, is_json: bool, **options: Any
) -> None:
    """Measure a model on a split of a corpus.

    \b
        evaluate translation --model runs/mine --data corpus/
        evaluate translation --data memory.tmx
        evaluate translation --data multi30k --data tatoeba
        evaluate classification --model runs/topics --data new.csv --text body --label topic
    """
    model = take(ModelOptions, options)
    table: dict[str, Any] = take_given(options, "report_in")
    if table and task.has_search:
        raise click.UsageError(f"{task.name} has no --report.")
    if assignments := table_assignments(task, options):
        table["assignments"] = assignments
    search = given(options)
    if not task.has_search and (search or isinstance(model.model, tuple)):
        reason = "has one --model, and nothing to search for with --beam, --int8 and the like"
        raise click.UsageError(f"{task.name} {reason}.")
    if len(corpora) > 1 and "report_in" in table:
        raise click.UsageError("--report is for one --data.")
    folders = [corpus_for(task, each) for each in corpora or (None,)]
    use_threads(model.threads)
    settings = given({"batch_tokens": model.batch_tokens}) | table | search
    reports = {}
    for folder in folders:
        with option_names():
            reports[str(folder)] = task.evaluate(
                model.model, folder, split=split, device=model.device, **settings
            )
    if is_json:
        records = {name: report.record() for name, report in reports.items()}
        shown = records if len(records) > 1 else next(iter(records.values()))
        print_results(f"{json.dumps(shown, ensure_ascii=False, indent=2)}\n")
    elif len(reports) > 1:
        import pandas

        rows = pandas.DataFrame({name: report.row() for name, report in reports.items()}).T
        notes = dict.fromkeys(note for report in reports.values() for note in report.notes())
        print_results("\n".join((rows.to_string(), *notes, "")))
    else:
        print_results(f"{next(iter(reports.values())).table()}\n")
