"""Sampling: outputs drawn from the distribution of the model, or from its most probable part.

Tokens are drawn with the Gumbel-max trick (Gumbel 1954; Maddison et al. 2014): the argmax of
log-probability plus Gumbel noise is a sample. The noise of a token is a hash of the seed, the
number of the text, the step and the token, and depends on nothing else. A text therefore draws the
same output in any batch and any order, unless rounding of the logits changes the largest sum.
"""

import math

import torch
from torch import Tensor

from core.decoding.greedy_search import search_single_outputs
from core.decoding.search import Constraint, Hypothesis, Record, SearchState, Step

# The nucleus is looked for among this many of the most probable tokens at first.
_HEAD = 64
# Logits that are equal on this grid are equally probable to top_k, and sums of probabilities that
# are this near to p reach it. Rounding, which differs between batches, is far smaller.
_GRID = 2.0**-12
_NEAR = 1e-5
# At this temperature only the most probable tokens are left. float32 cannot divide by much less.
_MIN_TEMPERATURE = 1e-30


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
    constraint: Constraint | None = None,
    record: Record | None = None,
) -> list[Hypothesis]:
    """Draws every token at random, as :func:`draw` describes.

    Args:
        max_lengths: ``[B]``, as in :func:`core.decoding.greedy_search.greedy_search`.
        temperature, top_k, top_p: see :func:`draw`.
        sentence_numbers: ``[B]``, the number of each sentence in the whole input, from 0 by
            default. Two sentences with the same number have the same noise.

    Returns:
        One hypothesis for each sentence, with the ``log_prob`` and ``score`` of the model at
        temperature 1, comparable with other searches.

    Raises:
        UserError: NaN or infinite logits.
    """
    if sentence_numbers is None:
        sentence_numbers = torch.arange(len(max_lengths), device=max_lengths.device)

    def choose(logits: Tensor, sentences: Tensor, position: int) -> Tensor:
        keys = noise_keys(seed, sentence_numbers[sentences], position)
        return draw(logits, keys, temperature=temperature, top_k=top_k, top_p=top_p)

    return search_single_outputs(step, state, choose, max_lengths, constraint, record)


def draw(
    logits: Tensor, keys: Tensor, *, temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0
) -> Tensor:
    """Draws one token ``[R]`` for each row of ``logits`` ``[R, V]``.

    Args:
        keys: ``[R]``, int64, from :func:`noise_keys`.
        temperature: divides the logits; towards 0 the search becomes greedy.
        top_k: only the k most probable tokens can be drawn (Fan et al. 2018); 0 for all. Of equally
            probable ones those with lower ids stay.
        top_p: of the tokens that ``top_k`` leaves, only the fewest most probable ones can be drawn
            whose probabilities together reach p (nucleus sampling: Holtzman et al. 2020, section
            3.1); 1 for all.

    Returns:
        Token ids. One with the logit minus infinity is only drawn in a row of nothing else.
    """
    if logits.shape[0] == 0:
        return keys
    # The best becomes 0. A low temperature then gives minus infinity, but never NaN.
    best = logits.amax(dim=1, keepdim=True)
    best.masked_fill_(best == -math.inf, 0.0)
    logits = logits - best
    temperature = max(temperature, _MIN_TEMPERATURE)
    if top_k == 0 and top_p == 1.0:
        noise = gumbel_noise(keys.unsqueeze(1), torch.arange(logits.shape[1], device=keys.device))
        return noise.add_(logits.double() / temperature).argmax(dim=1)
    head = _most_probable(logits, min(top_k or _HEAD, logits.shape[1]))
    weights = logits.gather(1, head).double() / temperature
    if top_k > 0:
        return _draw_from_nucleus(weights, weights.logsumexp(dim=1), head, keys, top_p)
    total = (logits / temperature).logsumexp(dim=1).double()
    tokens = _draw_from_nucleus(weights, total, head, keys, top_p)
    # The nucleus of a flat distribution is larger than the head.
    reached = (weights.logsumexp(dim=1) - total).exp()
    rows = (reached < top_p - _NEAR).nonzero().flatten()
    if len(rows) > 0:
        ids = _most_probable(logits[rows], logits.shape[1])
        weights = logits[rows].gather(1, ids).double() / temperature
        tokens[rows] = _draw_from_nucleus(weights, total[rows], ids, keys[rows], top_p)
    return tokens


def _draw_from_nucleus(
    weights: Tensor, total: Tensor, ids: Tensor, keys: Tensor, top_p: float
) -> Tensor:
    """Draws one token ``[R]`` from the nucleus of the tokens ``ids`` ``[R, C]``.

    Args:
        weights: ``[R, C]``, their log-weights, the largest first.
        total: ``[R]``, the logarithm of the total weight that ``top_p`` is a share of.
    """
    if top_p < 1.0:
        shares = (weights - total.unsqueeze(1)).exp()
        is_outside = shares.cumsum(dim=1) - shares >= top_p - _NEAR
        is_outside[:, 0] = False
        weights = weights.masked_fill(is_outside, -math.inf)
    places = (weights + gumbel_noise(keys.unsqueeze(1), ids)).argmax(dim=1, keepdim=True)
    return ids.gather(1, places).squeeze(1)


def _most_probable(logits: Tensor, count: int) -> Tensor:
    """Returns the ids ``[R, count]`` of the likeliest tokens, of equal ones the lower ids first."""
    size = logits.shape[1]
    ranks = logits.double().div_(_GRID).round_()
    ranks -= torch.arange(size, device=logits.device) / size
    return ranks.topk(count, dim=1).indices


def noise_keys(seed: int, sentence_numbers: Tensor, position: int) -> Tensor:
    """Returns a hash, int64 ``[R]``, of the seed, the sentences ``[R]`` and the position.

    Each of the three advances the counter of SplitMix64 (Steele, Lea and Flood 2014), whose output
    is the start for the next.
    """
    start = torch.zeros_like(sentence_numbers, dtype=torch.int64)
    return _mix(_mix(_mix(start, seed), sentence_numbers), position)


def gumbel_noise(keys: Tensor, tokens: Tensor) -> Tensor:
    """Returns the noise, float64, of each key and token (int64, of shapes that broadcast)."""
    # 52 bits and a half: an exact float64 strictly between 0 and 1, so the noise is finite.
    uniform = (_shift_right(_mix(keys, tokens), 12).double() + 0.5) * 2.0**-52
    return uniform.log_().neg_().log_().neg_()


_GOLDEN_GAMMA = 0x9E3779B97F4A7C15 - (1 << 64)


def _mix(state: Tensor, count: Tensor | int) -> Tensor:
    """Returns output number ``count`` (from 0) of SplitMix64 started at ``state``, int64.

    Overflow is intended: int64 arithmetic wraps around as the unsigned arithmetic of the algorithm.
    """
    z = state + (count + 1) * torch.full_like(state, _GOLDEN_GAMMA)
    z = (z ^ _shift_right(z, 30)) * (0xBF58476D1CE4E5B9 - (1 << 64))
    z = (z ^ _shift_right(z, 27)) * (0x94D049BB133111EB - (1 << 64))
    return z ^ _shift_right(z, 31)


def _shift_right(x: Tensor, bits: int) -> Tensor:
    """Shifts zeros in from the left, where the shift of a signed type repeats the sign."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)
