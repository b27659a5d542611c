"""Parallel corpora as ids and batches; :mod:`.sources` describes their files."""

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

from data.batching import epoch_seed
from data.codec import TextCodec
from data.examples import Examples, Pair, encode_pairs
from data.pairs import TextPair
from tasks.runs.dataset import ALL
from tasks.seq2seq.batches import DrawnPairs, PairData, PairDataset, short_pairs
from tasks.translation.augmentation import augmented
from tasks.translation.config import ExtraCorpus, TranslationData
from tasks.translation.model import build_codecs
from tasks.translation.sources import PairSource, open_pairs

T = TypeVar("T")


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
                pair = changed if max(map(len, changed)) <= self.max_tokens else pair
            yield pair


class ParallelCorpus(PairDataset):
    """German to English (Multi30k), or any two languages that ``config`` names.

    Args:
        folder: the corpus, which may also be a file (:mod:`.sources`).
        config: the languages, the tokenizer and the vocabulary.
        seed: selects the pairs of splits without a file.
        source, target: the codecs of an existing model. Without them, they are built from all
            training pairs, those of the extra folders included, and saved in ``save_to``.

    Raises:
        CorpusError: the folder or a file is missing or not valid.
    """

    def __init__(
        self,
        folder: str | Path,
        config: TranslationData,
        *,
        seed: int,
        save_to: str | Path | None = None,
        source: TextCodec | None = None,
        target: TextCodec | None = None,
    ) -> None:
        self.folder, self.config = Path(folder), config
        self.splits = open_pairs(self.folder, config, seed=seed)
        if source is None or target is None:
            if save_to is None:
                raise ValueError("without codecs, save_to must name the folder of the new ones")
            texts = self.read("train")
            texts += [pair for extra in config.extra for pair in self._read_extra(extra)]
            sources, targets = zip(*texts, strict=True)
            source, target = build_codecs(sources, targets, config, Path(save_to))
        self.source, self.target = source, target

    def natural_pairs(self, most: int) -> list[TextPair]:
        """Returns at most ``most`` training pairs; none with a tag, which a model has made."""
        parts = [(self.read("train"), 1.0)]
        parts += [(self._read_extra(e), e.weight) for e in self.config.extra if not e.tag]
        total = sum(weight * len(pairs) for pairs, weight in parts)
        return [
            pair
            for pairs, weight in parts
            for pair in spaced(pairs, math.ceil(most * weight * len(pairs) / total))
        ][:most]

    def training_data(self, *, batch_tokens: int, seed: int, max_len: int) -> PairData:
        """Returns the training pairs in batches; every epoch draws them anew from extra folders.

        Augmentation changes and encodes them anew in every epoch. Pairs of more than
        ``data.max_tokens``, or too long for ``max_len``, are left out.
        """
        max_tokens = min(self.config.max_tokens, max_len - 1)
        codecs, extra = (self.source, self.target), self.config.extra
        folders = [(self.folder, "", self.read("train"))]
        folders += [(Path(more.path), more.tag, self._read_extra(more)) for more in extra]
        parts: list[Examples[Pair]] = []
        texts: list[TaggedText] = []
        for folder, tag, pairs in folders:
            prefix = [self.source.tag_id(tag)] if tag else []
            encoded = encode_pairs(pairs, codecs, prefix=prefix)
            kept = short_pairs(encoded, max_tokens, folder / "train")
            parts.append(encoded.select(kept))
            if self.config.augment:
                texts += [TaggedText(prefix, pairs[i]) for i in kept]
        weights = [1.0, *(more.weight for more in extra)]
        mixture = Mixture(parts, weights, seed, texts, codecs, max_tokens, self.config.augment)
        return PairData(mixture, batch_tokens=batch_tokens, seed=seed)

    def files(self, *splits: str) -> list[Path]:
        """Returns the files that decide these splits; those of ``extra`` belong to train."""
        extra = self.config.extra if "train" in splits else ()
        paths = [path for more in extra for path in self._open_extra(more).files(ALL)]
        return list(dict.fromkeys([*super().files(*splits), *paths]))

    def _open_extra(self, extra: ExtraCorpus) -> PairSource:
        return open_pairs(Path(extra.path), self.config, seed=0)

    def _read_extra(self, extra: ExtraCorpus) -> list[TextPair]:
        return self._open_extra(extra).read(ALL)


def spaced(items: Sequence[T], most: int) -> list[T]:
    """Returns ``items``, or ``most`` of them at equal distances."""
    if len(items) <= most:
        return list(items)
    return [items[i * len(items) // most] for i in range(most)]


LoadEnglishGermanDataset = ParallelCorpus
"""Its name in tutorials."""
