"""The pairs of an epoch, drawn from several folders, some of them changed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass

from data.batching import epoch_seed
from data.codec import TextCodec
from data.examples import Examples, Pair
from data.readers import TextPair
from tasks.seq2seq.batches import DrawnPairs, is_short
from tasks.translation.augmentation import augmented


@dataclass(frozen=True)
class TrainingPairs:
    """The training pairs of one folder, none of which is too long.

    Attributes:
        pairs: encoded, the ids of the tag included.
        weight: how often a pair is drawn in an epoch, see :class:`ExtraCorpus`.
        tag: the ids that every source begins with.
        texts: the texts of the same pairs, for augmentation.
    """

    pairs: Examples[Pair]
    _: KW_ONLY
    weight: float = 1.0
    tag: Sequence[int] = ()
    texts: Sequence[TextPair] = ()


class Mixture:
    """The pairs of all epochs: the function ``encode`` of :class:`PairData`.

    Which pairs an epoch has, and how they are changed, is decided by ``seed`` and the number of the
    epoch.

    Args:
        parts: the folders.
        codecs: those of source and target.
        max_tokens: pairs that become longer than this are used as they were.
        augment: the share of pairs that :mod:`tasks.translation.augmentation` changes.
    """

    def __init__(
        self,
        parts: Sequence[TrainingPairs],
        *,
        codecs: tuple[TextCodec, TextCodec],
        max_tokens: int,
        seed: int,
        augment: float = 0.0,
    ) -> None:
        self._drawn = DrawnPairs([p.pairs for p in parts], [p.weight for p in parts], seed)
        self._texts = [(text, part.tag) for part in parts for text in part.texts]
        self._codecs, self._max_tokens, self._augment = codecs, max_tokens, augment

    def __call__(self, epoch: int) -> Examples[Pair]:
        """Returns the pairs of ``epoch``."""
        if not self._augment:
            return self._drawn(epoch)
        rng = random.Random(f"{epoch_seed(self._drawn.seed, epoch)}/augment")
        return Examples.of_pairs(self._changed(self._drawn.rows(epoch), rng))

    def _changed(self, rows: Sequence[int], rng: random.Random) -> Iterator[Pair]:
        """Yields the pairs ``rows``, some of them changed."""
        source, target = self._codecs
        for row in rows:
            pair = self._drawn.pairs[row]
            if rng.random() < self._augment:
                texts, tag = self._texts[row]
                text, translated = augmented(*texts, rng)
                changed = [*tag, *source.encode(text)], target.encode(translated)
                # A sentence may have more tokens now, perhaps too many.
                pair = changed if is_short(changed, self._max_tokens) else pair
            yield pair
