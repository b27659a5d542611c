"""Parallel corpora: ``train``, ``val`` and ``test*`` in a folder, a language each as extension."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from transformer_suite.core.errors import CorpusError
from transformer_suite.data.batching import epoch_seed
from transformer_suite.data.cache import cached_files
from transformer_suite.data.codec import TextCodec
from transformer_suite.data.encoding import encode_parallel
from transformer_suite.data.examples import Examples, Pair
from transformer_suite.data.readers import read_parallel
from transformer_suite.data.tokenizers import seed_dropout
from transformer_suite.tasks.seq2seq.pairs import PairData, is_short, short_pairs
from transformer_suite.tasks.translation.config import TranslationData


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
            source, target = self._build_codecs(save_to)
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
        return read_parallel(*self._files(split))

    def encoded(self, split: str, *, max_len: int) -> Examples[Pair]:
        """The pairs of a split as ids, but for those too long for a model of ``max_len``."""
        pairs = self._pairs(split)
        return pairs.select(short_pairs(pairs, max_len - 1, self.folder / split))

    def training_data(self, *, batch_tokens: int, seed: int, max_len: int) -> PairData:
        """The training split in batches, cut into other pieces every epoch with BPE-dropout.

        Pairs of more than ``data.max_tokens``, or too long for a model of ``max_len``, are left
        out.
        """
        pairs = self._pairs("train")
        max_tokens = min(self.config.max_tokens, max_len - 1)
        kept = short_pairs(pairs, max_tokens, self.folder / "train")
        pairs = pairs.select(kept)
        dropout = self.config.bpe_dropout
        if dropout == 0.0:
            return PairData(lambda epoch: pairs, batch_tokens=batch_tokens, seed=seed)
        lines = list(zip(*self.read("train"), strict=True))
        sentences = [lines[i] for i in kept]

        def encode(epoch: int) -> Iterator[Pair]:
            seed_dropout(epoch_seed(seed, epoch))
            for (source, target), pair in zip(sentences, pairs, strict=True):
                other = (
                    self.source.encode(source, dropout=dropout),
                    self.target.encode(target, dropout=dropout),
                )
                # Dropout makes more pieces of a sentence, which may be too many.
                yield other if is_short(other, max_tokens) else pair

        return PairData(encode, batch_tokens=batch_tokens, seed=seed)

    def _files(self, split: str) -> tuple[Path, Path]:
        languages = (self.config.src, self.config.tgt)
        source, target = (self.folder / f"{split}.{language}" for language in languages)
        return source, target

    def _build_codecs(self, folder: Path) -> tuple[TextCodec, TextCodec]:
        config = self.config
        cached_files(
            "vocabularies",
            lambda: build_codecs(*self.read("train"), config, folder),
            folder,
            [n for side in _sides(config) for n in TextCodec.file_names(config.tokenizer, side)],
            files=self._files("train"),
            settings=config.vocabulary_settings() | {"is_shared": config.share_vocabulary},
            code=[__file__],
        )
        return load_codecs(folder, config)

    def _pairs(self, split: str) -> Examples[Pair]:
        """All pairs of a split as ids."""
        return encode_parallel(*self._files(split), (self.source, self.target))


def build_codecs(
    sources: Sequence[str], targets: Sequence[str], config: TranslationData, folder: Path
) -> tuple[TextCodec, TextCodec]:
    """Learns the vocabularies of both languages, one for both if ``config`` says so."""
    texts = [[*sources, *targets]] if config.share_vocabulary else [sources, targets]
    codecs = [
        TextCodec.build(some, folder, config, side=side)
        for some, side in zip(texts, _sides(config), strict=True)
    ]
    return codecs[0], codecs[-1]


def load_codecs(folder: Path, config: TranslationData) -> tuple[TextCodec, TextCodec]:
    """The codecs that :func:`build_codecs` left in ``folder``."""
    codecs = [
        TextCodec.load(folder, tokenizer=config.tokenizer, side=side) for side in _sides(config)
    ]
    return codecs[0], codecs[-1]


def _sides(config: TranslationData) -> tuple[str, ...]:
    """What the files of the vocabularies are told apart by; one that is shared has no side."""
    return ("",) if config.share_vocabulary else ("src", "tgt")
