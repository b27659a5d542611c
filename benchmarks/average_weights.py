#!/usr/bin/env python3
"""Averages the weights of several checkpoints of one training, each with its share.

    python -m benchmarks.average_weights runs/last=3 runs/last/training/state.safetensors=3 \
        runs/before=1 --out runs/average

Checkpoints that began with the same weights often have a mean that is better than each of them
(Wortsman et al. 2022). Each one is a run folder, of which ``model.safetensors`` counts, or the
state of an interrupted run. The folder that is written has the other files of the first run.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import click
import torch
from safetensors import safe_open

from core.storage.checkpoint import WEIGHTS_FILE, read_digests, save_weights
from tasks.translation.predict import Translator


@click.command(help=(__doc__ or "").split("\n")[0])
@click.argument("checkpoints", nargs=-1, required=True, metavar="CHECKPOINT=SHARE...")
@click.option("--out", type=click.Path(path_type=Path), required=True)
def main(checkpoints: tuple[str, ...], out: Path) -> None:
    if out.exists():
        raise click.UsageError(f"{out} exists: --out needs the name of a new folder")
    parts = (text.rpartition("=") for text in checkpoints)
    shares = {Path(name): float(share) for name, _, share in parts}
    first = next(iter(shares))
    model = Translator.load(first, device="cpu").models[0]
    sums = {name: torch.zeros_like(p, dtype=torch.double) for name, p in model.named_parameters()}
    for path, share in shares.items():
        prefix, file = ("", path / WEIGHTS_FILE) if path.is_dir() else ("model.", path)
        with safe_open(file, "pt") as tensors:
            for name in sums:
                sums[name] += share / sum(shares.values()) * tensors.get_tensor(prefix + name)
    model.load_state_dict({**model.state_dict(), **{name: t.float() for name, t in sums.items()}})
    shutil.copytree(first, out, ignore=shutil.ignore_patterns("training", WEIGHTS_FILE))
    digests = read_digests(first / WEIGHTS_FILE)
    save_weights(out / WEIGHTS_FILE, model, dtype=torch.float32, digests=digests)


if __name__ == "__main__":
    main()
