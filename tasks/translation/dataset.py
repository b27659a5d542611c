"""Parallel corpora: a folder of ``train``, ``val`` and ``test*`` with a language each as extension."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from core.errors import CorpusError
from core.progress import say
from data.codec import TextCodec
from data.readers import read_parallel
from data.tokenizers import seed_dropout
from tasks.pairs import Pair, PairData
from tasks.translation.config import TranslationData


class LoadEnglishGermanDataset:
    """German to English (Multi30k), or any two languages that ``config`` names.

    Args:
        folder: holds ``train.de`` and ``train.en``, ``val.*`` and ``test*.*`` (de, en: the languages).
        config: languages, tokeniser and vocabulary.
        source, target: codecs of a model that exists already; without them they are learnt from
            the training split alone and saved in ``save_to``.
    """

    def __init__(
        self,
        folder: Path,
        config: TranslationData,
        *,
        save_to: Path | None = None,
        source: TextCodec | None = None,
        target: TextCodec | None = None,
    ) -> None:
        self.folder = folder
        self.config = config
        if not folder.is_dir():
            raise CorpusError(folder, "there is no such folder")
        if source is None or target is None:
            if save_to is None:
                raise ValueError("without codecs, save_to must say where to keep the new ones")
            source, target = build_codecs(*self.read("train"), config, save_to)
        self.source, self.target = source, target

    def splits(self) -> list[str]:
        """The names of the splits that are complete, e.g. train, val, test_2016_flickr."""
        names = {path.stem for path in self.folder.glob(f"*.{self.config.src}")}
        return sorted(n for n in names if (self.folder / f"{n}.{self.config.tgt}").is_file())

    def test_split(self) -> str | None:
        """The first of the splits called ``test*``, in alphabetical order, if there is one."""
        return next((name for name in self.splits() if name.startswith("test")), None)

    def read(self, split: str) -> tuple[list[str], list[str]]:
        """The sentences of a split, source and target, aligned by line.

        Raises:
            CorpusError: a file is missing, unreadable, or not parallel to the other.
        """
        return read_parallel(
            self.folder / f"{split}.{self.config.src}", self.folder / f"{split}.{self.config.tgt}"
        )

    def encoded(self, split: str) -> list[Pair]:
        """The pairs of a split as ids."""
        sources, targets = self.read(split)
        return self._encode(sources, targets)

    def training_data(self, *, batch_tokens: int, seed: int) -> PairData:
        """The training split in batches, cut into other pieces every epoch with BPE-dropout."""
        sources, targets = self.read("train")
        plain = self._encode(sources, targets)
        fits = [i for i, pair in enumerate(plain) if max(map(len, pair)) <= self.config.max_tokens]
        if len(fits) < len(plain):
            say(
                f"{len(plain) - len(fits)} of {len(plain)} training pairs are longer than "
                f"data.max_tokens = {self.config.max_tokens} and are left out"
            )
        kept = [plain[i] for i in fits]

        def encode(epoch: int) -> list[Pair]:
            if self.config.bpe_dropout == 0.0:
                return kept
            seed_dropout(seed * 100_003 + epoch)
            return self._encode(
                [sources[i] for i in fits],
                [targets[i] for i in fits],
                dropout=self.config.bpe_dropout,
            )

        return PairData(encode, batch_tokens=batch_tokens, seed=seed)

    def _encode(
        self, sources: Sequence[str], targets: Sequence[str], dropout: float = 0.0
    ) -> list[Pair]:
        return [
            (self.source.encode(source, dropout=dropout), self.target.encode(target, dropout=dropout))
            for source, target in zip(sources, targets, strict=True)
        ]


def build_codecs(
    sources: Sequence[str], targets: Sequence[str], config: TranslationData, folder: Path
) -> tuple[TextCodec, TextCodec]:
    """Learns the vocabularies of both languages, one for both if ``config`` says so."""
    how = {
        "tokenizer": config.tokenizer,
        "vocab_size": config.vocab_size,
        "min_freq": config.min_freq,
    }
    if config.share_vocabulary:
        shared = TextCodec.build([*sources, *targets], folder, **how)
        return shared, shared
    return (
        TextCodec.build(sources, folder, side="src", **how),
        TextCodec.build(targets, folder, side="tgt", **how),
    )


def load_codecs(folder: Path, config: TranslationData) -> tuple[TextCodec, TextCodec]:
    """The codecs that :func:`build_codecs` left in ``folder``."""
    if config.share_vocabulary:
        shared = TextCodec.load(folder, tokenizer=config.tokenizer)
        return shared, shared
    source, target = (
        TextCodec.load(folder, tokenizer=config.tokenizer, side=side) for side in ("src", "tgt")
    )
    return source, target
