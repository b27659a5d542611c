"""Diverse beam search (Vijayakumar et al. 2018): several outputs that differ clearly.

The best outputs of an ordinary beam differ in a word or a punctuation mark. Here the outputs of a
sentence choose one after another at every step. A token that earlier outputs have just chosen gets
a penalty. In the paper's words, every output is a group of its own.
"""

import math

import torch
from torch import Tensor

from core.decoding.beam_search import (
    Beams,
    Candidates,
    FinishedHypotheses,
    close_sentences,
    collect_finished,
)
from core.decoding.search import (
    Constraint,
    Hypothesis,
    Record,
    SearchState,
    Step,
    log_probabilities,
    mask_forbidden,
)
from core.special_ids import EOS_ID


def diverse_beam_search(
    step: Step,
    state: SearchState,
    *,
    beam_size: int,
    diversity: float,
    max_lengths: Tensor,
    length_penalty: float = 0.6,
    constraint: Constraint | None = None,
    record: Record | None = None,
) -> list[list[Hypothesis]]:
    """Extends outputs that avoid each other's tokens (algorithm 1, Hamming diversity).

    An output ranks a token by its log-probability minus ``diversity`` for each earlier output that
    has chosen this token at this position. ``<eos>`` gets no penalty. Finished outputs neither get
    nor cause penalties. The first output is that of a beam of one
    (:mod:`core.decoding.beam_search`, which describes the other arguments).

    Args:
        diversity: the strength of the penalty, in natural logarithms; in the paper 0.2 to 0.8.

    Returns:
        For each sentence 1 to ``beam_size`` different hypotheses, the best first without penalties.

    Raises:
        UserError: NaN or infinite logits.
    """
    # Output i of a sentence is a beam of one row, with the number sentence * beam_size + i.
    limits = max_lengths.repeat_interleave(beam_size)
    finished = [FinishedHypotheses(1, length_penalty, limit) for limit in limits.tolist()]
    beams = Beams(len(finished), max_lengths.device)
    state.select(beams.sentences // beam_size)
    while len(beams.sentences) > 0:
        is_unfinished = close_sentences(finished, beams)
        is_closed = [not unfinished for unfinished in is_unfinished]
        closed = torch.tensor(is_closed).unsqueeze(1).to(beams.scores.device)
        beams.scores = beams.scores.masked_fill(closed, -math.inf)
        own = [is_unfinished[i : i + beam_size] for i in range(0, len(is_closed), beam_size)]
        if not all(map(any, own)):
            beams.keep(list(map(any, own)), state, groups=beam_size)
            continue
        logits = step(beams.history[-1], state)
        sentences = beams.sentence_of_rows() // beam_size
        logits = mask_forbidden(logits, beams.history[1:], sentences, constraint)
        totals = beams.totals(log_probabilities(logits)).unflatten(0, (-1, beam_size))
        candidates = _choose(beams, totals, diversity)
        if record is not None:
            record(beams.history, totals.flatten(0, 1), candidates.rows, candidates.tokens, 1)
        is_end = candidates.tokens == EOS_ID
        collect_finished(finished, beams, candidates, is_end, 1)
        beams.advance(candidates.unfinished(is_end, 1), state)
    return [_merge(finished[i : i + beam_size]) for i in range(0, len(finished), beam_size)]


def _choose(beams: Beams, totals: Tensor, diversity: float) -> Candidates:
    """Returns the best two candidates of each output, ``[B*N, 2]``, by totals ``[B, N, 1, V]``."""
    counts = totals.new_zeros(totals.shape[0], totals.shape[3])  # [B, V]
    candidates: list[Candidates] = []
    for own in totals.unbind(1):
        penalties = diversity * counts if candidates else None
        candidates.append(beams.candidates(own, 2, penalties))
        chosen = candidates[-1].unfinished(candidates[-1].tokens == EOS_ID, 1)
        is_output = chosen.scores > -math.inf
        counts.scatter_add_(1, chosen.tokens, is_output.to(counts.dtype))
    parts = zip(*candidates, strict=True)
    return Candidates(*(torch.stack(part, 1).flatten(0, 1) for part in parts))


def _merge(finished: list[FinishedHypotheses]) -> list[Hypothesis]:
    """Returns the different hypotheses of one sentence, the best first."""
    hypotheses = [hypothesis for output in finished for hypothesis in output.hypotheses]
    different: dict[tuple[int, ...], Hypothesis] = {}
    for hypothesis in sorted(hypotheses, key=lambda hypothesis: -hypothesis.score):
        different.setdefault(tuple(hypothesis.tokens), hypothesis)
    return list(different.values())
