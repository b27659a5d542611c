"""Batches of source-target pairs: selection, bucketing by length, padding."""

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path

from torch import Tensor

from core.errors import CorpusError
from core.progress import log
from data.batching import bucket_by_length, epoch_seed, pad_sequence
from data.codec import TextCodec
from data.examples import Examples, Pair, encode_pairs
from data.pairs import TextPair
from data.vocabulary import BOS_ID, EOS_ID
from tasks.runs.dataset import Dataset


class PairDataset(Dataset[TextPair]):
    """A corpus of pairs in one ``folder``, and the codecs of ``source`` and ``target``."""

    folder: Path
    source: TextCodec
    target: TextCodec

    def encoded(self, split: str, *, max_len: int) -> Examples[Pair]:
        """Returns the pairs of a split as ids, without those too long for ``max_len``."""
        pairs = encode_pairs(self.read(split), (self.source, self.target))
        return pairs.select(short_pairs(pairs, max_len - 1, self.folder / split))


@dataclass(frozen=True)
class DrawnPairs:
    """The pairs of several parts; an epoch draws some of each: the ``encode`` of :class:`PairData`.

    Attributes:
        weights: how often a pair of each part is drawn. With 2 every pair is drawn twice, with 0.3
            a new random 30% of the pairs once.
    """

    parts: Sequence[Examples[Pair]]
    weights: Sequence[float]
    seed: int

    @cached_property
    def pairs(self) -> Examples[Pair]:
        """The pairs of all parts, one part after the other."""
        if len(self.parts) == 1:
            return self.parts[0]
        return Examples.of_pairs(chain.from_iterable(self.parts))

    def rows(self, epoch: int) -> list[int]:
        """Returns the indices of the :attr:`pairs` that ``epoch`` draws."""
        rows: list[int] = []
        start = 0
        for number, (part, weight) in enumerate(zip(self.parts, self.weights, strict=True)):
            copies, share = divmod(weight, 1.0)
            every = range(start, start + len(part))
            rng = random.Random(f"{epoch_seed(self.seed, epoch)}/{number}")
            rows += [*every] * int(copies) + sorted(rng.sample(every, round(share * len(part))))
            start += len(part)
        return rows

    def __call__(self, epoch: int) -> Examples[Pair]:
        """Returns the pairs of ``epoch``."""
        return self.pairs.select(self.rows(epoch))


@dataclass(frozen=True)
class PairData:
    """Length-bucketed batches of encoded pairs, in a new order every epoch.

    Args:
        encode: returns the encoded pairs of an epoch. They may differ from epoch to epoch, but not
            between two calls for the same epoch.
        batch_tokens: the most positions that either side of a batch holds, padding included.
        seed: decides the order.
    """

    encode: Callable[[int], Iterable[Pair]]
    _: KW_ONLY
    batch_tokens: int
    seed: int

    def plan(self, epoch: int) -> list[Examples[Pair]]:
        """Returns the batches of ``epoch``."""
        pairs = Examples.of_pairs(self.encode(epoch))
        # One more on each side: the source ends in <eos>, the target begins with <bos>.
        lengths = (pairs.lengths + 1).tolist()
        seed = epoch_seed(self.seed, epoch)
        batches = bucket_by_length(lengths, batch_tokens=self.batch_tokens, seed=seed)
        return [pairs.select(batch) for batch in batches]

    def batch(self, item: Sequence[Pair]) -> tuple[Tensor, Tensor]:
        """Returns ``src`` ``[S, B]`` and ``tgt`` ``[T+1, B]``."""
        return as_tensors(item)


def short_pairs(pairs: Iterable[Pair], max_tokens: int, path: Path) -> list[int]:
    """Returns the indices of the pairs with at most ``max_tokens`` ids on either side.

    Logs how many of ``path`` are longer. Raises a CorpusError if all are.
    """
    lengths = Examples.of_pairs(pairs).lengths.max(axis=1).tolist()
    short = [index for index, length in enumerate(lengths) if length <= max_tokens]
    if not short:
        raise CorpusError(path, f"no pair here has at most {max_tokens} tokens on either side")
    if len(short) < len(lengths):
        log(
            f"{path}: {len(lengths) - len(short)} of {len(lengths)} pairs have more than "
            f"{max_tokens} tokens on a side and are left out"
        )
    return short


def source_tensor(sources: Sequence[Sequence[int]]) -> Tensor:
    """Returns ``[S, B]``: every source, followed by ``<eos>``."""
    return pad_sequence([[*source, EOS_ID] for source in sources])


def as_tensors(pairs: Sequence[Pair]) -> tuple[Tensor, Tensor]:
    """Returns ``src`` ``[S, B]``, and ``tgt`` ``[T+1, B]`` from ``<bos>`` to ``<eos>``."""
    targets = pad_sequence([[BOS_ID, *target, EOS_ID] for _, target in pairs])
    return source_tensor([source for source, _ in pairs]), targets
