"""Beam search, and the state of a beam, which diverse beam search uses as well."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from core.decoding.search import (
    Constraint,
    Hypothesis,
    Record,
    SearchState,
    Step,
    check_log_probs,
    compact_indices,
    log_probabilities,
    mask_forbidden,
    topk,
)
from core.special_ids import BOS_ID, EOS_ID


def beam_search(
    step: Step,
    state: SearchState,
    *,
    beam_size: int,
    max_lengths: Tensor,
    n_best: int | None = None,
    length_penalty: float = 0.6,
    constraint: Constraint | None = None,
    record: Record | None = None,
) -> list[list[Hypothesis]]:
    """Keeps the ``beam_size`` best unfinished outputs of each sentence at every step.

    Hypotheses are ranked by log P / ((5 + length) / 6)^alpha with alpha = ``length_penalty`` (Wu et
    al. 2016, equation 14); the length includes ``<eos>``. A sentence is finished when it has
    ``n_best`` finished hypotheses that no unfinished one can overtake: log P can only fall, and the
    normalizer is at most that of the longest output allowed. A beam of one without a length penalty
    is :func:`greedy_search`, which describes the other arguments.

    Args:
        n_best: hypotheses that are wanted, at most and by default ``beam_size``; fewer end sooner.

    Returns:
        For each sentence 1 to ``n_best`` hypotheses, the best first. Outputs that reach the length
        limit end there and are ranked with the others. Outputs whose every next token is forbidden
        are dropped, unless the sentence has nothing else; then they end there.

    Raises:
        UserError: NaN or infinite logits.
    """
    n_best = beam_size if n_best is None else n_best
    finished = [FinishedHypotheses(n_best, length_penalty, limit) for limit in max_lengths.tolist()]
    beams = Beams(len(finished), max_lengths.device)
    while len(beams.sentences) > 0:
        is_unfinished = close_sentences(finished, beams)
        if not all(is_unfinished):
            beams.keep(is_unfinished, state)
            continue
        logits = step(beams.history[-1], state)
        logits = mask_forbidden(logits, beams.history[1:], beams.sentence_of_rows(), constraint)
        # 2N candidates include at least N that do not end: each of the N rows can end only once.
        totals = beams.totals(log_probabilities(logits))
        candidates = beams.candidates(totals, 2 * beam_size)
        if record is not None:
            record(beams.history, totals, candidates.rows, candidates.tokens, beam_size)
        is_end = candidates.tokens == EOS_ID
        collect_finished(finished, beams, candidates, is_end, beam_size)
        beams.advance(candidates.unfinished(is_end, beam_size), state)
    return [sentence.hypotheses for sentence in finished]


def length_normalizer(length: int, alpha: float) -> float:
    """Returns ((5 + length) / 6)^alpha, Wu et al. (2016), equation 14."""
    return ((5.0 + length) / 6.0) ** alpha


class FinishedHypotheses:
    """The finished hypotheses of one sentence: the best ``size`` of them, the best first."""

    def __init__(self, size: int, alpha: float, max_length: int) -> None:
        self.size = size
        self.alpha = alpha
        self.max_length = max_length
        self.largest_normalizer = length_normalizer(max_length, max(alpha, 0.0))
        self.hypotheses: list[Hypothesis] = []

    def add(self, tokens: list[int], log_prob: float, length: int) -> None:
        """Adds a hypothesis that is ranked by ``length``, if it is among the best."""
        score = log_prob / length_normalizer(length, self.alpha)
        self.hypotheses.append(Hypothesis(tokens, log_prob, score))
        self.hypotheses.sort(key=lambda hypothesis: -hypothesis.score)
        del self.hypotheses[self.size :]

    def can_be_overtaken_by(self, log_prob: float) -> bool:
        """Returns whether an unfinished hypothesis of this log-probability can still be added."""
        if log_prob == -math.inf:
            return False
        if len(self.hypotheses) < self.size:
            return True
        # A negative number divided by the largest normalizer gives the best score it can reach. An
        # output of the greatest length either has no <eos>, or its <eos> is within that length.
        return log_prob / self.largest_normalizer > self.hypotheses[-1].score


class Candidates(NamedTuple):
    """Outputs extended by one token, C for each of B sentences, the best first: ``[B, C]`` each.

    A score of minus infinity means that there is no candidate.
    """

    scores: Tensor
    rows: Tensor
    """The row within the sentence that the token extends."""
    tokens: Tensor

    def unfinished(self, is_end: Tensor, size: int) -> "Candidates":
        """Returns the best ``size`` candidates that do not end, ``[B, size]``, the best first."""
        choice = is_end.byte().argsort(dim=1, stable=True)[:, :size]
        scores = self.scores.masked_fill(is_end, -math.inf)
        return Candidates(*(x.gather(1, choice) for x in (scores, self.rows, self.tokens)))


class Beams:
    """The unfinished outputs of B sentences, N rows each, sentence after sentence.

    A row with the score minus infinity has no output, and its tokens are meaningless.
    """

    def __init__(self, count: int, device: torch.device) -> None:
        # One row for each sentence at first; the first step extends it to N rows.
        self.numbers = list(range(count))  # of the sentences
        self.sentences = torch.arange(count, device=device)  # [B], the same
        self.best = [0.0] * count  # the best score of each sentence
        self.scores = torch.zeros(count, 1, device=device)  # [B, N]
        self.history = torch.full((1, count), BOS_ID, device=device)  # [1 + t, B*N], from <bos> on

    def sentence_of_rows(self) -> Tensor:
        """Returns the sentence number of every row, ``[B*N]``."""
        return self.sentences.repeat_interleave(self.scores.shape[1])

    def totals(self, log_probs: Tensor) -> Tensor:
        """Returns the log-probability ``[B, N, V]`` of every continuation.

        ``log_probs`` ``[B*N, V]``, the log-probability of every next token, is overwritten.
        """
        return log_probs.add_(self.scores.view(-1, 1)).view(*self.scores.shape, -1)

    def candidates(self, totals: Tensor, count: int, penalties: Tensor | None = None) -> Candidates:
        """Returns the best ``count`` continuations by ``totals`` ``[B, N, V]``, or all if fewer;
        ``penalties`` ``[B, V]`` are subtracted for the ranking, but not from the scores."""
        ranks = totals if penalties is None else totals - penalties.unsqueeze(1)
        width, vocab_size = totals.shape[1:]
        scores, flat = topk(ranks.flatten(1), min(count, width * vocab_size))
        if penalties is not None:
            scores = totals.flatten(1).gather(1, flat)
        return Candidates(scores, flat // vocab_size, flat % vocab_size)

    def advance(self, chosen: Candidates, state: SearchState) -> None:
        """Replaces the rows by the chosen candidates ``[B, N]``."""
        first_row = self.scores.shape[1] * torch.arange(len(self.scores), device=self.scores.device)
        rows = (first_row.unsqueeze(1) + chosen.rows).flatten()
        state.select(rows)
        self.scores = chosen.scores
        self.history = torch.cat([self.history[:, rows], chosen.tokens.view(1, -1)])

    def keep(self, is_kept: Sequence[bool], state: SearchState, *, groups: int = 1) -> None:
        """Drops all other sentences than those of ``is_kept``, of B / ``groups``.

        In diverse beam search each sentence has ``groups`` beams, which ``state`` counts as one.
        """
        order = torch.tensor(compact_indices(is_kept), dtype=torch.long)
        width, device = groups * self.scores.shape[1], self.scores.device
        rows = (width * order.unsqueeze(1) + torch.arange(width)).flatten().to(device)
        state.select(rows, order)
        beams = (groups * order.unsqueeze(1) + torch.arange(groups)).flatten()
        self.numbers = [self.numbers[i] for i in beams.tolist()]
        self.best = [self.best[i] for i in beams.tolist()]
        beams = beams.to(device)
        self.sentences, self.scores = self.sentences[beams], self.scores[beams]
        self.history = self.history[:, rows]


def close_sentences(finished: Sequence[FinishedHypotheses], beams: Beams) -> list[bool]:
    """Returns which of the B sentences are unfinished; stores those at their length limit."""
    is_unfinished = []
    for i, (number, log_prob) in enumerate(zip(beams.numbers, beams.best, strict=True)):
        if finished[number].max_length < len(beams.history):
            finish_as_is(finished[number], beams, i)
            is_unfinished.append(False)
        else:
            is_unfinished.append(finished[number].can_be_overtaken_by(log_prob))
    return is_unfinished


def collect_finished(
    finished: Sequence[FinishedHypotheses],
    beams: Beams,
    candidates: Candidates,
    is_end: Tensor,
    size: int,
) -> None:
    """Stores those of the best ``size`` candidates that end, ``is_end`` ``[B, C]``.

    Notes the best score of the others, which :meth:`Beams.advance` takes.

    Raises:
        UserError: NaN or infinite logits.
    """
    # The program waits for a GPU here, and nowhere else in a step in which no output ends.
    scores, ends = torch.stack([candidates.scores, is_end.to(candidates.scores.dtype)]).tolist()
    check_log_probs(own[0] for own in scores)
    found = [
        (i, rank)
        for i, (own, is_last) in enumerate(zip(scores, ends, strict=True))
        for rank in range(min(size, len(own)))
        if is_last[rank] and own[rank] > -math.inf
    ]
    if found:
        places, ranks = torch.tensor(found, device=is_end.device).unbind(1)
        rows = places * beams.scores.shape[1] + candidates.rows[places, ranks]
        for (i, rank), tokens in zip(found, beams.history[1:, rows].t().tolist(), strict=True):
            finished[beams.numbers[i]].add(tokens, scores[i][rank], len(tokens) + 1)
    for i, own in enumerate(scores):
        if own[0] == -math.inf and not finished[beams.numbers[i]].hypotheses:
            finish_as_is(finished[beams.numbers[i]], beams, i)
    beams.best = [
        next((score for score, is_last in zip(*both, strict=True) if not is_last), -math.inf)
        for both in zip(scores, ends, strict=True)
    ]


def finish_as_is(finished: FinishedHypotheses, beams: Beams, i: int) -> None:
    """Stores the unfinished outputs of the ``i``-th sentence as they are, without ``<eos>``."""
    rows = slice(i * beams.scores.shape[1], (i + 1) * beams.scores.shape[1])
    outputs = beams.history[1:, rows].t().tolist()
    for tokens, log_prob in zip(outputs, beams.scores[i].tolist(), strict=True):
        if log_prob > -math.inf:
            finished.add(tokens, log_prob, len(tokens))
