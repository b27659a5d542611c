"""The pairs of an epoch, drawn from several folders, some of them changed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from data.batching import epoch_seed
from data.codec import TextCodec
from data.examples import Examples, Pair
from data.readers import TextPair
from tasks.seq2seq.batches import DrawnPairs, is_short
from tasks.translation.augmentation import augmented


class TaggedText(NamedTuple):
    """The texts of a pair, and the ids of the tag that its source begins with."""

    tag: Sequence[int]
    pair: TextPair


@dataclass(frozen=True)
class Mixture(DrawnPairs):
    """The pairs of all epochs; ``seed`` and the number of the epoch decide how they are changed.

    Attributes:
        texts: those of all pairs, one part after the other; not needed without ``augment``.
        codecs: those of source and target.
        max_tokens: pairs that become longer than this are used as they were.
        augment: the share of pairs that :mod:`tasks.translation.augmentation` changes.
    """

    texts: Sequence[TaggedText]
    codecs: tuple[TextCodec, TextCodec]
    max_tokens: int
    augment: float

    def __call__(self, epoch: int) -> Examples[Pair]:
        return Examples.of_pairs(self._changed(epoch)) if self.augment else super().__call__(epoch)

    def _changed(self, epoch: int) -> Iterator[Pair]:
        source, target = self.codecs
        rng = random.Random(f"{epoch_seed(self.seed, epoch)}/augment")
        for row in self.rows(epoch):
            pair = self.pairs[row]
            if rng.random() < self.augment:
                tag, texts = self.texts[row]
                text, translated = augmented(*texts, rng)
                changed = [*tag, *source.encode(text)], target.encode(translated)
                # A sentence may have more tokens now, perhaps too many.
                pair = changed if is_short(changed, self.max_tokens) else pair
            yield pair
