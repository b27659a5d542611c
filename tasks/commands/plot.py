"""``plot``: pictures of what was measured."""

from __future__ import annotations

from pathlib import Path

import click

from transformer_suite.tasks.commands.options import PATH
from transformer_suite.tasks.commands.output import print_results


@click.group()
def plot() -> None:
    """Draw what was measured."""


@plot.command()
@click.argument("runs", metavar="RUN...", type=PATH, nargs=-1, required=True)
@click.option(
    "--output",
    type=PATH,
    default=Path("history.png"),
    show_default=True,
    metavar="FILE",
    help="The picture: .png, .svg or .pdf.",
)
def history(runs: tuple[Path, ...], output: Path) -> None:
    """Draw the training curves of one or several runs in one picture.

    A RUN is the folder of a run or a checkpoint, or its history.csv. The picture shows losses, the
    metrics of the task, learning rate, gradient norm, speed and padding by epoch, with one color
    for each run.

    \b
        plot history runs/translation
        plot history runs/a runs/b --output compared.svg
    """
    from transformer_suite.tasks.runs.history import draw_histories

    draw_histories(runs, output)
    print_results(f"{output}\n")
