"""Parallel corpora: ``train``, ``val`` and ``test*`` in a folder, a language each as extension."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from core.errors import CorpusError
from data.batching import epoch_seed
from data.codec import TextCodec
from data.readers import read_parallel
from data.tokenizers import seed_dropout
from tasks.pairs import Pair, PairData, is_short, short_pairs
from tasks.translation.config import TranslationData


class LoadEnglishGermanDataset:
    """German to English (Multi30k), or any two languages that ``config`` names.

    Args:
        folder: holds ``train.de`` and ``train.en`` (for languages de, en), ``val.*``, ``test*.*``.
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

    def encoded(self, split: str, *, max_len: int) -> list[Pair]:
        """The pairs of a split as ids, but for those too long for a model of ``max_len``."""
        pairs = [self._encode(*sentences) for sentences in zip(*self.read(split), strict=True)]
        return [pairs[i] for i in short_pairs(pairs, max_len - 1, self.folder / split)]

    def training_data(self, *, batch_tokens: int, seed: int, max_len: int) -> PairData:
        """The training split in batches, cut into other pieces every epoch with BPE-dropout.

        Pairs of more than ``data.max_tokens``, or too long for a model of ``max_len``, are left
        out.
        """
        sentences = list(zip(*self.read("train"), strict=True))
        pairs = [self._encode(source, target) for source, target in sentences]
        max_tokens = min(self.config.max_tokens, max_len - 1)
        kept = short_pairs(pairs, max_tokens, self.folder / "train")
        pairs, sentences = [pairs[i] for i in kept], [sentences[i] for i in kept]
        dropout = self.config.bpe_dropout

        def encode(epoch: int) -> list[Pair]:
            if dropout == 0.0:
                return pairs
            seed_dropout(epoch_seed(seed, epoch))
            others = [self._encode(source, target, dropout) for source, target in sentences]
            # Dropout makes more pieces of a sentence, which may be too many.
            return [
                other if is_short(other, max_tokens) else pair
                for other, pair in zip(others, pairs, strict=True)
            ]

        return PairData(encode, batch_tokens=batch_tokens, seed=seed)

    def _encode(self, source: str, target: str, dropout: float = 0.0) -> Pair:
        return (
            self.source.encode(source, dropout=dropout),
            self.target.encode(target, dropout=dropout),
        )


def build_codecs(
    sources: Sequence[str], targets: Sequence[str], config: TranslationData, folder: Path
) -> tuple[TextCodec, TextCodec]:
    """Learns the vocabularies of both languages, one for both if ``config`` says so."""
    if config.share_vocabulary:
        shared = TextCodec.build([*sources, *targets], folder, config)
        return shared, shared
    return (
        TextCodec.build(sources, folder, config, side="src"),
        TextCodec.build(targets, folder, config, side="tgt"),
    )


def load_codecs(folder: Path, config: TranslationData) -> tuple[TextCodec, TextCodec]:
    """The codecs that :func:`build_codecs` left in ``folder``."""
    if config.share_vocabulary:
        shared = TextCodec.load(folder, tokenizer=config.tokenizer)
        return shared, shared
    return (
        TextCodec.load(folder, tokenizer=config.tokenizer, side="src"),
        TextCodec.load(folder, tokenizer=config.tokenizer, side="tgt"),
    )
