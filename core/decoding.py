"""Searching for an output sequence: greedy and beam search.

A search sees a ``step`` function and a state it can reorder, never a model:

    step(tokens [R], state) -> logits [R, V]       the state moves on by one position
    state.select(rows, sentences)                  keep these rows, drop these finished sentences

All rows move in lock-step; a sentence leaves the batch as soon as it is finished. A sentence's search
depends on nothing but its own rows, so its result is the same in any batch (floating-point noise
aside).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from .sequence_to_sequence import SequenceToSequence, SpecialIds


class SearchState(Protocol):
    """What a search needs of the model's state."""

    def select(self, rows: Tensor, sentences: Tensor | None = None) -> None: ...


Step = Callable[[Tensor, Any], Tensor]

Constraint = Callable[[Tensor, Tensor], Tensor]
"""Rules of a form: from the tokens so far ``[t, R]`` (without ``<bos>``) and each row's sentence number
``[R]`` to a boolean ``[R, V]``, True where the next token is forbidden."""


@dataclass(frozen=True)
class Hypothesis:
    """One output: its tokens without ``<bos>`` and ``<eos>``.

    ``log_prob`` is the natural logarithm of the probability of the whole output, ``<eos>`` included;
    ``score`` is what the search ranked it by.
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
        One hypothesis a sentence. One that reaches its length limit ends there, and its probability
        is that of its tokens alone.
    """
    count, device = len(max_lengths), max_lengths.device
    outputs: list[list[int]] = [[] for _ in range(count)]
    log_probs = torch.zeros(count, device=device)
    alive = torch.arange(count, device=device)
    prefix = torch.empty(0, count, dtype=torch.long, device=device)
    tokens = torch.full((count,), special.bos, device=device)
    while len(alive) > 0:
        is_full = max_lengths[alive] <= len(prefix)
        if is_full.any():
            _retire(outputs, prefix, alive, is_full)
            alive, prefix, tokens = _keep(state, ~is_full, alive, prefix, tokens)
            continue
        logits = _allowed(step(tokens, state), prefix, alive, special, constraint)
        best, tokens = logits.max(dim=-1)
        log_probs[alive] += best - logits.logsumexp(dim=-1)
        is_done = tokens == special.eos
        if is_done.any():
            _retire(outputs, prefix, alive, is_done)
            alive, prefix, tokens = _keep(state, ~is_done, alive, prefix, tokens)
        prefix = torch.cat([prefix, tokens.unsqueeze(0)])
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
    penalty is at most that of the longest output allowed.

    Returns:
        For each sentence up to ``beam_size`` hypotheses, the best first. Outputs that reach the
        length limit end there and are ranked with the others.
    """
    if beam_size < 1:
        raise ValueError(f"beam_size is at least 1, not {beam_size}")
    count, device = len(max_lengths), max_lengths.device
    ended = [_Ended(beam_size, length_penalty, limit) for limit in max_lengths.tolist()]
    # B sentences of N rows each: one row at first, beam_size from the first expansion on.
    sentences = torch.arange(count, device=device)
    scores = torch.zeros(count, 1, device=device)
    prefix = torch.empty(0, count, dtype=torch.long, device=device)
    tokens = torch.full((count,), special.bos, device=device)
    while len(sentences) > 0:
        length = len(prefix)
        keep = _close(ended, sentences, scores, prefix, max_lengths)
        if not all(keep):
            kept = torch.tensor([i for i, k in enumerate(keep) if k], dtype=torch.long, device=device)
            rows = _rows_of(kept, scores.shape[1])
            state.select(rows, kept)
            sentences, scores = sentences[kept], scores[kept]
            prefix, tokens = prefix[:, rows], tokens[rows]
            continue
        width = scores.shape[1]
        logits = step(tokens, state)
        logits = _allowed(logits, prefix, sentences.repeat_interleave(width), special, constraint)
        vocabulary_size = logits.shape[-1]
        log_probs = logits.log_softmax(dim=-1).view(len(sentences), width, vocabulary_size)
        totals = (scores.unsqueeze(2) + log_probs).flatten(1)
        # 2N candidates hold at least N that do not end: each of the N rows can end only once.
        best, flat = totals.topk(min(2 * beam_size, totals.shape[1]), dim=1)
        origin, token = flat // vocabulary_size, flat % vocabulary_size
        is_end = token == special.eos
        _collect(ended, sentences, best, origin, is_end, prefix, beam_size)
        best = best.masked_fill(is_end, -math.inf)
        scores, choice = best.topk(min(beam_size, best.shape[1]), dim=1)
        origin, token = origin.gather(1, choice), token.gather(1, choice)
        rows = (torch.arange(len(sentences), device=device).unsqueeze(1) * width + origin).flatten()
        state.select(rows)
        tokens = token.flatten()
        prefix = torch.cat([prefix[:, rows], tokens.unsqueeze(0)])
        assert len(prefix) == length + 1
    return [one.best() for one in ended]


def greedy_decode(
    model: SequenceToSequence, src: Tensor, *, max_lengths: Tensor | None = None
) -> list[list[int]]:
    """The most probable token at every step, for a batch ``src`` ``[S, B]``.

    Args:
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
        self._hypotheses: list[Hypothesis] = []

    def add(self, tokens: list[int], log_prob: float, length: int) -> None:
        score = log_prob / length_normaliser(length, self.alpha)
        self._hypotheses.append(Hypothesis(tokens, log_prob, score))
        self._hypotheses.sort(key=lambda h: -h.score)
        del self._hypotheses[self.size :]

    def can_be_overtaken_by(self, log_prob: float) -> bool:
        """Whether an unfinished hypothesis of this probability could still get among the best."""
        if log_prob == -math.inf:
            return False
        if len(self._hypotheses) < self.size:
            return True
        # Dividing a negative number by the largest normaliser to come gives the best it can get.
        normaliser = length_normaliser(self.max_length + 1, max(self.alpha, 0.0))
        return log_prob / normaliser > self._hypotheses[-1].score

    def best(self) -> list[Hypothesis]:
        return self._hypotheses


def _close(
    ended: Sequence[_Ended],
    sentences: Tensor,
    scores: Tensor,
    prefix: Tensor,
    max_lengths: Tensor,
) -> list[bool]:
    """Which sentences go on; those at their length limit have their rows ended where they are."""
    keep = []
    width = scores.shape[1]
    for i, (sentence, row_scores) in enumerate(zip(sentences.tolist(), scores.tolist(), strict=True)):
        if ended[sentence].max_length <= len(prefix):
            for row, log_prob in enumerate(row_scores):
                if log_prob > -math.inf:
                    tokens = prefix[:, i * width + row].tolist()
                    ended[sentence].add(tokens, log_prob, len(tokens))
            keep.append(False)
        else:
            keep.append(ended[sentence].can_be_overtaken_by(max(row_scores)))
    return keep


def _collect(
    ended: Sequence[_Ended],
    sentences: Tensor,
    scores: Tensor,
    origin: Tensor,
    is_end: Tensor,
    prefix: Tensor,
    beam_size: int,
) -> None:
    """Stores the candidates that end here, of the ``beam_size`` best of each sentence."""
    width = prefix.shape[1] // len(sentences)
    numbers = sentences.tolist()
    is_end = is_end[:, :beam_size] & (scores[:, :beam_size] > -math.inf)
    for i, rank in is_end.nonzero().tolist():
        tokens = prefix[:, i * width + int(origin[i, rank])].tolist()
        ended[numbers[i]].add(tokens, scores[i, rank].item(), len(tokens) + 1)


def _allowed(
    logits: Tensor,
    prefix: Tensor,
    sentences: Tensor,
    special: SpecialIds,
    constraint: Constraint | None,
) -> Tensor:
    """The logits in float32, at minus infinity where a token may not come."""
    logits = logits.float()
    logits[:, [special.unk, special.pad, special.bos]] = -math.inf
    if constraint is not None:
        logits = logits.masked_fill(constraint(prefix, sentences), -math.inf)
    return logits


def _retire(outputs: list[list[int]], prefix: Tensor, alive: Tensor, is_done: Tensor) -> None:
    columns = prefix[:, is_done].t().tolist()
    for sentence, tokens in zip(alive[is_done].tolist(), columns, strict=True):
        outputs[sentence] = tokens


def _keep(
    state: SearchState, is_kept: Tensor, alive: Tensor, prefix: Tensor, tokens: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    rows = is_kept.nonzero().flatten()
    state.select(rows, rows)
    return alive[rows], prefix[:, rows], tokens[rows]


def _rows_of(sentences: Tensor, width: int) -> Tensor:
    within = torch.arange(width, device=sentences.device)
    return (sentences.unsqueeze(1) * width + within).flatten()
