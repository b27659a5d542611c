"""How probable a model finds a given output: teacher-forced, without any search."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ..model.sequence_to_sequence import SequenceToSequence


class PairScores(NamedTuple):
    """Natural logarithms of probabilities: of each token ``[T, B]``, 0 at padding, and of each
    whole output, their sum ``[B]``."""

    tokens: Tensor
    sentences: Tensor


def score(models: Sequence[SequenceToSequence], src: Tensor, tgt: Tensor) -> PairScores:
    """Returns the log-probability of ``tgt`` ``[T, B]`` given ``src`` ``[S, B]``, token by token.

    Several models are an ensemble: the mean of their probabilities counts. Probabilities are
    those of the searches, over the tokens that a search can choose. An output that a search has
    found, with its ``<eos>`` if it has one, gets the ``log_prob`` that the search gave it (unless a
    constraint forbade more). No search chooses ``<unk>``. An ``<unk>`` in ``tgt`` is scored over
    the words and itself, so an unknown word does not make the whole output impossible.

    Args:
        models: at least one, in evaluation mode.
        tgt: the outputs without ``<bos>``. ``<eos>`` is scored where it is present.

    Raises:
        ValueError: ``<bos>`` in ``tgt``; batches of different sizes; sequences longer than a
            model's positions.
    """
    unk, pad, bos, _ = models[0].special
    if (tgt == bos).any():
        raise ValueError("tgt begins after <bos>: it holds the tokens to be rated, and no <bos>")
    with torch.inference_mode():
        given = torch.cat([torch.full_like(tgt[:1], bos), tgt[:-1]])
        tokens = torch.zeros(tgt.shape, device=tgt.device)
        for place, logits in enumerate(_logits(models, src, given)):
            logits[:, [pad, bos]] = -math.inf
            logits[:, unk].masked_fill_(tgt[place] != unk, -math.inf)
            tokens[place] = logits.log_softmax(dim=1).gather(1, tgt[place].unsqueeze(1)).squeeze(1)
        tokens = tokens.masked_fill(tgt == pad, 0.0)
    return PairScores(tokens, tokens.sum(dim=0))


def _logits(models: Sequence[SequenceToSequence], src: Tensor, given: Tensor) -> Iterator[Tensor]:
    """Yields the float32 logits ``[B, V]`` after each of the T positions of ``given`` ``[T, B]``.

    Logits are large, so only those of one position exist at a time.
    """
    hidden = [model.decode(given, model.encode(src)) for model in models]
    for position in zip(*hidden, strict=True):
        logits = [
            model.generator(states).float() for model, states in zip(models, position, strict=True)
        ]
        if len(logits) == 1:
            yield logits[0]
        else:
            # The sum of the probabilities is M times their mean, which a softmax does not notice.
            yield torch.stack([one.log_softmax(dim=1) for one in logits]).logsumexp(dim=0)
