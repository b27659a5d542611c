"""How probable a model finds a given output: teacher-forced, without any search."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from .sequence_to_sequence import SequenceToSequence


class PairScores(NamedTuple):
    """Natural logarithms of probabilities: of each token ``[T, B]``, 0 at padding, and of each
    whole output, their sum ``[B]``."""

    tokens: Tensor
    sentences: Tensor


def score(model: SequenceToSequence, src: Tensor, tgt: Tensor) -> PairScores:
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
        # Logits are wide: they exist for one position at a time.
        for place, hidden in enumerate(model.decode(given, model.encode(src))):
            logits = model.generator(hidden).float()
            is_rated = torch.ones_like(logits, dtype=torch.bool)
            is_rated[:, [pad, bos]] = False
            is_rated[:, unk] = tgt[place] == unk
            logits = logits.masked_fill(~is_rated, -math.inf)
            tokens[place] = logits.log_softmax(dim=1).gather(1, tgt[place].unsqueeze(1)).squeeze(1)
        tokens = tokens.masked_fill(tgt == pad, 0.0)
    return PairScores(tokens, tokens.sum(dim=0))
