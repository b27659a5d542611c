"""``train``: a new model from a corpus."""

from pathlib import Path
from typing import Any

import click

from core.config import override, to_mapping
from core.distributed.world import world_from_environment
from core.errors import ConfigError
from tasks.commands import parameters
from tasks.commands.data import corpus_for
from tasks.commands.options import PATH, table_assignments, take_given
from tasks.commands.output import as_toml, print_results
from tasks.runs.config import make_config
from tasks.task import Task


@click.command()
@parameters.task
@click.option("--preset", metavar="NAME", help="tiny, small, default, best or paper.")
@click.option(
    "--config",
    "config_file",
    type=PATH,
    metavar="FILE",
    help="A TOML file, or the config.json of a run.",
)
@click.option(
    "--init",
    type=PATH,
    metavar="FOLDER",
    help="A model to start from, with its vocabulary: a folder, or the name of a shipped model.",
)
@click.option(
    "--new-vocabulary",
    is_flag=True,
    help="With --init: build a vocabulary from the corpus, and start its vectors from the model's.",
)
@parameters.corpus
@click.option("--out", type=PATH, metavar="FOLDER", help="The new checkpoint; else runs/TASK.")
@click.option("--resume", is_flag=True, help="Go on with the run in --out.")
@click.option(
    "--accept-changes",
    is_flag=True,
    help="With --resume: even if the corpus, the threads, the device or torch have changed.",
)
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), help="Short for --set train.seed=N.")
@parameters.table
@parameters.machine
@click.option(
    "--set", "assignments", multiple=True, metavar="SECTION.KEY=VALUE", help="May be repeated."
)
@click.option("--show-config", is_flag=True, help="Print the configuration as TOML and exit.")
def train(
    task: Task,
    data: Path | None,
    out: Path | None,
    preset: str | None,
    config_file: Path | None,
    assignments: tuple[str, ...],
    show_config: bool,
    device: str,
    threads: int | None,
    **options: Any,
) -> None:
    """Train a model on a corpus and write a checkpoint folder.

    The configuration is a preset, changed by --config and then by each --set; --show-config prints
    it with every option. With --resume it is that of the run in --out. Under torchrun, several
    processes train one model, each on its part of every batch.

    \b
        train translation --data corpus/ --src fr --tgt en
        train translation --data pairs.csv --src de --tgt en
        train classification --data my.csv --text title,body --label topic
        train couplet --preset tiny --data corpus/ --set train.epochs=4
        train translation --data corpus/ --init runs/translation --out runs/tuned
        train translation --set train.ema=0.999
        torchrun --nproc-per-node gpu cli.py train translation --data corpus/
    """
    short = table_assignments(task, options)
    short += tuple(f"train.{name}={value}" for name, value in take_given(options, "seed").items())
    assignments = short + assignments
    out = out or Path("runs") / task.name
    _check(out, preset or config_file, **options)
    if options["init"] is not None:
        from tasks.runs.checkpoint_folder import model_folder

        options["init"] = model_folder(task.name, options["init"])
    if options["resume"]:
        from tasks.runs.checkpoint_folder import check_begun, read_config

        check_begun(out)
        config = override(read_config(out, task.name, task.config_class), assignments)
    else:
        config = make_config(
            task,
            preset=preset or "default",
            config_file=config_file,
            assignments=assignments,
            init=options["init"],
            new_vocabulary=options["new_vocabulary"],
        )
    world = world_from_environment()
    if show_config:
        if world.is_main:
            print_results(as_toml(to_mapping(config)))
        return
    from tasks.runs.checkpoint_folder import headline, read_metrics

    read = read_metrics(out).get("data") if options["resume"] and data is None else None
    if read not in (None, task.corpus):
        raise ConfigError(f"{out} is a run on {read}: name it with --data")
    corpus = corpus_for(task, data)
    from core.device import choose_device, use_threads
    from core.distributed.process_group import joined_group
    from tasks.runs.training import RunOptions

    chosen = choose_device(device, local_rank=world.local_rank if world.size > 1 else None)
    with joined_group(world, chosen, timeout=config.train.timeout) as group:
        use_threads(threads or (_threads_of_run(out) if options["resume"] else None))
        run_options = RunOptions(data=corpus, out=out, device=chosen, group=group, **options)
        metrics = task.train(config, run_options)
        if world.is_main:
            print_results(f"{out}: {headline(metrics)}\n")


def _check(
    out: Path,
    configuration: str | Path | None,
    *,
    init: Path | None,
    new_vocabulary: bool,
    resume: bool,
    accept_changes: bool,
) -> None:
    """Refuses options that contradict each other."""
    goes_on = "--resume goes on with the {} in {}: leave out {}."
    for is_wrong, reason in (
        (accept_changes and not resume, "--accept-changes needs --resume."),
        (new_vocabulary and not init, "--new-vocabulary needs --init."),
        (resume and configuration, goes_on.format("configuration", out, "--preset and --config")),
        (resume and init, goes_on.format("weights", out, "--init")),
    ):
        if is_wrong:
            raise click.UsageError(reason)


def _threads_of_run(out: Path) -> int | None:
    """Returns the number of threads of the run in ``out``, which decides the order of sums."""
    from tasks.runs.checkpoint_folder import read_metrics

    recorded = read_metrics(out).get("threads")
    return recorded if type(recorded) is int and 1 <= recorded <= 1024 else None
