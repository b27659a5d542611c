"""From source ids to output ids, many sentences at a time: what both seq2seq predictors share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from core.config import GenerationConfig
from core.decoding import Constraint, Hypothesis, beam_search, greedy_search
from core.sequence_to_sequence import SequenceToSequence
from data.batching import bucket_by_length
from tasks.pairs import source_tensor

# Enough rows to keep matrix products busy, few enough to stay in the processor's cache.
DEFAULT_BATCH_TOKENS = 3000

ConstraintMaker = Callable[[Sequence[int]], Constraint]
"""From the numbers of a batch's sources to the rules that their outputs must keep."""


def generate(
    model: SequenceToSequence,
    sources: Sequence[Sequence[int]],
    options: GenerationConfig,
    *,
    device: torch.device,
    batch_tokens: int = DEFAULT_BATCH_TOKENS,
    max_lengths: Sequence[int] | None = None,
    make_constraint: ConstraintMaker | None = None,
    on_batch: Callable[[int], None] = lambda sentences: None,
) -> list[list[Hypothesis]]:
    """The hypotheses of every source, the best first, in the order of the sources.

    Args:
        max_lengths: the most tokens of each output; without it ``options`` decides.
        on_batch: told how many sentences have just been finished.
    """
    if max_lengths is None:
        max_lengths = [options.max_length(len(source)) for source in sources]
    lengths = [(len(source) + 1,) for source in sources]
    results: list[list[Hypothesis]] = [[] for _ in sources]
    for indices in bucket_by_length(lengths, batch_tokens=batch_tokens, seed=None):
        src = source_tensor([sources[i] for i in indices]).to(device)
        # The last position that the model knows is taken by the token that predicts <eos>.
        limits = [min(max_lengths[i], model.config.max_len - 1) for i in indices]
        constraint = None if make_constraint is None else make_constraint(indices)
        found = search(model, src, options, torch.tensor(limits, device=device), constraint)
        for index, hypotheses in zip(indices, found, strict=True):
            results[index] = hypotheses
        on_batch(len(indices))
    return results


def search(
    model: SequenceToSequence,
    src: Tensor,
    options: GenerationConfig,
    max_lengths: Tensor,
    constraint: Constraint | None,
) -> list[list[Hypothesis]]:
    """Greedy or beam search, as ``options`` has it, for one batch ``src`` ``[S, B]``."""
    with torch.inference_mode():
        state = model.start(src)
        if options.beam_size == 1:
            found = greedy_search(
                model.step,
                state,
                max_lengths=max_lengths,
                special=model.special,
                constraint=constraint,
            )
            return [[hypothesis] for hypothesis in found]
        return beam_search(
            model.step,
            state,
            beam_size=options.beam_size,
            max_lengths=max_lengths,
            length_penalty=options.length_penalty,
            special=model.special,
            constraint=constraint,
        )
