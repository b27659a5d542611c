"""Parallel corpora: ``train.de``, ``train.en``, ``val.*`` and ``test*.*`` in one folder."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from core.errors import CorpusError
from core.storage.files import exists, is_file, is_folder
from data.codec import TextCodec
from data.examples import Examples, Pair, encode_pairs
from data.readers import TextPair, read_parallel
from tasks.runs.hold_out import HoldOut
from tasks.seq2seq.batches import PairData, short_pairs
from tasks.translation.codecs import build_codecs
from tasks.translation.config import ExtraCorpus, TranslationData
from tasks.translation.mixture import Mixture, TaggedText

T = TypeVar("T")


class ParallelCorpus:
    """German to English (Multi30k), or any two languages that ``config`` names.

    Args:
        folder: contains ``train.de`` and ``train.en`` (for the languages de and en), ``test*.*``
            and optionally ``val.*``.
        config: the languages, the tokenizer and the vocabulary.
        seed: selects the validation pairs if there are no ``val`` files.
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
        folder = Path(folder)
        if not is_folder(folder):
            raise CorpusError(folder, "there is no such folder")
        self.folder = folder
        self.config = config
        is_needed = not any(exists(path) for path in self._paths("val"))
        self._hold_out = HoldOut(
            is_needed=is_needed, share=config.val_share, seed=seed, path=folder / "train"
        )
        if source is None or target is None:
            if save_to is None:
                raise ValueError("without codecs, save_to must name the folder of the new ones")
            texts = self.read("train")
            texts += [pair for extra in config.extra for pair in self._read_extra(extra)]
            sources, targets = zip(*texts, strict=True)
            source, target = build_codecs(sources, targets, config, Path(save_to))
        self.source, self.target = source, target

    def splits(self) -> list[str]:
        """Returns the names of the complete splits, e.g. train, val, test_2016_flickr."""
        names = {path.stem for path in self.folder.glob(f"*.{self.config.src}")}
        return self._hold_out.splits(name for name in names if is_file(self._paths(name)[1]))

    def check_split(self, split: str) -> None:
        """Raises a ConfigError with the names of all splits, unless ``split`` is one of them."""
        self._hold_out.check_split(split, self.splits())

    def test_split(self) -> str | None:
        """Returns the alphabetically first of the splits ``test*``, or None without any.

        Raises:
            CorpusError: the only test files are in one of the two languages.
        """
        for name in self.splits():
            if name.startswith("test"):
                return name
        for language in (self.config.src, self.config.tgt):
            for path in sorted(self.folder.glob(f"test*.{language}")):
                missing = next(p for p in self._paths(path.stem) if not is_file(p))
                raise CorpusError(missing, f"the file is missing, the other side of {path.name}")
        return None

    def read(self, split: str) -> list[TextPair]:
        """Returns the sentence pairs of a split.

        Raises:
            CorpusError: a file is missing, unreadable, or not parallel to the other.
        """
        pairs = read_parallel(*self._files(split))
        return [pairs[i] for i in self._hold_out.rows(split, len(pairs))]

    def natural_pairs(self, most: int) -> list[TextPair]:
        """Returns at most ``most`` training pairs, from each folder in the share of an epoch.

        Folders with a tag are left out: one of their sides was made by a model.
        """
        parts = [(self.read("train"), 1.0)]
        parts += [(self._read_extra(e), e.weight) for e in self.config.extra if not e.tag]
        total = sum(weight * len(pairs) for pairs, weight in parts)
        return [
            pair
            for pairs, weight in parts
            for pair in spaced(pairs, math.ceil(most * weight * len(pairs) / total))
        ][:most]

    def encoded(self, split: str, *, max_len: int) -> Examples[Pair]:
        """Returns the pairs of a split as ids, without those too long for ``max_len``."""
        pairs = encode_pairs(self.read(split), (self.source, self.target))
        return pairs.select(short_pairs(pairs, max_len - 1, self.folder / split))

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
        """Returns the files that contain these splits; those of ``extra`` belong to train."""
        paths = [path for split in splits for path in self._files(split)]
        extra = self.config.extra if "train" in splits else ()
        return [*paths, *(path for corpus in extra for path in self._extra_files(corpus))]

    def _paths(self, name: str) -> tuple[Path, Path]:
        source, target = self.config.src, self.config.tgt
        return self.folder / f"{name}.{source}", self.folder / f"{name}.{target}"

    def _files(self, split: str) -> tuple[Path, Path]:
        """Returns the files that contain a split."""
        return self._paths(self._hold_out.source(split))

    def _extra_files(self, extra: ExtraCorpus) -> tuple[Path, Path]:
        folder = Path(extra.path)
        return folder / f"train.{self.config.src}", folder / f"train.{self.config.tgt}"

    def _read_extra(self, extra: ExtraCorpus) -> list[TextPair]:
        return read_parallel(*self._extra_files(extra))


def spaced(items: Sequence[T], most: int) -> list[T]:
    """Returns ``items``, or ``most`` of them at equal distances."""
    if len(items) <= most:
        return list(items)
    return [items[i * len(items) // most] for i in range(most)]


LoadEnglishGermanDataset = ParallelCorpus
"""Its name in tutorials."""
