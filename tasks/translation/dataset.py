"""Parallel corpora: ``train.de``, ``train.en``, ``val.*`` and ``test*.*`` in one folder."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from core.errors import CorpusError
from core.storage.files import exists, is_file, is_folder
from data.cache import cached_files
from data.codec import TextCodec
from data.encoding import encode_parallel
from data.examples import Examples, Pair
from data.readers import iter_parallel, read_parallel
from tasks.runs import hold_out
from tasks.runs.hold_out import HoldOut
from tasks.seq2seq.batches import PairData, short_pairs
from tasks.translation.config import ExtraCorpus, TranslationData
from tasks.translation.mixture import Mixture, TrainingPairs

T = TypeVar("T")


class LoadEnglishGermanDataset:
    """German to English (Multi30k), or any two languages that ``config`` names.

    Args:
        folder: contains ``train.de`` and ``train.en`` (for the languages de and en), ``test*.*``
            and optionally ``val.*``.
        config: the languages, the tokenizer and the vocabulary.
        seed: selects the validation pairs if there are no ``val`` files.
        source, target: the codecs of an existing model. Without them, they are built from the
            training pairs and saved in ``save_to``.

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
            source, target = self._build_codecs(Path(save_to))
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

    def read(self, split: str) -> tuple[list[str], list[str]]:
        """Returns the sentences of a split, source and target, aligned by line.

        Raises:
            CorpusError: a file is missing, unreadable, or not parallel to the other.
        """
        sides = read_parallel(*self._files(split))
        rows = self._hold_out.rows(split, len(sides[0]))
        sources, targets = ([side[i] for i in rows] for side in sides)
        return sources, targets

    def natural_pairs(self, most: int) -> list[tuple[str, str]]:
        """Returns at most ``most`` training pairs, from each folder in the share of an epoch.

        Folders with a tag are left out: one of their sides was made by a model.
        """
        parts = [([*zip(*self.read("train"), strict=True)], 1.0)]
        for extra in self.config.extra:
            if not extra.tag:
                parts.append(([*iter_parallel(*self._extra_files(extra))], extra.weight))
        total = sum(weight * len(pairs) for pairs, weight in parts)
        return [
            pair
            for pairs, weight in parts
            for pair in spaced(pairs, math.ceil(most * weight * len(pairs) / total))
        ][:most]

    def encoded(self, split: str, *, max_len: int) -> Examples[Pair]:
        """Returns the pairs of a split as ids, without those too long for ``max_len``."""
        pairs = self._pairs(split)
        return pairs.select(short_pairs(pairs, max_len - 1, self.folder / split))

    def training_data(self, *, batch_tokens: int, seed: int, max_len: int) -> PairData:
        """Returns the training pairs in batches; every epoch draws them anew from extra folders.

        BPE-dropout and augmentation encode them anew in every epoch.

        Pairs of more than ``data.max_tokens``, or too long for ``max_len``, are left out.
        """
        max_tokens = min(self.config.max_tokens, max_len - 1)
        dropout, side = self.config.bpe_dropout, self.config.bpe_dropout_side
        on_source, on_target = (dropout if side in (one, "both") else 0.0 for one in ("src", "tgt"))
        mixture = Mixture(
            [*self._parts(max_tokens, with_texts=dropout > 0.0 or self.config.augment > 0.0)],
            codecs=(self.source, self.target),
            dropout=(on_source, on_target),
            max_tokens=max_tokens,
            seed=seed,
            augment=self.config.augment,
        )
        return PairData(mixture, batch_tokens=batch_tokens, seed=seed)

    def files(self, *splits: str) -> list[Path]:
        """Returns the files that contain these splits; those of ``extra`` belong to train."""
        paths = [path for split in splits for path in self._files(split)]
        extra = self.config.extra if "train" in splits else ()
        return [*paths, *(path for one in extra for path in self._extra_files(one))]

    def _paths(self, name: str) -> tuple[Path, Path]:
        source, target = self.config.src, self.config.tgt
        return self.folder / f"{name}.{source}", self.folder / f"{name}.{target}"

    def _files(self, split: str) -> tuple[Path, Path]:
        """Returns the files that contain a split."""
        return self._paths(self._hold_out.source(split))

    def _extra_files(self, extra: ExtraCorpus) -> tuple[Path, Path]:
        folder = Path(extra.path)
        return folder / f"train.{self.config.src}", folder / f"train.{self.config.tgt}"

    def _parts(self, max_tokens: int, *, with_texts: bool) -> Iterator[TrainingPairs]:
        """Yields the training pairs of the corpus, and those of each extra folder."""
        pairs = self._pairs("train")
        kept = short_pairs(pairs, max_tokens, self.folder / "train")
        texts = list(zip(*self.read("train"), strict=True)) if with_texts else ()
        yield TrainingPairs(pairs.select(kept), texts=[texts[i] for i in kept] if texts else ())
        for extra in self.config.extra:
            files = self._extra_files(extra)
            pairs = encode_parallel(*files, (self.source, self.target))
            tag = [self.source.tag_id(extra.tag)] if extra.tag else []
            pairs = pairs.after(tag[0]) if tag else pairs
            kept = short_pairs(pairs, max_tokens, Path(extra.path) / "train")
            texts = list(iter_parallel(*files)) if with_texts else ()
            chosen = [texts[i] for i in kept] if texts else ()
            yield TrainingPairs(pairs.select(kept), weight=extra.weight, tag=tag, texts=chosen)

    def _training_texts(self) -> tuple[list[str], list[str]]:
        """Returns all sources and all targets, those of the extra folders included."""
        sources, targets = self.read("train")
        for extra in self.config.extra:
            for source, target in iter_parallel(*self._extra_files(extra)):
                sources.append(source)
                targets.append(target)
        return sources, targets

    def _build_codecs(self, folder: Path) -> tuple[TextCodec, TextCodec]:
        config = self.config
        cached_files(
            "vocabularies",
            lambda: build_codecs(*self._training_texts(), config, folder),
            folder,
            [n for side in _sides(config) for n in TextCodec.file_names(config.tokenizer, side)],
            files=self.files("train"),
            settings=config.vocabulary_settings()
            | {
                "is_shared": config.share_vocabulary,
                "held_out": self._hold_out.key(),
                "tags": config.tags,
            },
            code=[__file__, hold_out.__file__],
        )
        return load_codecs(folder, config)

    def _pairs(self, split: str) -> Examples[Pair]:
        """Returns all pairs of a split as ids."""
        pairs = encode_parallel(*self._files(split), (self.source, self.target))
        return pairs.select(self._hold_out.rows(split, len(pairs)))


def spaced(items: Sequence[T], most: int) -> list[T]:
    """Returns ``items``, or ``most`` of them at equal distances."""
    if len(items) <= most:
        return list(items)
    return [items[i * len(items) // most] for i in range(most)]


def build_codecs(
    sources: Sequence[str], targets: Sequence[str], config: TranslationData, folder: Path
) -> tuple[TextCodec, TextCodec]:
    """Builds the codecs of both languages, with one vocabulary for both if so configured."""
    texts = [[*sources, *targets]] if config.share_vocabulary else [sources, targets]
    codecs = [
        TextCodec.build(
            side_texts, folder, config, side=side, tags=() if side == "tgt" else config.tags
        )
        for side_texts, side in zip(texts, _sides(config), strict=True)
    ]
    return codecs[0], codecs[-1]


def load_codecs(folder: Path, config: TranslationData) -> tuple[TextCodec, TextCodec]:
    """Loads the codecs that :func:`build_codecs` saved in ``folder``."""
    codecs = [
        TextCodec.load(folder, tokenizer=config.tokenizer, side=side) for side in _sides(config)
    ]
    return codecs[0], codecs[-1]


def _sides(config: TranslationData) -> tuple[str, ...]:
    """Returns the part of the file names that tells two vocabularies apart; "" for a shared one."""
    return ("",) if config.share_vocabulary else ("src", "tgt")
