"""The pairs of an epoch, drawn from several folders, each with its weight."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass

import numpy as np

from data.batching import epoch_seed
from data.codec import TextCodec
from data.examples import Examples, Pair
from data.tokenizers import seed_dropout
from tasks.seq2seq.batches import drawn_rows, is_short
from tasks.translation.augmentation import augmented


@dataclass(frozen=True)
class TrainingPairs:
    """The training pairs of one folder, none of which is too long.

    Attributes:
        pairs: encoded, the ids of the tag included.
        weight: how often a pair is drawn in an epoch, see :class:`ExtraCorpus`.
        tag: the ids that every source begins with.
        texts: the texts of the same pairs, for BPE-dropout and augmentation.
    """

    pairs: Examples[Pair]
    _: KW_ONLY
    weight: float = 1.0
    tag: Sequence[int] = ()
    texts: Sequence[tuple[str, str]] = ()

    def rows(self, seed: str) -> list[int]:
        """Returns the indices of the pairs that ``seed`` draws."""
        return drawn_rows(len(self.pairs), self.weight, seed)


@dataclass(frozen=True)
class Mixture:
    """The pairs of all epochs: the function ``encode`` of :class:`PairData`.

    Which pairs an epoch has, and how they are segmented and changed, is decided by ``seed`` and the
    number of the epoch.

    Attributes:
        parts: the folders.
        codecs: those of source and target.
        dropout: the probability of BPE-dropout for either side.
        max_tokens: pairs that become longer than this are used as they were.
        augment: the share of pairs that :mod:`tasks.translation.augmentation` changes.
    """

    parts: Sequence[TrainingPairs]
    _: KW_ONLY
    codecs: tuple[TextCodec, TextCodec]
    dropout: tuple[float, float]
    max_tokens: int
    seed: int
    augment: float = 0.0

    def __call__(self, epoch: int) -> Examples[Pair]:
        """Returns the pairs of ``epoch``."""
        seed = epoch_seed(self.seed, epoch)
        rows = [part.rows(f"{seed}/{number}") for number, part in enumerate(self.parts)]
        if any(self.dropout) or self.augment:
            seed_dropout(seed)
            rng = random.Random(f"{seed}/augment")
            return Examples.of_pairs(
                pair
                for part, drawn in zip(self.parts, rows, strict=True)
                for pair in self._encode(part, drawn, rng)
            )
        return Examples.joined(
            [
                part.pairs if part.weight == 1.0 else part.pairs.select(np.array(drawn, np.int64))
                for part, drawn in zip(self.parts, rows, strict=True)
            ]
        )

    def _encode(
        self, part: TrainingPairs, rows: Sequence[int], rng: random.Random
    ) -> Iterator[Pair]:
        (source, target), (on_source, on_target) = self.codecs, self.dropout
        for row in rows:
            texts = part.texts[row]
            is_changed = rng.random() < self.augment
            if not (is_changed or any(self.dropout)):
                yield part.pairs[row]
                continue
            text, translated = augmented(*texts, rng) if is_changed else texts
            ids = [*part.tag, *source.encode(text, dropout=on_source)]
            pair = ids, target.encode(translated, dropout=on_target)
            # A sentence may have more tokens now, perhaps too many.
            yield pair if is_short(pair, self.max_tokens) else part.pairs[row]
