"""How probable a model finds a given output: teacher-forced, without any search."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from ..model.sequence_to_sequence import SequenceToSequence
from .ensemble import Ensemble


class PairScores(NamedTuple):
    """Natural logarithms of probabilities: of each token ``[T, B]``, 0 at padding, and of each
    whole output, their sum ``[B]``."""

    tokens: Tensor
    sentences: Tensor


def score(model: SequenceToSequence | Ensemble, src: Tensor, tgt: Tensor) -> PairScores:
    """The log-probability of ``tgt`` ``[T, B]`` given ``src`` ``[S, B]``, token by token.

    Probabilities are those of the searches, among the tokens that can come: an output that a search
    has found, with ``<eos>`` if it ended so, has the ``log_prob`` that the search gave it (unless a
    constraint forbade more). No search produces ``<unk>``; one in ``tgt`` is rated among the words
    and itself, so that an unknown word does not make the whole output impossible.

    Args:
        model: in evaluation mode, or dropout falsifies the result.
        tgt: the outputs without ``<bos>``; whether ``<eos>`` is rated depends on its being there.

    Raises:
        ValueError: ``<bos>`` in ``tgt``; batches of different sizes; sequences beyond the model's
            positions.
    """
    unk, pad, bos, _ = model.special
    if (tgt == bos).any():
        raise ValueError("tgt begins after <bos>: it holds the tokens to be rated, and no <bos>")
    with torch.inference_mode():
        given = torch.cat([torch.full_like(tgt[:1], bos), tgt[:-1]])
        tokens = torch.zeros(tgt.shape, device=tgt.device)
        for place, logits in enumerate(_logits(model, src, given)):
            logits[:, [pad, bos]] = -math.inf
            logits[:, unk].masked_fill_(tgt[place] != unk, -math.inf)
            tokens[place] = logits.log_softmax(dim=1).gather(1, tgt[place].unsqueeze(1)).squeeze(1)
        tokens = tokens.masked_fill(tgt == pad, 0.0)
    return PairScores(tokens, tokens.sum(dim=0))


def _logits(model: SequenceToSequence | Ensemble, src: Tensor, given: Tensor) -> Iterator[Tensor]:
    """What follows each position of ``given`` ``[T, B]``: T times ``[B, V]``, in float32.

    They are wide: they exist for one position at a time.
    """
    if isinstance(model, Ensemble):
        for each in zip(*(_logits(one, src, given) for one in model.models), strict=True):
            # The mean of the probabilities, times M, which no softmax notices.
            yield torch.stack([one.log_softmax(dim=1) for one in each]).logsumexp(dim=0)
    else:
        for hidden in model.decode(given, model.encode(src)):
            yield model.generator(hidden).float()
