"""What all searches share: their view of a model, their constraints and their results.

A search sees a ``step`` function and a state that it can reorder, never a model:

    step(tokens [R], state) -> logits [R, V]       the state advances by one position
    state.select(rows, sentences)                  keep these rows, drop the finished sentences

All rows advance together. A sentence leaves the batch as soon as it is finished. The search of a
sentence depends on its own rows alone, so its result is the same in any batch, apart from rounding.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any, Protocol

import torch
from torch import Tensor

from core.errors import UserError
from core.special_ids import BOS_ID, PAD_ID, UNK_ID

_BLOCK, _FEW_ROWS = 128, 8


class SearchState(Protocol):
    """The part of a model's state that a search uses."""

    def select(self, rows: Tensor, sentences: Tensor | None = None) -> None: ...


Step = Callable[[Tensor, Any], Tensor]
"""From the newest token of each row ``[R]`` and the state to logits ``[R, V]``, a new tensor that
the search may overwrite."""

Constraint = Callable[[Tensor, Tensor], Tensor]
"""From the tokens so far ``[t, R]`` (without ``<bos>``) and the sentence number of each row ``[R]``
to a boolean ``[R, V]``, True where the next token is forbidden. A beam may have rows without an
output (in the first steps there are fewer outputs than rows). They may contain any ids, and the
answer for them is ignored."""

Record = Callable[[Tensor, Tensor, Tensor, Tensor, int], None]
"""What sees a search of B sentences with N rows each at every step, before it goes on: the tokens
so far ``[1 + t, B*N]`` from ``<bos>`` on, the log-probability of every continuation ``[B, N, V]``,
and the candidates, the best first: the rows ``[B, C]`` within the sentence that they extend, and
their tokens ``[B, C]``. At last the number of those that do not end and are kept, of C."""


@dataclass(frozen=True)
class Hypothesis:
    """One output: its tokens without ``<bos>`` and ``<eos>``.

    ``log_prob`` is the natural logarithm of the probability of the whole output, ``<eos>``
    included, over the tokens that are allowed. ``score`` is what the search ranked it by.
    """

    tokens: list[int]
    log_prob: float
    score: float


def compact_indices(is_kept: Sequence[bool]) -> list[int]:
    """Returns the indices of the kept items, of B, in an order that moves few.

    The last kept items fill the gaps. All others stay in place, so states need not copy them.
    """
    kept = list(compress(range(len(is_kept)), is_kept))
    last = (i for i in kept if i >= len(kept))
    return [i if is_kept[i] else next(last) for i in range(len(kept))]


def mask_forbidden(
    logits: Tensor, outputs: Tensor, sentences: Tensor, constraint: Constraint | None
) -> Tensor:
    """Returns ``logits`` ``[R, V]`` in float32, minus infinity where a token is forbidden.

    ``outputs`` ``[t, R]`` and ``sentences`` ``[R]`` are the arguments of the :data:`Constraint`.
    """
    logits = logits.float()
    # Three writes are cheaper than one write through an index tensor.
    for token in (UNK_ID, PAD_ID, BOS_ID):
        logits.select(1, token).fill_(-math.inf)
    if constraint is not None:
        logits.masked_fill_(constraint(outputs, sentences), -math.inf)
    return logits


def log_probabilities(logits: Tensor) -> Tensor:
    """Overwrites ``logits`` ``[R, V]`` with the logarithm of their softmax and returns them.

    Where every token is forbidden, all values stay at minus infinity. Rows with NaN or plus
    infinity become NaN (:func:`check_log_probs`).
    """
    # A row is not stuck if its last token is allowed. A GPU's program would wait for that answer.
    if logits.device.type == "cpu" and (logits[:, -1] > -math.inf).all():
        return torch.log_softmax(logits, 1, out=logits)
    is_stuck = logits.amax(dim=1, keepdim=True) == -math.inf
    return torch.log_softmax(logits, 1, out=logits).masked_fill_(is_stuck, -math.inf)


def argmax(x: Tensor) -> Tensor:
    """Returns ``x.argmax(1)``: of equal values in a row of ``x`` ``[B, n]``, the first one."""
    if x.device.type != "cpu" or x.shape[1] < _BLOCK or len(x) < _FEW_ROWS:
        return x.argmax(1)
    places = _best_places(x, 1)
    return places.gather(1, x.gather(1, places).argmax(1, keepdim=True)).squeeze(1)


def topk(x: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Returns the values and places of ``x.topk(count)`` for each row of ``x`` ``[B, n]``."""
    if x.device.type != "cpu" or x.shape[1] < 2 * count * _BLOCK:
        return x.topk(count)
    places = _best_places(x, count)
    values, chosen = x.gather(1, places).topk(count)
    return values, places.gather(1, chosen)


def _best_places(x: Tensor, count: int) -> Tensor:
    """Returns places of ``x`` ``[B, n]`` that include the best ``count`` of each row.

    They are in the blocks with the largest maxima, which a CPU finds in a quarter of the time.
    """
    length = x.shape[1]
    whole = length // _BLOCK * _BLOCK
    maxima = x[:, :whole].unflatten(1, (-1, _BLOCK)).amax(2)
    # For one block, the first of equal ones: topk may return any of them.
    blocks = maxima.argmax(1, True) if count == 1 else maxima.topk(count, sorted=False).indices
    places = (_BLOCK * blocks.unsqueeze(2) + torch.arange(_BLOCK)).flatten(1)
    return torch.cat([places, torch.arange(whole, length).expand(len(x), -1)], 1)


def check_log_probs(values: Iterable[float]) -> None:
    """Refuses NaN, once the program waits for the device anyway.

    Raises:
        UserError: NaN, from logits that a search cannot rank.
    """
    if any(map(math.isnan, values)):
        raise UserError(
            "the model returned NaN or infinite logits; its weights are damaged, or its numbers "
            "overflow in this precision"
        )
