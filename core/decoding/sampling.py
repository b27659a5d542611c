"""Search by chance: outputs drawn from the model's own distribution, or from its likely part.

Chance is a function of the seed, the sentence's number and the place in the output, and of nothing
else: a sentence draws the same output in any batch and any order.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..config import check
from ..special_ids import SpecialIds
from .greedy_search import search_one_by_one
from .search import Constraint, Hypothesis, SearchState, Step

_UNIFORM_BITS = 24
# The product of a weight and a random number must fit into 63 bits.
_WEIGHT_BITS = 38


def sample_search(
    step: Step,
    state: SearchState,
    *,
    max_lengths: Tensor,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    seed: int = 0,
    sentence_numbers: Tensor | None = None,
    special: SpecialIds = SpecialIds(),
    constraint: Constraint | None = None,
) -> list[Hypothesis]:
    """Draws every token at random, by :func:`sampling_probabilities`.

    Args:
        max_lengths: ``[B]``, as in :func:`core.decoding.greedy_search.greedy_search`.
        temperature, top_k, top_p: see :func:`sampling_probabilities`.
        seed: another seed gives other outputs.
        sentence_numbers: ``[B]``, which sentence of the whole input each of this batch is; without
            it they are counted from 0. Two sentences of one number draw the same random numbers.

    Returns:
        One hypothesis a sentence. Its ``log_prob`` and ``score`` are what the model gives it (at
        temperature 1, nothing but the forbidden tokens cut off), to compare with other searches.

    Raises:
        ConfigError: an option outside what is allowed; the message says what is.
        ValueError: not as many sentence numbers as sentences.
    """
    _check_options(temperature, top_k, top_p)
    check(0 <= seed < 1 << 32, "seed", seed, "from 0 to 2^32 - 1")
    if sentence_numbers is None:
        sentence_numbers = torch.arange(len(max_lengths), device=max_lengths.device)
    if sentence_numbers.shape != max_lengths.shape:
        raise ValueError(
            f"sentence_numbers must be [B] = {list(max_lengths.shape)}, "
            f"not {list(sentence_numbers.shape)}"
        )

    def choose(logits: Tensor, sentences: Tensor, place: int) -> Tensor:
        probabilities = sampling_probabilities(
            logits, temperature=temperature, top_k=top_k, top_p=top_p
        )
        return draw(probabilities, uniform_numbers(seed, sentence_numbers[sentences], place))

    return search_one_by_one(
        step,
        state,
        choose,
        max_lengths=max_lengths,
        special=special,
        constraint=constraint,
    )


def sampling_probabilities(
    logits: Tensor, *, temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0
) -> Tensor:
    """The distribution ``[R, V]`` to draw from, given ``logits`` ``[R, V]``.

    Args:
        temperature: divides the logits; below 1 likely tokens grow likelier, towards 0 the search
            becomes greedy.
        top_k: only the k most probable tokens stay (Fan et al. 2018); 0 for all. Of
            equally probable ones those with lower ids stay.
        top_p: of what ``top_k`` left, only the fewest most probable tokens stay whose probabilities
            together reach p (nucleus sampling: Holtzman et al. 2020, section 3.1); 1 for all.

    Returns:
        Probabilities that sum to 1 over the tokens that stay; 0 elsewhere, and in a row whose
        logits are all minus infinity.

    Raises:
        ConfigError: an option outside what is allowed; the message says what is.
    """
    _check_options(temperature, top_k, top_p)
    best = logits.amax(dim=-1, keepdim=True)
    is_possible = best > -math.inf
    # The best becomes 0 before the division: a low temperature sends others to -inf, none to NaN.
    logits = (logits - best.where(is_possible, torch.zeros_like(best))) / temperature
    if top_k > 0 or top_p < 1.0:
        logits = logits.masked_fill(_is_cut(logits, top_k, top_p), -math.inf)
    return logits.softmax(dim=-1).where(is_possible, torch.zeros_like(best))


def draw(probabilities: Tensor, uniform: Tensor) -> Tensor:
    """One token ``[R]`` for each row of ``probabilities`` ``[R, V]``, by inversion.

    It is the first token at which the cumulated probability, in the order of the vocabulary,
    exceeds the row's number ``uniform`` ``[R]``, one of :func:`uniform_numbers`. A token of no
    probability never comes.
    """
    # In whole numbers, whose sum is the same in any order: where a sum of floats is rounded, a
    # device that adds in parallel would give impossible tokens a little room.
    cumulated = (probabilities * float(1 << _WEIGHT_BITS)).long().cumsum(dim=-1)
    chance = (uniform * float(1 << _UNIFORM_BITS)).long()
    threshold = (chance * cumulated[:, -1]) >> _UNIFORM_BITS
    tokens = torch.searchsorted(cumulated, threshold.unsqueeze(1), right=True).squeeze(1)
    return tokens.clamp(max=probabilities.shape[1] - 1)


def uniform_numbers(seed: int, sentence_numbers: Tensor, place: int) -> Tensor:
    """Random numbers in [0, 1), ``[R]``, float32: a hash of seed, sentence ``[R]`` and place.

    Each of the three moves the counter of SplitMix64 (Steele, Lea and Flood 2014), whose
    output is the start for the next; the highest 24 bits, all that float32 holds, make the number.
    """
    start = torch.zeros_like(sentence_numbers, dtype=torch.int64)
    hashed = _mix(_mix(_mix(start, seed), sentence_numbers), place)
    return _shift_right(hashed, 64 - _UNIFORM_BITS).float() * 2.0**-_UNIFORM_BITS


def _is_cut(logits: Tensor, top_k: int, top_p: float) -> Tensor:
    """``[R, V]``, True for the tokens that ``top_k`` and then ``top_p`` take away."""
    if top_k > 0:
        ranked = logits.topk(min(top_k, logits.shape[1]), dim=-1).values
    else:
        ranked = logits.sort(dim=-1, descending=True).values
    room = torch.full_like(ranked[:, :1], ranked.shape[1], dtype=torch.long)
    if top_p < 1.0:
        shares = ranked.softmax(dim=-1)
        room = (shares.cumsum(dim=-1) - shares < top_p).sum(dim=-1, keepdim=True).clamp(min=1)
    smallest = ranked.gather(1, room - 1)
    # Of those that are equal to the last that stays, as many as there is room for, by their ids: a
    # ranking would have them in another order on another machine.
    is_tied = logits == smallest
    is_above = logits > smallest
    room = room - is_above.sum(dim=-1, keepdim=True)
    return ~(is_above | (is_tied & (is_tied.cumsum(dim=-1) <= room)))


_GOLDEN_GAMMA = 0x9E3779B97F4A7C15 - (1 << 64)


def _mix(state: Tensor, count: Tensor | int) -> Tensor:
    """The output of SplitMix64 that stands ``count`` (from 0) behind ``state``, an int64 tensor.

    Overflow is meant: int64 arithmetic wraps around as the algorithm's unsigned one does.
    """
    z = state + (count + 1) * torch.full_like(state, _GOLDEN_GAMMA)
    z = (z ^ _shift_right(z, 30)) * (0xBF58476D1CE4E5B9 - (1 << 64))
    z = (z ^ _shift_right(z, 27)) * (0x94D049BB133111EB - (1 << 64))
    return z ^ _shift_right(z, 31)


def _shift_right(x: Tensor, bits: int) -> Tensor:
    """The shift that fills with zeros; that of a signed type repeats the sign."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def _check_options(temperature: float, top_k: int, top_p: float) -> None:
    check(0.0 < temperature < math.inf, "temperature", temperature, "above 0 and finite")
    check(top_k >= 0, "top_k", top_k, "0 (all tokens) or more")
    check(0.0 < top_p <= 1.0, "top_p", top_p, "above 0 and at most 1 (all tokens)")
