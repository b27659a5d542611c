"""How probable a model finds given pairs of texts: what both seq2seq predictors share."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from transformer_suite.core.inference.scoring import score
from transformer_suite.core.parallel import map_on_cores
from transformer_suite.data.batching import bucket_by_length
from transformer_suite.data.codec import TextCodec
from transformer_suite.data.vocabulary import EOS, UNK_ID
from transformer_suite.tasks.seq2seq.ensembles import TrainedModels
from transformer_suite.tasks.seq2seq.generation import DEFAULT_BATCH_TOKENS
from transformer_suite.tasks.seq2seq.pairs import source_tensor

# What JSON says of a number: more digits are the noise of one batch or another.
_DIGITS = 5


@dataclass(frozen=True)
class PairScore:
    """The log-probability (natural) of a target, given its source, token by token.

    ``tokens`` are the target's, ``<eos>`` at the end; each of ``log_probs`` is given the source and
    the tokens before. ``unknown`` of the tokens are not in the vocabulary, and rated as ``<unk>``
    is. Where source or target is too long for the model, it gives the pair no probability: every
    logarithm is minus infinity.
    """

    tokens: tuple[str, ...]
    log_probs: tuple[float, ...]
    unknown: int

    @property
    def log_prob(self) -> float:
        """The log-probability of the whole target, its end included."""
        return math.fsum(self.log_probs)

    @property
    def mean(self) -> float:
        """The log-probability a token; exp(-mean) is the perplexity."""
        return self.log_prob / len(self.tokens)

    def row(self) -> str:
        """The log-probability, the number of tokens and the mean, tabs between them.

        Without a probability the two are empty, which to ``sort -g`` and awk's ``$3 > -2`` is less
        than any number; "-inf" is a word to some of them.
        """
        log_prob, mean = (
            f"{x:.4f}" if math.isfinite(x) else "" for x in (self.log_prob, self.mean)
        )
        return f"{log_prob}\t{len(self.tokens)}\t{mean}"

    def record(self) -> dict[str, Any]:
        """What JSON, which has no infinity, says of it."""
        return {
            "log_prob": _finite(self.log_prob),
            "mean": _finite(self.mean),
            "tokens": list(self.tokens),
            "log_probs": [_finite(log_prob) for log_prob in self.log_probs],
            "unknown": self.unknown,
        }


def score_texts(
    models: TrainedModels,
    source: TextCodec,
    target: TextCodec,
    sources: Sequence[str],
    targets: Sequence[str],
    *,
    device: torch.device,
    batch_tokens: int = DEFAULT_BATCH_TOKENS,
    on_batch: Callable[[int], None] = lambda pairs: None,
) -> list[PairScore]:
    """The score of each of ``targets`` given the source at its place, in their order.

    Texts are taken whole, not sentence by sentence; an empty one is ``<eos>`` alone. Probabilities
    are those of the searches, see :mod:`core.inference.scoring`. The batch that a pair is in moves
    its score by rounding alone, some millionths of it.

    Args:
        batch_tokens: the most tokens that either side of a batch holds.
        on_batch: told how many pairs have just been finished.

    Raises:
        ValueError: not equally many sources and targets.
    """
    words = [target.tokenizer.tokenize(text) for text in targets]
    pairs = [
        (source.encode(text), target.vocabulary.encode(tokens))
        for text, tokens in zip(sources, words, strict=True)
    ]
    # One more on each side: both end in <eos>, which a decoder that begins with <bos> foretells.
    lengths = [(len(src) + 1, len(tgt) + 1) for src, tgt in pairs]
    log_probs = [[-math.inf] * length for _, length in lengths]
    fitting = [i for i, sides in enumerate(lengths) if max(sides) <= models.max_len]
    buckets = bucket_by_length([lengths[i] for i in fitting], batch_tokens=batch_tokens, seed=None)
    # The longest first, so that the last ones to be worked on are soon done.
    batches = [[fitting[i] for i in bucket] for bucket in reversed(buckets)]

    def score_batch(batch: Sequence[int]) -> list[list[float]]:
        src, tgt = (source_tensor(side) for side in zip(*(pairs[i] for i in batch), strict=True))
        return score(models, src.to(device), tgt.to(device)).tokens.t().tolist()

    workers = None if device.type == "cpu" else 1
    for batch, found in zip(
        batches, map_on_cores(score_batch, batches, workers=workers), strict=True
    ):
        for number, row in zip(batch, found, strict=True):
            log_probs[number] = row[: lengths[number][1]]
        on_batch(len(batch))
    return [
        PairScore((*tokens, EOS), tuple(row), tgt.count(UNK_ID))
        for tokens, row, (_, tgt) in zip(words, log_probs, pairs, strict=True)
    ]


def _finite(number: float) -> float | None:
    return round(number, _DIGITS) if math.isfinite(number) else None
