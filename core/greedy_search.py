"""Greedy search, and the loop of every search that keeps one output a sentence."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

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
from .sequence_to_sequence import SpecialIds

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
    outputs: list[list[int]] = [[] for _ in range(count)]
    log_probs = torch.zeros(count, device=device)
    alive = torch.arange(count, device=device)
    history = torch.full((1, count), special.bos, device=device)  # [1 + t, R], from <bos> on
    while len(alive) > 0:
        is_full = max_lengths[alive] < len(history)
        if is_full.any():
            _retire(outputs, history, alive, is_full)
            alive, history = _keep(state, ~is_full, alive, history)
            continue
        logits = step(history[-1], state)
        logits = mask_forbidden(logits, history[1:], alive, special, constraint)
        tokens = choose(logits, alive, len(history) - 1)
        chosen = log_probabilities(logits).gather(1, tokens.unsqueeze(1)).squeeze(1)
        is_stuck = chosen == -math.inf
        log_probs[alive] += chosen.masked_fill(is_stuck, 0.0)
        is_over = is_stuck | (tokens == special.eos)
        if is_over.any():
            _retire(outputs, history, alive, is_over)
            alive, history = _keep(state, ~is_over, alive, history)
            tokens = tokens[without_gaps(~is_over)]
        history = torch.cat([history, tokens.unsqueeze(0)])
    return [
        Hypothesis(output, log_prob, log_prob)
        for output, log_prob in zip(outputs, log_probs.tolist(), strict=True)
    ]


def _retire(outputs: list[list[int]], history: Tensor, alive: Tensor, is_over: Tensor) -> None:
    """Writes down the rows that are over, for their sentences."""
    found = history[1:, is_over].t().tolist()
    for sentence, tokens in zip(alive[is_over].tolist(), found, strict=True):
        outputs[sentence] = tokens


def _keep(
    state: SearchState, is_kept: Tensor, alive: Tensor, history: Tensor
) -> tuple[Tensor, Tensor]:
    rows = without_gaps(is_kept)
    state.select(rows, rows)
    return alive[rows], history[:, rows]
