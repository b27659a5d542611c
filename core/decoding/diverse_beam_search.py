"""Diverse beam search (Vijayakumar et al. 2018): several outputs that really differ.

The best outputs of one beam differ in a word or a mark. Here the beam is split into groups, which
choose one after another at every step, and a token that others have just chosen costs a penalty.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ..config import check
from ..special_ids import SpecialIds
from .beam_search import Beams, Candidates, Ended, close_finished, collect_ended
from .search import Constraint, Hypothesis, SearchState, Step, log_probabilities, mask_forbidden


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
    """Beam search in groups that avoid each other's words (algorithm 1, Hamming diversity).

    A group ranks a token by its log-probability minus ``diversity`` for each output of the groups
    before it that has this token at this place. The penalty counts at this place only; ``<eos>``
    has none, and a group that is finished avoids and is avoided no more. One group, and likewise
    the first of many, is :mod:`core.decoding.beam_search`, whose other arguments these are.

    Args:
        beam_size: the outputs of all groups together.
        groups: a divisor of ``beam_size``.
        diversity: the penalty's strength, in natural logarithms; 0 for none. The paper finds 0.2 to
            0.8 good for most tasks.

    Returns:
        For each sentence 1 to ``beam_size`` different hypotheses, the best first, whatever group
        they come from: by probability and length, without the penalties.

    Raises:
        ConfigError: an option outside what is allowed; the message says what is.
    """
    check(beam_size >= 1, "beam_size", beam_size, "at least 1")
    is_divisor = groups >= 1 and beam_size % groups == 0
    check(is_divisor, "groups", groups, f"a divisor of beam_size ({beam_size})")
    check(0.0 <= diversity < math.inf, "diversity", diversity, "0 or more, and finite")
    # Every group of every sentence is a beam of its own, with the number sentence * groups + group.
    limits = max_lengths.repeat_interleave(groups)
    ended = [Ended(beam_size // groups, length_penalty, limit) for limit in limits.tolist()]
    beams = Beams(len(ended), special.bos, max_lengths.device)
    state.select(beams.sentences // groups)
    while len(beams.sentences) > 0:
        goes_on = close_finished(ended, beams)
        beams.scores[~goes_on] = -math.inf
        goes_on = goes_on.view(-1, groups).any(dim=1)
        if not goes_on.all():
            beams.keep(goes_on, state, groups=groups)
            continue
        logits = step(beams.history[-1], state)
        sentences = beams.sentence_of_rows() // groups
        logits = mask_forbidden(logits, beams.history[1:], sentences, special, constraint)
        totals = beams.totals(log_probabilities(logits))
        candidates, chosen = _choose(
            beams, totals, beam_size // groups, groups, diversity, special.eos
        )
        is_end = candidates.tokens == special.eos
        collect_ended(ended, beams, candidates, is_end[:, : beam_size // groups])
        beams.advance(chosen, state)
    return [_merge(ended[i : i + groups]) for i in range(0, len(ended), groups)]


def _choose(
    beams: Beams, totals: Tensor, size: int, groups: int, diversity: float, eos: int
) -> tuple[Candidates, Candidates]:
    """The candidates of every beam, and the best ``size`` of each that go on.

    ``totals`` ``[B*G, N, V]``; the results hold B*G beams as well.
    """
    of_groups = totals.unflatten(0, (-1, groups)).unbind(1)
    uses = totals.new_zeros(len(of_groups[0]), totals.shape[2])  # [B, V]
    candidates: list[Candidates] = []
    chosen: list[Candidates] = []
    for own in of_groups:
        # 2N candidates, as in plain beam search: each of the N rows can end only once.
        candidates.append(beams.candidates(own, 2 * size, diversity * uses if chosen else None))
        chosen.append(candidates[-1].that_go_on(candidates[-1].tokens == eos, size))
        uses.scatter_add_(1, chosen[-1].tokens, (chosen[-1].scores > -math.inf).to(uses.dtype))
    return _side_by_side(candidates), _side_by_side(chosen)


def _side_by_side(of_groups: Sequence[Candidates]) -> Candidates:
    """G groups' candidates ``[B, C]`` as those of B*G beams, ``[B*G, C]``."""
    return Candidates(
        *(torch.stack(part, 1).flatten(0, 1) for part in zip(*of_groups, strict=True))
    )


def _merge(of_groups: Sequence[Ended]) -> list[Hypothesis]:
    """All groups' hypotheses of one sentence, the best first, no output twice."""
    ranked = sorted((h for one in of_groups for h in one.hypotheses), key=lambda h: -h.score)
    different: dict[tuple[int, ...], Hypothesis] = {}
    for hypothesis in ranked:
        different.setdefault(tuple(hypothesis.tokens), hypothesis)
    return list(different.values())
