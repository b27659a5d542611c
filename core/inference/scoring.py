"""The probability of a given output, teacher-forced, without a search."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ..errors import UserError
from ..model.sequence_to_sequence import SequenceToSequence


class PairScores(NamedTuple):
    """Natural logarithms of probabilities."""

    tokens: Tensor
    """``[T, B]``, of each token; 0 at padding."""
    sentences: Tensor
    """``[B]``, of each whole output: the sum over its tokens."""


def score(models: Sequence[SequenceToSequence], src: Tensor, tgt: Tensor) -> PairScores:
    """Returns the log-probability of ``tgt`` ``[T, B]`` given ``src`` ``[S, B]``, token by token.

    Several models are an ensemble, whose probabilities are the mean of theirs. As in a search, only
    tokens that can be chosen have a probability. An output that a search has found, with its
    ``<eos>`` if it has one, gets the ``log_prob`` of the search (without further constraints). No
    search chooses ``<unk>``. An ``<unk>`` in ``tgt`` is scored over the words and itself, so an
    unknown word does not make the whole output impossible.

    Args:
        models: at least one, in evaluation mode.
        tgt: the outputs without ``<bos>``. ``<eos>`` is scored where it is present.

    Raises:
        UserError: the models return NaN.
        ValueError: ``<bos>`` in ``tgt``; batches of different sizes; sequences longer than a
            model's positions.
    """
    unk, pad, bos, _ = models[0].special
    if (tgt == bos).any():
        raise ValueError("tgt begins after <bos>: it contains the tokens to score, but no <bos>")
    with torch.inference_mode():
        given = torch.cat([torch.full_like(tgt[:1], bos), tgt[:-1]])
        tokens = torch.zeros(tgt.shape, device=tgt.device)
        for position, logits in enumerate(_logits(models, src, given)):
            logits[:, [pad, bos]] = -math.inf
            logits[:, unk].masked_fill_(tgt[position] != unk, -math.inf)
            chosen = logits.log_softmax(dim=1).gather(1, tgt[position].unsqueeze(1))
            tokens[position] = chosen.squeeze(1)
        tokens = tokens.masked_fill(tgt == pad, 0.0)
        if tokens.isnan().any():
            raise UserError("the model returned NaN; its weights are damaged")
    return PairScores(tokens, tokens.sum(dim=0))


def _logits(models: Sequence[SequenceToSequence], src: Tensor, given: Tensor) -> Iterator[Tensor]:
    """Yields the float32 logits ``[B, V]`` after each of the T positions of ``given`` ``[T, B]``.

    Logits are large, so only those of one position exist at a time.
    """
    hidden = [model.decode(given, model.encode(src)) for model in models]
    for at_position in zip(*hidden, strict=True):
        pairs = zip(models, at_position, strict=True)
        logits = [model.generator(states).float() for model, states in pairs]
        if len(logits) == 1:
            yield logits[0]
        else:
            # The sum of the probabilities is M times their mean. The softmax removes the factor.
            yield torch.stack([of.log_softmax(dim=1) for of in logits]).logsumexp(dim=0)
