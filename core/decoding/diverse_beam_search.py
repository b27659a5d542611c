"""Diverse beam search (Vijayakumar et al. 2018): several outputs that differ clearly.

The best outputs of an ordinary beam differ in a word or a punctuation mark. Here the beam is split
into groups that choose one after another at every step. A token that earlier groups have just
chosen gets a penalty.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from core.config import check
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
    SearchState,
    Step,
    log_probabilities,
    mask_forbidden,
)
from core.special_ids import SpecialIds


def diverse_beam_search(
    step: Step,
    state: SearchState,
    *,
    beam_size: int,
    groups: int,
    diversity: float,
    max_lengths: Tensor,
    length_penalty: float = 0.6,
    special: SpecialIds = SpecialIds(),
    constraint: Constraint | None = None,
) -> list[list[Hypothesis]]:
    """Runs beam search in groups that avoid each other's tokens (algorithm 1, Hamming diversity).

    A group ranks a token by its log-probability minus ``diversity`` for each output of earlier
    groups that has chosen this token at this position. ``<eos>`` gets no penalty. Finished groups
    neither get nor cause penalties. A single group, and likewise the first of several, is ordinary
    beam search (:mod:`core.decoding.beam_search`), which describes the other arguments.

    Args:
        beam_size: the number of outputs of all groups together.
        groups: a divisor of ``beam_size``.
        diversity: the strength of the penalty, in natural logarithms; 0 for none. The paper
            recommends 0.2 to 0.8 for most tasks.

    Returns:
        For each sentence 1 to ``beam_size`` different hypotheses of all groups, the best first.
        They are ranked by probability and length, without the penalties.

    Raises:
        ConfigError: an option outside its range; the message gives the range.
        UserError: NaN or infinite logits.
    """
    check(beam_size >= 1, "beam_size", beam_size, "at least 1")
    is_divisor = groups >= 1 and beam_size % groups == 0
    check(is_divisor, "groups", groups, f"a divisor of beam_size ({beam_size})")
    check(0.0 <= diversity < math.inf, "diversity", diversity, "0 or more, and finite")
    size = beam_size // groups
    # Each group of each sentence is a beam of its own, with the number sentence * groups + group.
    limits = max_lengths.repeat_interleave(groups)
    finished = [FinishedHypotheses(size, length_penalty, limit) for limit in limits.tolist()]
    beams = Beams(len(finished), special.bos, max_lengths.device)
    state.select(beams.sentences // groups)
    while len(beams.sentences) > 0:
        is_unfinished = close_sentences(finished, beams)
        beams.scores[~is_unfinished] = -math.inf
        is_unfinished = is_unfinished.view(-1, groups).any(dim=1)
        if not is_unfinished.all():
            beams.keep(is_unfinished, state, groups=groups)
            continue
        logits = step(beams.history[-1], state)
        sentences = beams.sentence_of_rows() // groups
        logits = mask_forbidden(logits, beams.history[1:], sentences, special, constraint)
        totals = beams.totals(log_probabilities(logits))
        candidates, chosen = _choose(beams, totals, size, groups, diversity, special.eos)
        is_end = candidates.tokens == special.eos
        collect_finished(finished, beams, candidates, is_end[:, :size])
        beams.advance(chosen, state)
    return [_merge(finished[i : i + groups]) for i in range(0, len(finished), groups)]


def _choose(
    beams: Beams, totals: Tensor, size: int, groups: int, diversity: float, eos: int
) -> tuple[Candidates, Candidates]:
    """Returns the candidates of every beam, and the best ``size`` of each that do not end.

    ``totals`` is ``[B*G, N, V]``, and the results are for B*G beams as well.
    """
    of_groups = totals.unflatten(0, (-1, groups)).unbind(1)
    counts = totals.new_zeros(len(of_groups[0]), totals.shape[2])  # [B, V]
    candidates: list[Candidates] = []
    chosen: list[Candidates] = []
    for own in of_groups:
        # 2N candidates, as in ordinary beam search: each of the N rows can end only once.
        penalties = diversity * counts if chosen else None
        candidates.append(beams.candidates(own, 2 * size, penalties))
        chosen.append(candidates[-1].unfinished(candidates[-1].tokens == eos, size))
        is_output = chosen[-1].scores > -math.inf
        counts.scatter_add_(1, chosen[-1].tokens, is_output.to(counts.dtype))
    return _side_by_side(candidates), _side_by_side(chosen)


def _side_by_side(of_groups: Sequence[Candidates]) -> Candidates:
    """Returns the candidates ``[B, C]`` of G groups as those of B*G beams, ``[B*G, C]``."""
    parts = zip(*of_groups, strict=True)
    return Candidates(*(torch.stack(part, 1).flatten(0, 1) for part in parts))


def _merge(of_groups: Sequence[FinishedHypotheses]) -> list[Hypothesis]:
    """Returns the hypotheses of all groups of one sentence, the best first, without duplicates."""
    hypotheses = [hypothesis for group in of_groups for hypothesis in group.hypotheses]
    different: dict[tuple[int, ...], Hypothesis] = {}
    for hypothesis in sorted(hypotheses, key=lambda hypothesis: -hypothesis.score):
        different.setdefault(tuple(hypothesis.tokens), hypothesis)
    return list(different.values())
