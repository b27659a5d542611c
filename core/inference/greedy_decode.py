"""Greedy decoding with a model, in one call."""

from __future__ import annotations

import torch
from torch import Tensor

from ..decoding.greedy_search import greedy_search
from ..model.sequence_to_sequence import SequenceToSequence


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
