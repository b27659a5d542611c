"""Greedy decoding with a model, in one call."""

from __future__ import annotations

import torch
from torch import Tensor

from core.decoding.greedy_search import greedy_search
from core.inference.incremental_model import IncrementalModel
from core.model.sequence_to_sequence import SequenceToSequence


def greedy_decode(
    model: SequenceToSequence, src: Tensor, *, max_lengths: Tensor | None = None
) -> list[list[int]]:
    """Returns the most probable token at every step, for a batch ``src`` ``[S, B]``.

    It takes a snapshot of ``model`` (:class:`IncrementalModel`), which is worth keeping where there
    are many batches. Dropout is not applied.

    Args:
        max_lengths: ``[B]``; by default an output may be twice as long as its source, plus ten.

    Returns:
        The output ids of each sentence, without special tokens.
    """
    prepared = IncrementalModel(model)
    if max_lengths is None:
        max_lengths = 2 * (src != model.special.pad).sum(dim=0) + 10
    with torch.inference_mode():
        found = greedy_search(
            prepared.step,
            prepared.start(src),
            max_lengths=torch.clamp(max_lengths, max=prepared.max_len - 1),
            special=prepared.special,
        )
    return [hypothesis.tokens for hypothesis in found]
