"""The probability that a model gives to pairs of texts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from core.inference.scoring import score
from core.model.sequence_to_sequence import SequenceToSequence
from core.parallel import map_on_cores
from data.batching import bucket_by_length
from data.codec import TextCodec
from data.vocabulary import EOS, UNK_ID
from tasks.seq2seq.batches import source_tensor
from tasks.seq2seq.request import OnBatch, batch_tokens_on, ignore_batch

# The decimal places of numbers in JSON. More digits would differ from batch to batch.
_DIGITS = 5


@dataclass(frozen=True)
class PairScore:
    """The log-probability (natural logarithm) of a target given its source, token by token.

    ``tokens`` are those of the target, with ``<eos>`` at the end. Each of ``log_probs`` is
    conditioned on the source and the tokens before. ``unknown`` counts the tokens that are not in
    the vocabulary, which are scored as ``<unk>``. If the source or the target is too long for the
    model, the pair has no probability: every logarithm is minus infinity.
    """

    tokens: tuple[str, ...]
    log_probs: tuple[float, ...]
    unknown: int

    @property
    def log_prob(self) -> float:
        """The log-probability of the whole target, ``<eos>`` included."""
        return math.fsum(self.log_probs)

    @property
    def mean(self) -> float:
        """The log-probability per token; exp(-mean) is the perplexity."""
        return self.log_prob / len(self.tokens)

    def row(self) -> str:
        """Returns the log-probability, the number of tokens and the mean, separated by tabs.

        Without a probability the first and the last are empty, for ``sort`` a small number.
        """
        numbers = (self.log_prob, self.mean)
        log_prob, mean = (f"{x:.4f}" if math.isfinite(x) else "" for x in numbers)
        return f"{log_prob}\t{len(self.tokens)}\t{mean}"

    def record(self) -> dict[str, Any]:
        """Returns the fields of the JSON output; JSON has no infinity, so null stands for it."""
        return {
            "log_prob": _finite(self.log_prob),
            "mean": _finite(self.mean),
            "tokens": list(self.tokens),
            "log_probs": [_finite(log_prob) for log_prob in self.log_probs],
            "unknown": self.unknown,
        }


def score_texts(
    models: Sequence[SequenceToSequence],
    codecs: tuple[TextCodec, TextCodec],
    sources: Sequence[str],
    targets: Sequence[str],
    *,
    device: torch.device,
    batch_tokens: int | None = None,
    on_batch: OnBatch = ignore_batch,
) -> list[PairScore]:
    """Returns the score of each of ``targets`` given the source at its position.

    Texts are scored whole, not sentence by sentence. An empty text is ``<eos>`` alone. The
    probabilities are those of the searches (:mod:`core.inference.scoring`).

    Args:
        models: one, or those of an ensemble.
        codecs: of source and target.
        batch_tokens: the most tokens on either side of a batch; None: :func:`.batch_tokens_on`.
        on_batch: gets the number of pairs that have just been finished.
    """
    source, target = codecs
    tokens = [target.tokenizer.tokenize(text) for text in targets]
    pairs = [
        (source.encode(text), target.vocabulary.encode(words))
        for text, words in zip(sources, tokens, strict=True)
    ]
    # One more on each side: both end in <eos>.
    lengths = [(len(src) + 1, len(tgt) + 1) for src, tgt in pairs]
    log_probs = [[-math.inf] * length for _, length in lengths]
    limit = min(model.config.max_len for model in models)
    fitting = [i for i, sides in enumerate(lengths) if max(sides) <= limit]
    most = batch_tokens_on(device, batch_tokens)
    buckets = bucket_by_length([lengths[i] for i in fitting], batch_tokens=most, seed=None)
    # The longest first, so that no core is left with a long batch at the end.
    batches = [[fitting[i] for i in bucket] for bucket in reversed(buckets)]

    def score_batch(batch: Sequence[int]) -> list[list[float]]:
        src, tgt = (source_tensor(side) for side in zip(*(pairs[i] for i in batch), strict=True))
        return score(models, src.to(device), tgt.to(device)).t().tolist()

    scored = map_on_cores(score_batch, batches, workers=None if device.type == "cpu" else 1)
    for batch, rows in zip(batches, scored, strict=True):
        for index, row in zip(batch, rows, strict=True):
            log_probs[index] = row[: lengths[index][1]]
        on_batch(len(batch))
    return [
        PairScore((*words, EOS), tuple(row), tgt.count(UNK_ID))
        for words, row, (_, tgt) in zip(tokens, log_probs, pairs, strict=True)
    ]


def _finite(number: float) -> float | None:
    return round(number, _DIGITS) if math.isfinite(number) else None
