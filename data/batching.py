"""Batches of sequences of similar length, to compute on little padding."""

import random
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from core.config import check, converted
from data.vocabulary import PAD_ID

# Examples are sorted by length within pools of about this many batches: large enough for batches
# of similar lengths, small enough to shuffle a large corpus in every epoch.
_POOL_BATCHES = 100


def bucket_by_length(
    lengths: Sequence[Sequence[int]], *, batch_tokens: int, seed: int | None
) -> list[list[int]]:
    """Groups examples into batches of limited size; every example is in exactly one batch.

    Returns lists of indices into ``lengths``.

    Args:
        lengths: the lengths of the sides of each example, e.g. ``(source, target)``.
        batch_tokens: the limit of ``longest side * number of examples`` of a batch, with padding.
            An example that exceeds it alone is a batch of its own.
        seed: a number for shuffled batches; None for sorted ones (validation, prediction).
    """
    batch_tokens = converted("batch_tokens", batch_tokens, int)
    check(batch_tokens >= 1, "batch_tokens", batch_tokens, "at least 1")
    longest = [max(sides) for sides in lengths]
    order = list(range(len(lengths)))

    def by_length(index: int) -> tuple[int, ...]:
        return (longest[index], *lengths[index])

    if seed is None:
        return list(_cut(sorted(order, key=by_length), longest, batch_tokens))
    rng = random.Random(seed)
    rng.shuffle(order)
    batches: list[list[int]] = []
    for pool in _pools(order, longest, _POOL_BATCHES * batch_tokens):
        batches.extend(_cut(sorted(pool, key=by_length), longest, batch_tokens))
    rng.shuffle(batches)
    return batches


def epoch_seed(seed: int, epoch: int) -> int:
    """Returns the seed of one epoch; it differs for every epoch and every run seed."""
    return seed * 100_003 + epoch


def pad_sequence(sequences: Sequence[Sequence[int]], pad_id: int = PAD_ID) -> Tensor:
    """Returns ``B`` sequences as the columns of a LongTensor ``[S, B]``, padded at the end."""
    longest = max(map(len, sequences), default=0)
    rows = [[*sequence, *[pad_id] * (longest - len(sequence))] for sequence in sequences]
    padded = torch.tensor(rows, dtype=torch.long).reshape(len(rows), longest)
    return padded.t().contiguous()


def _pools(order: list[int], longest: list[int], pool_tokens: int) -> Iterator[list[int]]:
    """Yields parts of ``order`` of about ``pool_tokens`` tokens each."""
    pool: list[int] = []
    tokens = 0
    for index in order:
        pool.append(index)
        tokens += longest[index]
        if tokens >= pool_tokens:
            yield pool
            pool, tokens = [], 0
    if pool:
        yield pool


def _cut(ordered: list[int], longest: list[int], batch_tokens: int) -> Iterator[list[int]]:
    """Yields batches within the limit, given examples in order of increasing length."""
    batch: list[int] = []
    for index in ordered:
        # The last example is the longest. Empty ones count as one token, to limit the batch.
        if batch and max(longest[index], 1) * (len(batch) + 1) > batch_tokens:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch
