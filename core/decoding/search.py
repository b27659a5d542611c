"""What every search shares: what it sees of a model, what it may be told, what it gives back.

A search sees a ``step`` function and a state it can reorder, never a model:

    step(tokens [R], state) -> logits [R, V]       the state moves on by one position
    state.select(rows, sentences)                  keep these rows, drop these finished sentences

All rows move in lock-step; a sentence leaves the batch as soon as it is finished. A sentence's
search depends on nothing but its own rows, so its result is the same in any batch (floating-point
noise aside).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from ..special_ids import SpecialIds


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


def without_gaps(is_kept: Tensor) -> Tensor:
    """The numbers of what is kept, ``[B]`` -> ``[K]``: the last ones in the places that are free.

    Everything else keeps its place, so that states need not move it.
    """
    kept = is_kept.nonzero().flatten()
    order = torch.arange(len(kept), device=kept.device)
    is_free = ~is_kept[: len(kept)]
    order[is_free] = kept[kept >= len(kept)]
    return order


def mask_forbidden(
    logits: Tensor,
    outputs: Tensor,
    sentences: Tensor,
    special: SpecialIds,
    constraint: Constraint | None,
) -> Tensor:
    """``logits`` ``[R, V]`` in float32, at minus infinity where a token may not come.

    ``outputs`` ``[t, R]`` and ``sentences`` ``[R]`` are what a :data:`Constraint` sees.
    """
    logits = logits.float()
    # The tensors that an index needs would cost more than three writes do.
    for token in (special.unk, special.pad, special.bos):
        logits.select(1, token).fill_(-math.inf)
    if constraint is not None:
        logits.masked_fill_(constraint(outputs, sentences), -math.inf)
    return logits


def log_probabilities(logits: Tensor) -> Tensor:
    """The logarithm of the softmax of ``logits`` ``[R, V]``, written into them.

    Where every token is forbidden, all stay at minus infinity.
    """
    is_stuck = logits.amax(dim=1) == -math.inf
    log_probs = torch.log_softmax(logits, 1, out=logits)
    if is_stuck.any():
        log_probs[is_stuck] = -math.inf
    return log_probs
