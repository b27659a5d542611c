#!/usr/bin/env python3
"""The command line of Transformer Suite: it parses, calls and prints.

Exit codes: 0 done, 1 the work failed (one line on stderr says why), 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

from pathlib import Path

import click


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """One Transformer, three applications: translation, classification, couplets."""


@main.command()
@click.argument("task", type=click.Choice(["translation", "classification", "couplet"]))
@click.option("--preset", default="default", show_default=True, help="tiny, default or paper.")
@click.option("--config", "config_file", type=click.Path(path_type=Path), help="A TOML file.")
@click.option("--data", type=click.Path(path_type=Path), help="The corpus folder.")
@click.option("--out", type=click.Path(path_type=Path), help="The new checkpoint folder.")
@click.option("--resume", is_flag=True, help="Go on with the run in --out.")
@click.option("--seed", type=int, help="Fixes the run; short for --set train.seed=N.")
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda or cuda:N.")
@click.option("--set", "assignments", multiple=True, metavar="SECTION.KEY=VALUE")
def train(
    task: str,
    preset: str,
    config_file: Path | None,
    data: Path | None,
    out: Path | None,
    resume: bool,
    seed: int | None,
    device: str,
    assignments: tuple[str, ...],
) -> None:
    """Train a model on a corpus and leave a checkpoint folder."""
    from core.training import choose_device
    from tasks import registry

    if seed is not None:
        assignments += (f"train.seed={seed}",)
    config = registry.make_config(
        task, preset=preset, config_file=config_file, assignments=assignments
    )
    registry.module(task, "train").train(
        config, data=data, out=out, device=choose_device(device), resume=resume
    )


if __name__ == "__main__":
    main()
