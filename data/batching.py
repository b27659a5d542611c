"""Batches of sequences of like length, so that little of the work is spent on padding."""

import random
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from transformer_suite.core.errors import ConfigError
from transformer_suite.data.vocabulary import PAD_ID

# Examples are sorted by length inside pools of about this many batches: big enough that a batch
# holds sentences of one length, small enough that a large corpus mixes anew every epoch.
_POOL_BATCHES = 100


def bucket_by_length(
    lengths: Sequence[Sequence[int]], *, batch_tokens: int, seed: int | None
) -> list[list[int]]:
    """Group examples into batches under a budget of tokens; every example is in exactly one batch.

    Args:
        lengths: for each example the lengths of its sides, e.g. `(source, target)`.
        batch_tokens: bound on `longest side in the batch * examples in the batch`, padding
            counted. An example that is longer than this by itself is a batch of its own.
        seed: None for sorted batches in a fixed order (validation, prediction); a number for
            shuffled ones, the same for the same number.

    Returns:
        Lists of indices into `lengths`.
    """
    if batch_tokens < 1:
        raise ConfigError(f"batch_tokens must be at least 1, not {batch_tokens}")
    longest = [max(sides) for sides in lengths]
    order = list(range(len(lengths)))

    def by_length(index: int) -> tuple[int, ...]:
        return (longest[index], *lengths[index])

    if seed is None:
        return list(_cut(sorted(order, key=by_length), longest, batch_tokens))
    generator = random.Random(seed)
    generator.shuffle(order)
    batches: list[list[int]] = []
    for pool in _pools(order, longest, _POOL_BATCHES * batch_tokens):
        batches.extend(_cut(sorted(pool, key=by_length), longest, batch_tokens))
    generator.shuffle(batches)
    return batches


def epoch_seed(seed: int, epoch: int) -> int:
    """The seed of one epoch's random choices: another for every epoch of every run."""
    return seed * 100_003 + epoch


def pad_sequence(sequences: Sequence[Sequence[int]], pad_id: int = PAD_ID) -> Tensor:
    """Stack `B` sequences of ids as the columns of a LongTensor `[S, B]`, padded at the end."""
    longest = max(map(len, sequences), default=0)
    rows = [[*sequence, *[pad_id] * (longest - len(sequence))] for sequence in sequences]
    padded = torch.tensor(rows, dtype=torch.long).reshape(len(rows), longest)
    return padded.t().contiguous()


def padding_share(lengths: Sequence[Sequence[int]], batches: Sequence[Sequence[int]]) -> float:
    """The part of all positions, over all sides of all batches, that is padding: 0 to 1."""
    real = positions = 0
    for batch in batches:
        for side in zip(*(lengths[index] for index in batch), strict=True):
            real += sum(side)
            positions += max(side) * len(side)
    return 1 - real / positions if positions else 0.0


def _pools(order: list[int], longest: list[int], pool_tokens: int) -> Iterator[list[int]]:
    """Cut `order` into runs of about `pool_tokens` tokens each."""
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
    """Cut examples that come in order of rising length into batches under the budget."""
    batch: list[int] = []
    for index in ordered:
        # The newest example is the longest. An empty one still costs: no batch grows without end.
        if batch and max(longest[index], 1) * (len(batch) + 1) > batch_tokens:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch
