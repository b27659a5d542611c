"""``average``: the mean of several checkpoints."""

from __future__ import annotations

from pathlib import Path

import click

from tasks.commands.options import PATH
from tasks.commands.output import print_results

MAX_EPOCHS = 10_000


@click.command()
@click.argument("checkpoints", metavar="CHECKPOINT...", type=PATH, nargs=-1, required=True)
@click.option("--out", type=PATH, required=True, metavar="FOLDER", help="The new checkpoint.")
@click.option(
    "--best", type=click.IntRange(2, MAX_EPOCHS), metavar="K", help="The K best epochs of a run."
)
@click.option(
    "--last", type=click.IntRange(2, MAX_EPOCHS), metavar="K", help="The last K epochs of a run."
)
def average(checkpoints: tuple[Path, ...], out: Path, best: int | None, last: int | None) -> None:
    """Average the weights of several checkpoints into a new one.

    A CHECKPOINT is a folder, or the weights of one epoch that a run has kept. With --best or --last
    it is the one folder of a run, which keeps as many of its best epochs as train.average says. All
    must have the same task, configuration and vocabulary.

    \b
        average runs/a runs/b --out runs/mean
        average runs/a/training/epoch-003.safetensors runs/a --out runs/mean
        average runs/a --best 3 --out runs/mean
    """
    if best and last:
        raise click.UsageError("--best and --last exclude each other.")
    if (best or last) and len(checkpoints) > 1:
        raise click.UsageError("--best and --last take the epochs of one run.")
    from tasks.runs import averaging

    if best:
        checkpoints = tuple(averaging.best_epochs(checkpoints[0], best))
    elif last:
        checkpoints = tuple(averaging.last_epochs(checkpoints[0], last))
    averaging.average(checkpoints, out)
    names = ", ".join(map(str, checkpoints))
    print_results(f"{out}: the mean of {names}; not measured\n")
