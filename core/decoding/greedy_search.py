"""Greedy search, and the loop that it shares with sampling: one output for each sentence."""

import math
from collections.abc import Callable, Sequence
from itertools import compress

import torch
from torch import Tensor

from core.decoding.search import (
    Constraint,
    Hypothesis,
    Record,
    SearchState,
    Step,
    argmax,
    check_log_probs,
    compact_indices,
    log_probabilities,
    mask_forbidden,
)
from core.special_ids import BOS_ID, EOS_ID

ChooseTokens = Callable[[Tensor, Tensor, int], Tensor]
"""From logits ``[R, V]`` (minus infinity where a token is forbidden), the sentence of each row
``[R]`` and the number of tokens so far to the next tokens ``[R]``. The answer for a row whose every
token is forbidden is ignored."""


def greedy_search(
    step: Step,
    state: SearchState,
    *,
    max_lengths: Tensor,
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
        return argmax(logits)

    return search_single_outputs(step, state, choose, max_lengths, constraint, record)


def search_single_outputs(
    step: Step,
    state: SearchState,
    choose: ChooseTokens,
    max_lengths: Tensor,
    constraint: Constraint | None,
    record: Record | None,
) -> list[Hypothesis]:
    """Extends every output by the tokens that ``choose`` returns; see :func:`greedy_search`."""
    rows = Rows(max_lengths)
    while len(rows.sentences) > 0:
        is_full = rows.is_full()
        if is_full is not None:
            rows.finish(is_full, state)
            continue
        logits = step(rows.history[-1], state)
        outputs, sentences = rows.history[1:], rows.sentences
        logits = mask_forbidden(logits, outputs, sentences, constraint)
        tokens = choose(logits, sentences, len(outputs))
        log_probs = log_probabilities(logits)
        if record is not None:
            totals = (rows.log_probs.unsqueeze(1) + log_probs).unsqueeze(1)
            record(rows.history, totals, torch.zeros_like(tokens[:, None]), tokens[:, None], 1)
        chosen = log_probs.gather(1, tokens.unsqueeze(1)).squeeze(1)
        is_stuck = chosen == -math.inf
        is_finished = is_stuck | (tokens == EOS_ID)
        # The program waits for a GPU here, and nowhere else in a step in which no output ends.
        added, ends = torch.stack([chosen, is_finished.to(chosen.dtype)]).tolist()
        check_log_probs(added)
        rows.log_probs += chosen.masked_fill_(is_stuck, 0.0)
        if any(ends):
            tokens = tokens[rows.finish(list(map(bool, ends)), state)]
        rows.history = torch.cat([rows.history, tokens.unsqueeze(0)])
    return rows.hypotheses


class Rows:
    """The R unfinished outputs, one row for each sentence, and the hypotheses of the others."""

    def __init__(self, max_lengths: Tensor) -> None:
        count, device = len(max_lengths), max_lengths.device
        self.limits: list[int] = max_lengths.tolist()
        self.numbers = list(range(count))  # of the sentences of the rows
        self.sentences = torch.arange(count, device=device)  # [R], the same
        self.log_probs = torch.zeros(count, device=device)  # [R]
        self.history = torch.full((1, count), BOS_ID, device=device)  # [1 + t, R], from <bos> on
        self.hypotheses = [Hypothesis([], 0.0, 0.0)] * count

    def is_full(self) -> list[bool] | None:
        """Returns which rows are at their length limit, or None if none is."""
        if len(self.history) <= min(self.limits):
            return None
        return [limit < len(self.history) for limit in self.limits]

    def finish(self, is_finished: Sequence[bool], state: SearchState) -> Tensor:
        """Stores the outputs of the finished rows, of R, and returns the indices of the others.

        Those are the only rows left, in this order, here and in ``state``.
        """
        device, rows = self.history.device, list(compress(range(len(is_finished)), is_finished))
        ended = torch.tensor(rows, device=device)
        for row, tokens, log_prob in zip(
            rows, self.history[1:, ended].t().tolist(), self.log_probs[ended].tolist(), strict=True
        ):
            self.hypotheses[self.numbers[row]] = Hypothesis(tokens, log_prob, log_prob)
        order = torch.tensor(compact_indices([not ends for ends in is_finished]), dtype=torch.long)
        kept = order.to(device)
        state.select(kept, order)
        self.limits = [self.limits[row] for row in order.tolist()]
        self.numbers = [self.numbers[row] for row in order.tolist()]
        self.sentences, self.log_probs = self.sentences[kept], self.log_probs[kept]
        self.history = self.history[:, kept]
        return kept
