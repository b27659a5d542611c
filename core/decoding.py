"""Searching for an output sequence: greedy and beam search.

A search sees a ``step`` function and a state it can reorder, never a model:

    step(tokens [R], state) -> logits [R, V]       the state moves on by one position
    state.select(rows, sentences)                  keep these rows, drop these finished sentences

All rows move in lock-step; a sentence leaves the batch as soon as it is finished. A sentence's
search depends on nothing but its own rows, so its result is the same in any batch (floating-point
noise aside).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from .sequence_to_sequence import SequenceToSequence, SpecialIds


class SearchState(Protocol):
    """What a search needs of the model's state."""

    def select(self, rows: Tensor, sentences: Tensor | None = None) -> None: ...


Step = Callable[[Tensor, Any], Tensor]
"""From the newest token of each row ``[R]`` and the state to logits ``[R, V]``: a new tensor, which
the search may write into."""

Constraint = Callable[[Tensor, Tensor], Tensor]
"""Rules of a form: from the tokens so far ``[t, R]`` (without ``<bos>``) and each row's sentence
number ``[R]`` to a boolean ``[R, V]``, True where the next token is forbidden. A row of a beam that
holds no output (early on there are fewer outputs than rows) may hold any ids; what is said about it
does not matter."""


@dataclass(frozen=True)
class Hypothesis:
    """One output: its tokens without ``<bos>`` and ``<eos>``.

    ``log_prob`` is the natural logarithm of the probability of the whole output, ``<eos>``
    included, where forbidden tokens have none; ``score`` is what the search ranked it by.
    """

    tokens: list[int]
    log_prob: float
    score: float


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
        logits = _allowed(step(history[-1], state), history[1:], alive, special, constraint)
        best, tokens = logits.max(dim=-1)
        is_stuck = best == -math.inf
        log_probs[alive] += (best - logits.logsumexp(dim=-1)).masked_fill(is_stuck, 0.0)
        is_over = is_stuck | (tokens == special.eos)
        if is_over.any():
            _retire(outputs, history, alive, is_over)
            alive, history = _keep(state, ~is_over, alive, history)
            tokens = tokens[~is_over]
        history = torch.cat([history, tokens.unsqueeze(0)])
    return [
        Hypothesis(output, log_prob, log_prob)
        for output, log_prob in zip(outputs, log_probs.tolist(), strict=True)
    ]


def beam_search(
    step: Step,
    state: SearchState,
    *,
    beam_size: int,
    max_lengths: Tensor,
    length_penalty: float = 0.6,
    special: SpecialIds = SpecialIds(),
    constraint: Constraint | None = None,
) -> list[list[Hypothesis]]:
    """Keeps the ``beam_size`` best unfinished outputs of each sentence at every step.

    Hypotheses are ranked by log P / ((5 + length) / 6)^alpha with alpha = ``length_penalty`` (Wu et
    al. 2016, equation 14), ``<eos>`` counted in the length. A sentence is finished when it has
    ``beam_size`` ended hypotheses that no unfinished one can overtake: log P only falls, and the
    penalty is at most that of the longest output allowed. One beam without a length penalty is
    :func:`greedy_search`, whose other arguments these are.

    Returns:
        For each sentence 1 to ``beam_size`` hypotheses, the best first. Outputs that reach the
        length limit end there and are ranked with the others. Outputs that every token is forbidden
        to follow are dropped, but end there if nothing else is left of their sentence.
    """
    if beam_size < 1:
        raise ValueError(f"beam_size is at least 1, not {beam_size}")
    ended = [_Ended(beam_size, length_penalty, limit) for limit in max_lengths.tolist()]
    beams = _Beams(len(ended), special.bos, max_lengths.device)
    while len(beams.sentences) > 0:
        goes_on = _close(ended, beams)
        if not all(goes_on):
            beams.keep(goes_on, state)
            continue
        logits = step(beams.history[-1], state)
        logits = _allowed(logits, beams.history[1:], beams.sentence_of_rows(), special, constraint)
        # 2N candidates hold at least N that do not end: each of the N rows can end only once.
        candidates = beams.candidates(logits, 2 * beam_size)
        is_end = candidates.tokens == special.eos
        _collect(ended, beams, candidates, is_end[:, :beam_size])
        beams.advance(candidates, is_end, beam_size, state)
    return [one.hypotheses for one in ended]


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
            max_lengths = 2 * (~state.memory.is_pad).sum(dim=1) + 10
        limit = torch.clamp(max_lengths, max=model.config.max_len - 1)
        found = greedy_search(model.step, state, max_lengths=limit, special=model.special)
    return [hypothesis.tokens for hypothesis in found]


def length_normaliser(length: int, alpha: float) -> float:
    """((5 + length) / 6)^alpha, Wu et al. (2016), equation 14."""
    return ((5.0 + length) / 6.0) ** alpha


class _Ended:
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
        # Dividing a negative number by the largest normaliser to come gives the best it can get.
        normaliser = length_normaliser(self.max_length + 1, max(self.alpha, 0.0))
        return log_prob / normaliser > self.hypotheses[-1].score


class _Candidates(NamedTuple):
    """Outputs one token longer, C for each of B sentences, the best first: ``[B, C]`` each.

    A score of minus infinity stands for none.
    """

    scores: Tensor
    rows: Tensor
    """The row that the token follows."""
    tokens: Tensor


class _Beams:
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

    def output(self, row: int) -> list[int]:
        """The tokens of a row, without ``<bos>``."""
        return self.history[1:, row].tolist()

    def candidates(self, logits: Tensor, count: int) -> _Candidates:
        """The best ``count`` continuations (all, if there are fewer) by ``logits`` ``[B*N, V]``."""
        width, vocabulary_size = self.scores.shape[1], logits.shape[1]
        normaliser = logits.logsumexp(dim=1)
        # Minus infinity minus itself is NaN: where every token is forbidden, all stay forbidden.
        normaliser = normaliser.masked_fill(normaliser == -math.inf, 0.0)
        totals = logits + (self.scores.flatten() - normaliser).unsqueeze(1)
        totals = totals.view(-1, width * vocabulary_size)
        scores, flat = totals.topk(min(count, totals.shape[1]), dim=1)
        first_row = width * torch.arange(len(totals), device=totals.device).unsqueeze(1)
        return _Candidates(scores, first_row + flat // vocabulary_size, flat % vocabulary_size)

    def advance(
        self, candidates: _Candidates, is_end: Tensor, size: int, state: SearchState
    ) -> None:
        """Goes on with the best ``size`` candidates of each sentence that do not end."""
        scores = candidates.scores.masked_fill(is_end, -math.inf)
        self.scores, choice = scores.topk(min(size, scores.shape[1]), dim=1)
        rows = candidates.rows.gather(1, choice).flatten()
        tokens = candidates.tokens.gather(1, choice).flatten()
        state.select(rows)
        self.history = torch.cat([self.history[:, rows], tokens.unsqueeze(0)])

    def keep(self, goes_on: Sequence[bool], state: SearchState) -> None:
        """Drops the sentences that do not go on."""
        device, width = self.scores.device, self.scores.shape[1]
        kept = torch.tensor(goes_on, device=device).nonzero().flatten()
        rows = (width * kept.unsqueeze(1) + torch.arange(width, device=device)).flatten()
        state.select(rows, kept)
        self.sentences, self.scores = self.sentences[kept], self.scores[kept]
        self.history = self.history[:, rows]


def _close(ended: Sequence[_Ended], beams: _Beams) -> list[bool]:
    """Which sentences go on; those at their length limit have their outputs ended as they are."""
    goes_on = []
    numbers, scores = beams.sentences.tolist(), beams.scores.tolist()
    for i, (number, row_scores) in enumerate(zip(numbers, scores, strict=True)):
        if ended[number].max_length < len(beams.history):
            _end_here(ended[number], beams, i)
            goes_on.append(False)
        else:
            goes_on.append(ended[number].can_be_overtaken_by(max(row_scores)))
    return goes_on


def _collect(
    ended: Sequence[_Ended], beams: _Beams, candidates: _Candidates, is_end: Tensor
) -> None:
    """Stores the candidates that end, of the best ones: of as many as ``is_end`` tells about."""
    numbers = beams.sentences.tolist()
    is_stored = is_end & (candidates.scores[:, : is_end.shape[1]] > -math.inf)
    for i, rank in is_stored.nonzero().tolist():
        tokens = beams.output(int(candidates.rows[i, rank]))
        ended[numbers[i]].add(tokens, candidates.scores[i, rank].item(), len(tokens) + 1)
    is_stuck = candidates.scores[:, 0] == -math.inf
    for i in is_stuck.nonzero().flatten().tolist():
        if not ended[numbers[i]].hypotheses:
            _end_here(ended[numbers[i]], beams, i)


def _end_here(ended: _Ended, beams: _Beams, i: int) -> None:
    """Stores the unfinished outputs of the ``i``-th sentence as they are, without ``<eos>``."""
    for place, log_prob in enumerate(beams.scores[i].tolist()):
        if log_prob > -math.inf:
            tokens = beams.output(i * beams.scores.shape[1] + place)
            ended.add(tokens, log_prob, len(tokens))


def _allowed(
    logits: Tensor,
    outputs: Tensor,
    sentences: Tensor,
    special: SpecialIds,
    constraint: Constraint | None,
) -> Tensor:
    """The logits in float32, at minus infinity where a token may not come."""
    logits = logits.float()
    logits[:, [special.unk, special.pad, special.bos]] = -math.inf
    if constraint is not None:
        logits.masked_fill_(constraint(outputs, sentences), -math.inf)
    return logits


def _retire(outputs: list[list[int]], history: Tensor, alive: Tensor, is_over: Tensor) -> None:
    """Writes down the rows that are over, for their sentences."""
    found = history[1:, is_over].t().tolist()
    for sentence, tokens in zip(alive[is_over].tolist(), found, strict=True):
        outputs[sentence] = tokens


def _keep(
    state: SearchState, is_kept: Tensor, alive: Tensor, history: Tensor
) -> tuple[Tensor, Tensor]:
    rows = is_kept.nonzero().flatten()
    state.select(rows, rows)
    return alive[rows], history[:, rows]
