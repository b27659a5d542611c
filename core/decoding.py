"""Searching for an output sequence: the door to every search, and the simplest one to call.

Each search stands in a file of its own; what they share, and the contract with the model that they
search, is in ``search``.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .beam_search import beam_search, length_normaliser
from .diverse_beam_search import diverse_beam_search
from .ensemble import Ensemble
from .greedy_search import greedy_search
from .sampling import sample_search
from .scoring import PairScores, score
from .search import Constraint, Hypothesis, SearchState, Step
from .search_rules import ForbiddenTokens, ForcedPrefix, MinimumLength, NoRepeatNgram, all_of
from .sequence_to_sequence import SequenceToSequence

__all__ = [
    "Constraint",
    "Ensemble",
    "ForbiddenTokens",
    "ForcedPrefix",
    "Hypothesis",
    "MinimumLength",
    "NoRepeatNgram",
    "PairScores",
    "SearchState",
    "Step",
    "all_of",
    "beam_search",
    "diverse_beam_search",
    "greedy_decode",
    "greedy_search",
    "length_normaliser",
    "sample_search",
    "score",
]


def greedy_decode(
    model: SequenceToSequence, src: Tensor, *, max_lengths: Tensor | None = None
) -> list[list[int]]:
    """The most probable token at every step, for a batch ``src`` ``[S, B]``.

    Args:
        model: in evaluation mode, or dropout falsifies the result.
        max_lengths: ``[B]``; without it an output may be twice as long as its source, plus ten.

    Returns:
        The output ids of each sentence, without special tokens.
    """
    with torch.inference_mode():
        state = model.start(src)
        if max_lengths is None:
            max_lengths = 2 * (src != model.special.pad).sum(dim=0) + 10
        limit = torch.clamp(max_lengths, max=model.config.max_len - 1)
        found = greedy_search(model.step, state, max_lengths=limit, special=model.special)
    return [hypothesis.tokens for hypothesis in found]
