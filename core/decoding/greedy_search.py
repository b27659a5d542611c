"""Greedy search, and the loop of every search that keeps one output a sentence."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from ..special_ids import SpecialIds
from .largest import largest
from .search import (
    Constraint,
    Hypothesis,
    SearchState,
    Step,
    log_probabilities,
    mask_forbidden,
    without_gaps,
)

Choose = Callable[[Tensor, Tensor, int], Tensor]
"""From logits ``[R, V]`` (minus infinity where a token may not come), the sentence of each row
``[R]`` and the number of tokens so far to the next tokens ``[R]``. What it says of a row that every
token is forbidden to follow does not matter."""


def greedy_search(
    step: Step,
    state: SearchState,
    *,
    max_lengths: Tensor,
    special: SpecialIds = SpecialIds(),
    constraint: Constraint | None = None,
) -> list[Hypothesis]:
    """Takes the most probable token at every step.

    Args:
        max_lengths: ``[B]``, the most tokens (without ``<eos>``) that each output may have. Its
            length is the number of sentences.
        constraint: what else is forbidden, besides the special tokens that no output contains.

    Returns:
        One hypothesis a sentence. One that reaches its length limit, or that every token is
        forbidden to follow, ends there, and its probability is that of its tokens alone.
    """
    return search_one_by_one(
        step,
        state,
        lambda logits, sentences, place: largest(logits, 1)[1].squeeze(1),
        max_lengths=max_lengths,
        special=special,
        constraint=constraint,
    )


def search_one_by_one(
    step: Step,
    state: SearchState,
    choose: Choose,
    *,
    max_lengths: Tensor,
    special: SpecialIds,
    constraint: Constraint | None,
) -> list[Hypothesis]:
    """The token that ``choose`` names at every step; otherwise as :func:`greedy_search`."""
    count, device = len(max_lengths), max_lengths.device
    found: list[Hypothesis] = [Hypothesis([], 0.0, 0.0)] * count
    # The unfinished rows: their sentences and log-probabilities [R], and what they hold, [1 + t, R]
    # from <bos> on.
    alive = torch.arange(count, device=device)
    log_probs = torch.zeros(count, device=device)
    history = torch.full((1, count), special.bos, device=device)

    def retire(is_over: Tensor) -> Tensor:
        """Writes down the rows that are over, and returns the others' numbers."""
        nonlocal alive, log_probs, history
        outputs = history[1:, is_over].t().tolist()
        of_rows = zip(alive[is_over].tolist(), outputs, log_probs[is_over].tolist(), strict=True)
        for sentence, tokens, log_prob in of_rows:
            found[sentence] = Hypothesis(tokens, log_prob, log_prob)
        rows = without_gaps(~is_over)
        state.select(rows, rows)
        alive, log_probs, history = alive[rows], log_probs[rows], history[:, rows]
        return rows

    shortest_limit = int(max_lengths.min()) if count > 0 else 0
    while len(alive) > 0:
        if len(history) > shortest_limit:
            is_full = max_lengths[alive] < len(history)
            if is_full.any():
                retire(is_full)
                continue
        logits = step(history[-1], state)
        logits = mask_forbidden(logits, history[1:], alive, special, constraint)
        tokens = choose(logits, alive, len(history) - 1)
        chosen = log_probabilities(logits).gather(1, tokens.unsqueeze(1)).squeeze(1)
        is_stuck = chosen == -math.inf
        log_probs += chosen.masked_fill_(is_stuck, 0.0)
        is_over = is_stuck.logical_or_(tokens == special.eos)
        if is_over.any():
            tokens = tokens[retire(is_over)]
        history = torch.cat([history, tokens.unsqueeze(0)])
    return found
