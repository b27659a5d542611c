"""Beam search, and the state of a beam that its variants share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ..config import check
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


def beam_search(
    step: Step,
    state: SearchState,
    *,
    beam_size: int,
    max_lengths: Tensor,
    n_best: int | None = None,
    length_penalty: float = 0.6,
    special: SpecialIds = SpecialIds(),
    constraint: Constraint | None = None,
) -> list[list[Hypothesis]]:
    """Keeps the ``beam_size`` best unfinished outputs of each sentence at every step.

    Hypotheses are ranked by log P / ((5 + length) / 6)^alpha with alpha = ``length_penalty`` (Wu et
    al. 2016, equation 14), ``<eos>`` counted in the length. A sentence is finished when it has
    ``n_best`` ended hypotheses that no unfinished one can overtake: log P only falls, and the
    penalty is at most that of the longest output allowed. One beam without a length penalty is
    :func:`greedy_search`, whose other arguments these are.

    Args:
        n_best: how many hypotheses are wanted, as many as there are beams if nothing is said. The
            fewer, the sooner they are certain.

    Returns:
        For each sentence 1 to ``n_best`` hypotheses, the best first. Outputs that reach the
        length limit end there and are ranked with the others. Outputs that every token is forbidden
        to follow are dropped, but end there if nothing else is left of their sentence.

    Raises:
        ConfigError: a ``beam_size`` below 1, an ``n_best`` that is not from 1 to it.
    """
    check(beam_size >= 1, "beam_size", beam_size, "at least 1")
    n_best = beam_size if n_best is None else n_best
    check(1 <= n_best <= beam_size, "n_best", n_best, f"from 1 to beam_size ({beam_size})")
    ended = [Ended(n_best, length_penalty, limit) for limit in max_lengths.tolist()]
    beams = Beams(len(ended), special.bos, max_lengths.device)
    while len(beams.sentences) > 0:
        goes_on = close_finished(ended, beams)
        if not goes_on.all():
            beams.keep(goes_on, state)
            continue
        logits = step(beams.history[-1], state)
        logits = mask_forbidden(
            logits, beams.history[1:], beams.sentence_of_rows(), special, constraint
        )
        # 2N candidates hold at least N that do not end: each of the N rows can end only once.
        totals = beams.totals(log_probabilities(logits))
        candidates = beams.candidates(totals, 2 * beam_size)
        is_end = candidates.tokens == special.eos
        collect_ended(ended, beams, candidates, is_end[:, :beam_size])
        beams.advance(candidates.that_go_on(is_end, beam_size), state)
    return [one.hypotheses for one in ended]


def length_normaliser(length: int, alpha: float) -> float:
    """((5 + length) / 6)^alpha, Wu et al. (2016), equation 14."""
    return ((5.0 + length) / 6.0) ** alpha


class Ended:
    """The ended hypotheses of one sentence, the best ``size`` of them, the best first."""

    def __init__(self, size: int, alpha: float, max_length: int) -> None:
        self.size = size
        self.alpha = alpha
        self.max_length = max_length
        self.hypotheses: list[Hypothesis] = []

    def add(self, tokens: list[int], log_prob: float, length: int) -> None:
        score = log_prob / length_normaliser(length, self.alpha)
        self.hypotheses.append(Hypothesis(tokens, log_prob, score))
        self.hypotheses.sort(key=lambda h: -h.score)
        del self.hypotheses[self.size :]

    def can_be_overtaken_by(self, log_prob: float) -> bool:
        """Whether an unfinished hypothesis of this probability could still get among the best."""
        if log_prob == -math.inf:
            return False
        if len(self.hypotheses) < self.size:
            return True
        # Dividing a negative number by the largest normaliser to come gives the best it can get. An
        # output of the greatest length has no <eos> any more, or its <eos> is within that length.
        normaliser = length_normaliser(self.max_length, max(self.alpha, 0.0))
        return log_prob / normaliser > self.hypotheses[-1].score


class Candidates(NamedTuple):
    """Outputs one token longer, C for each of B sentences, the best first: ``[B, C]`` each.

    A score of minus infinity stands for none.
    """

    scores: Tensor
    places: Tensor
    """Which of the sentence's rows the token follows."""
    tokens: Tensor

    def that_go_on(self, is_end: Tensor, size: int) -> Candidates:
        """The best ``size`` candidates that do not end, ``[B, size]``, the best first."""
        choice = is_end.byte().argsort(dim=1, stable=True)[:, :size]
        scores = self.scores.masked_fill(is_end, -math.inf)
        return Candidates(*(x.gather(1, choice) for x in (scores, self.places, self.tokens)))


class Beams:
    """The unfinished outputs of B sentences, N rows each, sentence after sentence.

    A row with the score minus infinity holds no output, and its tokens mean nothing.
    """

    def __init__(self, count: int, bos: int, device: torch.device) -> None:
        # One row a sentence at first: the first expansion makes as many as there are beams.
        self.sentences = torch.arange(count, device=device)  # [B], the sentences' numbers
        self.scores = torch.zeros(count, 1, device=device)  # [B, N]
        self.history = torch.full((1, count), bos, device=device)  # [1 + t, B*N], from <bos> on

    def sentence_of_rows(self) -> Tensor:
        """The sentence number of every row, ``[B*N]``."""
        return self.sentences.repeat_interleave(self.scores.shape[1])

    def output(self, i: int, place: int) -> list[int]:
        """The tokens, without ``<bos>``, of one of the rows of the ``i``-th sentence."""
        return self.history[1:, i * self.scores.shape[1] + place].tolist()

    def totals(self, log_probs: Tensor) -> Tensor:
        """The log-probability ``[B, N, V]`` of every continuation, given that of every next token,
        ``[B*N, V]``, which is overwritten."""
        return log_probs.add_(self.scores.view(-1, 1)).view(*self.scores.shape, -1)

    def candidates(self, totals: Tensor, count: int, penalties: Tensor | None = None) -> Candidates:
        """The best ``count`` continuations (all, if there are fewer) by ``totals`` ``[B, N, V]``.

        ``penalties`` ``[B, V]`` are taken off for the ranking, not off the scores.
        """
        ranks = totals if penalties is None else totals - penalties.unsqueeze(1)
        width, vocabulary_size = totals.shape[1:]
        scores, flat = largest(ranks.flatten(1), min(count, width * vocabulary_size))
        if penalties is not None:
            scores = totals.flatten(1).gather(1, flat)
        return Candidates(scores, flat // vocabulary_size, flat % vocabulary_size)

    def advance(self, chosen: Candidates, state: SearchState) -> None:
        """Goes on with the chosen candidates ``[B, N]`` in the place of the present rows."""
        first_row = self.scores.shape[1] * torch.arange(len(self.scores), device=self.scores.device)
        rows = (first_row.unsqueeze(1) + chosen.places).flatten()
        state.select(rows)
        self.scores = chosen.scores
        self.history = torch.cat([self.history[:, rows], chosen.tokens.view(1, -1)])

    def keep(self, goes_on: Tensor, state: SearchState, *, groups: int = 1) -> None:
        """Drops the sentences that do not go on; ``goes_on`` ``[B / groups]`` names each group of
        sentences once, and the state knows no others."""
        kept = without_gaps(goes_on)
        width = groups * self.scores.shape[1]
        rows = (width * kept.unsqueeze(1) + torch.arange(width, device=kept.device)).flatten()
        state.select(rows, kept)
        beams = (groups * kept.unsqueeze(1) + torch.arange(groups, device=kept.device)).flatten()
        self.sentences, self.scores = self.sentences[beams], self.scores[beams]
        self.history = self.history[:, rows]


def close_finished(ended: Sequence[Ended], beams: Beams) -> Tensor:
    """Which sentences go on, ``[B]``; those at their length limit end with what they have."""
    goes_on = []
    numbers, scores = beams.sentences.tolist(), beams.scores.tolist()
    for i, (number, row_scores) in enumerate(zip(numbers, scores, strict=True)):
        if ended[number].max_length < len(beams.history):
            end_here(ended[number], beams, i)
            goes_on.append(False)
        else:
            goes_on.append(ended[number].can_be_overtaken_by(max(row_scores)))
    return torch.tensor(goes_on, device=beams.scores.device)


def collect_ended(
    ended: Sequence[Ended], beams: Beams, candidates: Candidates, is_end: Tensor
) -> None:
    """Stores the candidates that end, of the best ones: of as many as ``is_end`` tells about."""
    numbers = beams.sentences.tolist()
    is_stored = is_end & (candidates.scores[:, : is_end.shape[1]] > -math.inf)
    for i, rank in is_stored.nonzero().tolist():
        tokens = beams.output(i, int(candidates.places[i, rank]))
        ended[numbers[i]].add(tokens, candidates.scores[i, rank].item(), len(tokens) + 1)
    is_stuck = candidates.scores[:, 0] == -math.inf
    for i in is_stuck.nonzero().flatten().tolist():
        if not ended[numbers[i]].hypotheses:
            end_here(ended[numbers[i]], beams, i)


def end_here(ended: Ended, beams: Beams, i: int) -> None:
    """Stores the unfinished outputs of the ``i``-th sentence as they are, without ``<eos>``."""
    for place, log_prob in enumerate(beams.scores[i].tolist()):
        if log_prob > -math.inf:
            tokens = beams.output(i, place)
            ended.add(tokens, log_prob, len(tokens))
