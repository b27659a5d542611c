#!/usr/bin/env python3
"""Averages the weights of several checkpoints of one training, each with a whole number as share.

    python -m benchmarks.average_weights runs/last=3 runs/last/training/state.safetensors=3 \
        runs/before=1 --out runs/average

Checkpoints that began with the same weights often have a mean that is better than each of them
(Wortsman et al. 2022). Each one is a run folder, of which ``model.safetensors`` counts, or the
state of an interrupted run. The folder that is written has the other files of the first run.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import torch

from core.storage.checkpoint import (
    WEIGHTS_FILE,
    as_stored,
    average_weights,
    load_tensors,
    read_digests,
    save_tensors,
)


def write_weights(state: Path, path: Path) -> Path:
    """Writes the weights in the state of a run as a file of their own, and returns its path."""
    tensors = load_tensors(state).items()
    names = {name.removeprefix("model."): t for name, t in tensors if name.startswith("model.")}
    save_tensors(path, names)
    return path


@click.command(help=(__doc__ or "").split("\n")[0])
@click.argument("checkpoints", nargs=-1, required=True, metavar="CHECKPOINT=SHARE...")
@click.option("--out", type=click.Path(path_type=Path), required=True)
@click.option("--int8", is_flag=True, help="Store the weights in eight bits.")
def main(checkpoints: tuple[str, ...], out: Path, int8: bool) -> None:
    if out.exists():
        raise click.UsageError(f"{out} exists: --out needs the name of a new folder")
    parts = (text.rpartition("=") for text in checkpoints)
    shares = {Path(name): int(share) for name, _, share in parts}
    first = next(iter(shares))
    files: list[Path] = []
    with TemporaryDirectory() as folder:
        for path, share in shares.items():
            if path.is_dir():
                file = path / WEIGHTS_FILE
            else:
                file = write_weights(path, Path(folder) / str(len(files)))
            files += [file] * share
        average = average_weights(files)
    shutil.copytree(first, out, ignore=shutil.ignore_patterns("training", WEIGHTS_FILE))
    stored = as_stored(average, torch.int8 if int8 else None)
    save_tensors(out / WEIGHTS_FILE, stored, digests=read_digests(first / WEIGHTS_FILE))


if __name__ == "__main__":
    main()
