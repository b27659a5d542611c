"""Greedy search, and the loop that it shares with sampling: one output for each sentence."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from core.decoding.search import (
    Constraint,
    Hypothesis,
    Record,
    SearchState,
    Step,
    compact_indices,
    log_probabilities,
    mask_forbidden,
)
from core.special_ids import SpecialIds

ChooseTokens = Callable[[Tensor, Tensor, int], Tensor]
"""From logits ``[R, V]`` (minus infinity where a token is forbidden), the sentence of each row
``[R]`` and the number of tokens so far to the next tokens ``[R]``. The answer for a row whose every
token is forbidden is ignored."""


def greedy_search(
    step: Step,
    state: SearchState,
    *,
    max_lengths: Tensor,
    special: SpecialIds = SpecialIds(),
    constraint: Constraint | None = None,
    record: Record | None = None,
) -> list[Hypothesis]:
    """Takes the most probable token at every step; of equally probable ones, the lowest id.

    Args:
        max_lengths: ``[B]``, the most tokens (without ``<eos>``) that each output may have. Its
            length is the number of sentences.
        constraint: further forbidden tokens, besides the special tokens that no output contains.

    Returns:
        One hypothesis for each sentence. An output ends where it reaches its length limit or where
        every next token is forbidden. Its probability is then that of its tokens alone.

    Raises:
        UserError: NaN or infinite logits.
    """

    def choose(logits: Tensor, sentences: Tensor, position: int) -> Tensor:
        return logits.argmax(dim=1)

    return search_single_outputs(step, state, choose, max_lengths, special, constraint, record)


def search_single_outputs(
    step: Step,
    state: SearchState,
    choose: ChooseTokens,
    max_lengths: Tensor,
    special: SpecialIds,
    constraint: Constraint | None,
    record: Record | None,
) -> list[Hypothesis]:
    """Extends every output by the tokens that ``choose`` returns; see :func:`greedy_search`."""
    rows = Rows(max_lengths, special.bos)
    while len(rows.sentences) > 0:
        is_full = rows.is_full()
        if is_full is not None:
            rows.finish(is_full, state)
            continue
        logits = step(rows.history[-1], state)
        outputs, sentences = rows.history[1:], rows.sentences
        logits = mask_forbidden(logits, outputs, sentences, special, constraint)
        tokens = choose(logits, sentences, len(outputs))
        log_probs = log_probabilities(logits)
        if record is not None:
            totals = (rows.log_probs.unsqueeze(1) + log_probs).unsqueeze(1)
            record(rows.history, totals, torch.zeros_like(tokens[:, None]), tokens[:, None], 1)
        chosen = log_probs.gather(1, tokens.unsqueeze(1)).squeeze(1)
        is_stuck = chosen == -math.inf
        rows.log_probs += chosen.masked_fill_(is_stuck, 0.0)
        is_finished = is_stuck.logical_or_(tokens == special.eos)
        if is_finished.any():
            tokens = tokens[rows.finish(is_finished, state)]
        rows.history = torch.cat([rows.history, tokens.unsqueeze(0)])
    return rows.hypotheses


class Rows:
    """The R unfinished outputs, one row for each sentence, and the hypotheses of the others."""

    def __init__(self, max_lengths: Tensor, bos: int) -> None:
        count, device = len(max_lengths), max_lengths.device
        self.max_lengths = max_lengths  # [R]
        self.sentences = torch.arange(count, device=device)  # [R], the sentence numbers
        self.log_probs = torch.zeros(count, device=device)  # [R]
        self.history = torch.full((1, count), bos, device=device)  # [1 + t, R], from <bos> on
        self.hypotheses = [Hypothesis([], 0.0, 0.0)] * count
        self._shortest_limit = int(max_lengths.min()) if count > 0 else 0

    def is_full(self) -> Tensor | None:
        """Returns which rows are at their length limit, ``[R]``, or None if none is."""
        if len(self.history) <= self._shortest_limit:
            return None
        is_full = self.max_lengths < len(self.history)
        return is_full if is_full.any() else None

    def finish(self, is_finished: Tensor, state: SearchState) -> Tensor:
        """Stores the outputs of the finished rows ``[R]`` and returns the indices of the others.

        Those are the only rows left, in this order, here and in ``state``.
        """
        for sentence, tokens, log_prob in zip(
            self.sentences[is_finished].tolist(),
            self.history[1:, is_finished].t().tolist(),
            self.log_probs[is_finished].tolist(),
            strict=True,
        ):
            self.hypotheses[sentence] = Hypothesis(tokens, log_prob, log_prob)
        kept = compact_indices(~is_finished)
        state.select(kept, kept)
        self.max_lengths, self.sentences = self.max_lengths[kept], self.sentences[kept]
        self.log_probs, self.history = self.log_probs[kept], self.history[:, kept]
        return kept
