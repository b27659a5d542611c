"""Trains a couplet model further, on couplets and on judged answers.

    python -m benchmarks.couplet_preferences --data modern --init MODEL --out runs/judged

``--data`` has the folders of ``couplet_recipes modern``; the settings are in
``couplet_recipe/judged.toml``, unless ``--config`` names others.

A row of ``couplet_judged.tsv`` is a first line, then an answer of a model and the points from 0 to
6 that a reader gave to it, then the next answer and its points, with tabs between. Two answers to
the same first line are a pair if their points differ by at least ``GAP``. The better one should be
more probable, so a pair has the loss (Xu et al. 2024, *Contrastive Preference Optimization*,
section 3)

    -log sigmoid(beta (log P(better | first) - log P(worse | first))).

It is the loss of direct preference optimization (Rafailov et al. 2023, equation 7) with a uniform
reference model. All answers to a first line have its length, so no length normalization is needed.
Each batch of couplets draws ``LINES`` judged lines of about one length. Its loss is the
cross-entropy of the couplets plus the mean loss of these lines; the loss of a line is the mean over
its pairs.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import torch
import torch.nn.functional as F
from torch import Tensor

from core.model.sequence_to_sequence import Memory, SequenceToSequence
from data.batching import pad_sequence
from data.vocabulary import BOS_ID, EOS_ID, PAD_ID
from tasks.couplet.train import CoupletTraining
from tasks.runs import run
from tasks.runs.config import make_config
from tasks.runs.training import RunOptions
from tasks.seq2seq.batches import source_tensor
from tasks.task import task_named

RECIPE = Path(__file__).with_name("couplet_recipe")
JUDGED = Path(__file__).with_name("couplet_judged.tsv")
GAP = 2
"""The least difference between the points of a pair."""
BETA = 0.3
WEIGHT = 1.0
"""Of the loss of the judged answers, as a multiple of the loss of a token of the couplets."""
LINES = 16
"""The judged lines beside each batch, or each microbatch."""
NEAR = 200
"""They are drawn from this many neighbors in the order of lengths, so that little is padding."""


class JudgedLine(NamedTuple):
    """A first line, its answers, and their points."""

    first: str
    answers: Sequence[str]
    points: Sequence[int]


def read_judged(path: Path = JUDGED) -> list[JudgedLine]:
    """Returns the judged lines in a file."""
    rows = (line.split("\t") for line in path.read_text("utf-8").splitlines())
    return [JudgedLine(first, rest[::2], [*map(int, rest[1::2])]) for first, *rest in rows]


def log_probs(model: SequenceToSequence, src: Tensor, tgt: Tensor, line: Tensor) -> Tensor:
    """Returns log P of each target, ``[N]``.

    ``src`` ``[S, B]``, ``tgt`` ``[T, N]``; ``line`` ``[N]`` is the source of each target.
    """
    states, is_pad, added = model.encode(src)
    memory = Memory(states[:, line], is_pad[line], None if added is None else added[:, line])
    logits = model.generator(model.decode(tgt[:-1], memory)).flatten(0, 1)
    losses = F.cross_entropy(logits, tgt[1:].flatten(), ignore_index=PAD_ID, reduction="none")
    return -losses.view(tgt[1:].shape).sum(0)


def preference_loss(scores: Tensor, points: Tensor) -> Tensor:
    """Returns the loss of one line from the log-probabilities ``[N]`` and points of its answers.

    It is 0 if no two answers are ``GAP`` points apart.
    """
    is_better = points.unsqueeze(1) - points >= GAP
    gains = (scores.unsqueeze(1) - scores)[is_better]
    return -F.logsigmoid(BETA * gains).sum() / max(1, len(gains))


class JudgedTraining(CoupletTraining):
    """The training of a couplet model on couplets and on judged answers."""

    def __init__(self, config: Any, options: RunOptions, vocabulary: Path | None) -> None:
        super().__init__(config, options, vocabulary)
        couplet_loss, judged = self.loss, sorted(read_judged(), key=lambda line: len(line.first))

        def loss(batch: tuple[Tensor, ...]) -> tuple[Tensor, int]:
            total, count = couplet_loss(batch)
            # The same batch draws the same lines, in whichever thread.
            rng = random.Random(crc32(batch[1].cpu().numpy().tobytes()))
            start = rng.randrange(max(1, len(judged) - NEAR))
            lines = rng.sample(judged[start : start + NEAR], LINES)
            return total + WEIGHT * count * self.judged_loss(lines), count

        self.loss = loss

    def judged_loss(self, lines: Sequence[JudgedLine]) -> Tensor:
        """Returns the mean of :func:`preference_loss` over ``lines``."""
        encode, device = self.dataset.codec.vocabulary.encode, self.options.device
        counts = [len(line.answers) for line in lines]
        src = source_tensor([encode([*line.first]) for line in lines]).to(device)
        answers = [encode([*answer]) for line in lines for answer in line.answers]
        tgt = pad_sequence([[BOS_ID, *answer, EOS_ID] for answer in answers]).to(device)
        line = torch.arange(len(lines), device=device).repeat_interleave(torch.tensor(counts))
        scores = log_probs(self.model, src, tgt, line).split(counts)
        points = (torch.tensor(line.points, device=device) for line in lines)
        return torch.stack([*map(preference_loss, scores, points)]).mean()


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a couplet model on judged answers too.")
    parser.add_argument("--data", type=Path, required=True, help="folders train, val, test")
    parser.add_argument("--init", type=Path, required=True, help="the model to start from")
    parser.add_argument("--out", type=Path, required=True, help="a new folder")
    parser.add_argument("--config", type=Path, default=RECIPE / "judged.toml")
    parser.add_argument("--set", action="append", default=[], help="an option of the training")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    run_options = RunOptions(
        data=options.data, out=options.out, init=options.init, device=torch.device("cpu")
    )
    config = make_config(
        task_named("couplet"),
        config_file=options.config,
        assignments=options.set,
        init=options.init,
    )
    run.train(config, run_options, JudgedTraining)


if __name__ == "__main__":
    main()
