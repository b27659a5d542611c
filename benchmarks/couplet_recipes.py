"""Recipes of couplet training that need more than an option of ``cli.py train couplet``.

    python -m benchmarks.couplet_recipes corpora --data couplet --out corpora
    python -m benchmarks.couplet_recipes separate --data couplet --out runs/separate

``corpora`` writes two folders of couplets for the study of verse. In ``tagged``, both lines of a
couplet of ``verse`` begin with a tag, so that the model learns from verse without writing it. In
``verse_first``, as many couplets of verse take the place of the training couplets; a run on it is
the first stage, and the next one starts from it with ``--init``.

``separate`` trains the preset ``small`` with an embedding table for each line.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import torch

from core.config import override
from core.model.sequence_to_sequence import SequenceToSequence
from tasks.couplet.config import CoupletTransformerConfig, small
from tasks.couplet.model import Alignment
from tasks.couplet.train import CoupletTraining
from tasks.runs import run
from tasks.runs.run import RunOptions

TAG = "诗"
FILES = ("in.txt", "out.txt")


def write_corpora(data: Path, out: Path) -> None:
    """Writes the folders ``tagged`` and ``verse_first``."""
    for name in ("train", "val", "test"):
        shutil.copytree(data / name, out / "tagged" / name)
    for name in ("val", "test"):
        shutil.copytree(data / name, out / "verse_first" / name)
    (out / "tagged" / "verse").mkdir()
    (out / "verse_first" / "train").mkdir()
    for file in FILES:
        couplets = (data / "train" / file).read_text("utf-8").splitlines()
        verse = (data / "verse" / file).read_text("utf-8").splitlines()
        tagged = "".join(f"{TAG} {line}\n" for line in verse)
        (out / "tagged" / "verse" / file).write_text(tagged, "utf-8")
        first = "".join(f"{line}\n" for line in verse[: len(couplets)])
        (out / "verse_first" / "train" / file).write_text(first, "utf-8")


class SeparateTables(SequenceToSequence):
    """The aligned couplet model with an embedding table for each line."""

    def __init__(self, vocab_size: int, config: CoupletTransformerConfig) -> None:
        super().__init__(
            vocab_size, vocab_size, config, share_embeddings=False, tie_output=config.tie_output
        )
        self.alignment = Alignment(config.d_model)

    @property
    def source_reader(self) -> Alignment:
        return self.alignment


class SeparateTraining(CoupletTraining):
    """The training of :class:`SeparateTables`."""

    model_class = SeparateTables


def main() -> None:
    parser = argparse.ArgumentParser(description="Prepare or train recipes of couplet models.")
    parser.add_argument("recipe", choices=("corpora", "separate"))
    parser.add_argument("--data", type=Path, required=True, help="folders train, val, test, verse")
    parser.add_argument("--out", type=Path, required=True, help="a new folder")
    parser.add_argument("--set", action="append", default=[], help="an option of the training")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    if options.recipe == "corpora":
        write_corpora(options.data, options.out)
        return
    torch.set_num_threads(options.threads)
    config = override(small(), ["train.precision=fp32", *options.set])
    run_options = RunOptions(data=options.data, out=options.out, device=torch.device("cpu"))
    run.train(config, run_options, SeparateTraining, task="couplet")


if __name__ == "__main__":
    main()
