"""Labeled texts as ids: AG_News, or tables of any kind (:mod:`.sources`)."""

import unicodedata
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, tensor

from core.progress import log
from data.batching import bucket_by_length, epoch_seed, pad_sequence
from data.codec import TextCodec
from data.examples import Examples, IdLists, encode_texts
from data.tokenizers import SentencePieceBPE
from data.vocabulary import PAD_ID, UNK_ID
from tasks.classification.cleaning import clean
from tasks.classification.config import ClassificationData
from tasks.classification.sources import (
    NewsFolder,
    Row,
    TableSource,
    class_count,
    open_source,
    write_classes,
)
from tasks.runs.dataset import Dataset

# A small table is trained on in about this many batches per epoch, unless they were tiny.
_MIN_BATCHES = 100
_MIN_BATCH_TOKENS = 256
_CHARACTERS_PER_SUBWORD = 20  # of the training texts, for each subword of several characters
_OTHER_TOKENS = 320  # special tokens, bytes, and what normalization adds

Example = tuple[list[int], int]
"""The ids and the class number of a text."""


class LabeledTexts(Examples[Example]):
    """Texts as ids, and the numbers of their classes."""

    def __init__(self, texts: IdLists, labels: NDArray[np.int64]) -> None:
        super().__init__(texts, labels)
        self.texts, self.labels = texts, labels


class LoadSentenceClassificationDataset(Dataset[Row]):
    """AG_News, or the data of a user; :mod:`.sources` describes both.

    Args:
        folder: a folder in AG_News' layout; or a table, or a folder of tables or texts.
        config: what is read, and how it becomes ids.
        seed: selects the rows of splits without a file.
        codec, classes: those of an existing model. Without a codec, one is built from the training
            rows and saved in ``save_to``, together with the names of the classes.

    Raises:
        CorpusError: the corpus cannot be read, or its classes differ from the model's.
    """

    def __init__(
        self,
        folder: str | Path,
        config: ClassificationData,
        *,
        seed: int,
        save_to: str | Path | None = None,
        codec: TextCodec | None = None,
        classes: Sequence[str] | None = None,
    ) -> None:
        self.splits = open_source(Path(folder), config, seed=seed, classes=classes)
        if config.clean is None:
            config = replace(config, clean=isinstance(self.splits, NewsFolder))
        self.config = config
        self.classes = self.splits.classes
        if codec is None:
            if save_to is None:
                raise ValueError("without a codec, save_to must name the folder of the new one")
            texts = [self.text_of(row) for row in self.read("train")]
            codec_config = replace(config, vocab_size=_vocab_size(config, texts))
            codec = TextCodec.build(texts, Path(save_to), codec_config)
            write_classes(Path(save_to), self.classes)
        self.codec = codec
        self._encoded: dict[str, LabeledTexts] = {}

    def text_of(self, row: Row) -> str:
        """Returns the text as a model reads it."""
        return normalize(row.text, self.config)

    def encoded(self, split: str) -> LabeledTexts:
        """Returns the rows of a split as ids and class numbers; no row is left out."""
        if split not in self._encoded:
            rows = self.read(split)
            texts = encode_texts(self.codec, map(self.text_of, rows), empty=[UNK_ID])
            self._encoded[split] = LabeledTexts(texts, np.array([row.label for row in rows]))
        return self._encoded[split]

    def training_data(self, *, batch_tokens: int, seed: int, max_len: int) -> "TextData":
        """Returns the training rows in batches; reports classes with hardly any rows.

        The batches of a small table are smaller than ``batch_tokens``.
        """
        examples = self.encoded("train")
        texts, counts = examples.texts, np.bincount(examples.labels, minlength=len(self.classes))
        path = self.splits.files("train")[-1]
        for number, rows in ((0, "no training row"), (1, "only one training row")):
            names = [name for name, n in zip(self.classes, counts, strict=True) if n == number]
            if names:
                log(f"{path}: {rows} for {class_count(names, self.classes)}")
        if isinstance(self.splits, TableSource):
            batch_tokens = _batch_tokens_for(texts, batch_tokens)
        wanted = self.config.max_sen_len
        longest = min(max_len, wanted) if isinstance(wanted, int) else max_len
        cut = int((texts.lengths > longest).sum())
        if cut:
            log(f"{cut} of {len(texts)} training texts are cut at {longest} tokens")
        texts = texts.cut(longest)
        pad_to = 0 if wanted is None else longest
        if wanted == "same":
            pad_to = int(texts.lengths.max())
        examples = LabeledTexts(texts, examples.labels)
        return TextData(examples, batch_tokens=batch_tokens, seed=seed, pad_to=pad_to)


def _vocab_size(config: ClassificationData, texts: Sequence[str]) -> int | None:
    """Returns a vocabulary size that few texts can fill.

    In a larger one, whole sentences become subwords, which no other text has.
    """
    if config.vocab_size is None or config.tokenizer != SentencePieceBPE.name:
        return config.vocab_size
    characters = set().union(*(unicodedata.normalize("NFKC", text) for text in texts))
    merges = sum(map(len, texts)) // _CHARACTERS_PER_SUBWORD
    return min(config.vocab_size, _OTHER_TOKENS + len(characters) + merges)


def _batch_tokens_for(texts: IdLists, batch_tokens: int) -> int:
    """Returns a smaller size of batches for a small table, so that an epoch has enough steps."""
    enough = max(_MIN_BATCH_TOKENS, int(texts.lengths.sum()) // _MIN_BATCHES)
    if enough >= batch_tokens:
        return batch_tokens
    log(
        f"{len(texts):,} training texts are few: batches have {enough} tokens, not "
        f"train.batch_tokens = {batch_tokens}"
    )
    return enough


@dataclass(frozen=True)
class TextData:
    """Length-bucketed batches of labeled texts, of length ``pad_to`` or more, new in each epoch."""

    examples: Examples[Example]
    _: KW_ONLY
    batch_tokens: int
    seed: int
    pad_to: int = 0

    def plan(self, epoch: int) -> list[Examples[Example]]:
        """Returns the batches of ``epoch``."""
        lengths = self.examples.lengths.clip(min=self.pad_to).tolist()
        seed = epoch_seed(self.seed, epoch)
        batches = bucket_by_length(lengths, batch_tokens=self.batch_tokens, seed=seed)
        return [self.examples.select(batch) for batch in batches]

    def batch(self, item: Sequence[Example]) -> tuple[Tensor, Tensor]:
        """Returns ``src`` ``[S, B]`` and the class numbers ``[B]``."""
        return as_tensors(item, pad_to=self.pad_to)


def normalize(text: str, config: ClassificationData) -> str:
    """Returns the text as a model reads it, cleaned and in lower case if ``config`` says so."""
    return as_read(cleaned(text, config), config)


def cleaned(text: str, config: ClassificationData) -> str:
    """Returns the text without what web scraping left in it, if ``config`` says so.

    In either case, every run of white space becomes one space.
    """
    return clean(text) if config.clean else " ".join(text.split())


def as_read(text: str, config: ClassificationData) -> str:
    """Returns a cleaned text, in lower case if ``config`` says so."""
    return text.lower() if config.lowercase else text


def as_tensors(examples: Sequence[Example], *, pad_to: int = 0) -> tuple[Tensor, Tensor]:
    """Returns ``src`` ``[S, B]`` (S at least ``pad_to``) and the class numbers ``[B]``."""
    padded = [[*ids, *[PAD_ID] * (pad_to - len(ids))] for ids, _ in examples]
    return pad_sequence(padded), tensor([label for _, label in examples])
