"""Labeled texts as ids: AG_News, or tables of any kind (:mod:`.sources`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from torch import Tensor, get_num_threads, tensor

from core.progress import log
from data.batching import bucket_by_length, epoch_seed, pad_sequence
from data.cache import cached, cached_files
from data.codec import TextCodec
from data.encoding import encode_rows
from data.examples import Examples, IdLists
from data.readers import Row
from data.tokenizers import seed_dropout
from data.vocabulary import PAD_ID, UNK_ID
from tasks.classification import cleaning, sources
from tasks.classification.classes import class_count, write_classes
from tasks.classification.cleaning import clean
from tasks.classification.config import ClassificationData
from tasks.classification.sources import TableSource, open_source
from tasks.runs import hold_out

# The files whose code decides the texts and the splits.
_CODE = (__file__, cleaning.__file__, hold_out.__file__, sources.__file__)

# A small table is trained on in about this many batches per epoch, unless they were tiny.
_MIN_BATCHES = 100
_MIN_BATCH_TOKENS = 256

Example = tuple[list[int], int]
"""The ids and the class number of a text."""


class LoadSentenceClassificationDataset:
    """AG_News, or the data of a user; :mod:`.sources` describes both.

    Args:
        folder: a folder in AG_News' layout; or a table, or a folder of tables or texts.
        config: what is read, and how it becomes ids.
        seed: selects the rows of splits without a file.
        codec, classes: those of an existing model. Without a codec, one is built from the training
            rows and saved in ``save_to``, together with the names of the classes.

    Raises:
        CorpusError: there is no such corpus, it cannot be read, or its classes differ from the
            model's.
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
        self.config = config
        self.source = open_source(Path(folder), config, seed=seed, classes=classes)
        self.classes = self.source.classes
        if codec is None:
            if save_to is None:
                raise ValueError("without a codec, save_to must name the folder of the new one")
            codec = self._build_codec(Path(save_to))
            write_classes(Path(save_to), self.classes)
        self.codec = codec

    def read(self, split: str) -> list[Row]:
        """Returns the rows of a split: train, val or test.

        Raises:
            CorpusError: the file is missing or not valid.
        """
        rows = list(self.source.rows(split))
        return [rows[i] for i in self.source.selected(split, len(rows))]

    def files(self, *splits: str) -> list[Path]:
        """Returns the files that decide these splits, each once."""
        return list(dict.fromkeys(path for split in splits for path in self.source.files(split)))

    def text_of(self, row: Row) -> str:
        """Returns the cleaned text of the configured columns."""
        return text_of(row, self.config)

    def encoded(self, split: str) -> Examples[Example]:
        """Returns the rows of a split as ids and class numbers; no row is left out."""
        examples = self._all_encoded(split)
        return examples.select(self.source.selected(split, len(examples)))

    def training_texts(self) -> IdLists:
        """Returns the training texts as ids."""
        texts = self.encoded("train").columns[0]
        assert isinstance(texts, IdLists)
        return texts

    def training_data(self, *, batch_tokens: int, seed: int, max_len: int) -> TextData:
        """Returns the training rows in batches; reports classes with hardly any rows.

        The batches of a small table are smaller than ``batch_tokens``.
        """
        is_text_needed = self.config.bpe_dropout > 0.0
        examples = self.encoded("train")
        counts = np.bincount(examples.columns[1], minlength=len(self.classes))
        for number, rows in ((0, "no training row"), (1, "only one training row")):
            names = [name for name, n in zip(self.classes, counts, strict=True) if n == number]
            if names:
                log(f"{self.source.file('train')}: {rows} for {class_count(names, self.classes)}")
        if isinstance(self.source, TableSource):
            batch_tokens = _batch_tokens_for(examples, batch_tokens)
        return TextData(
            examples,
            [self.text_of(row) for row in self.read("train")] if is_text_needed else [],
            self.codec,
            self.config,
            batch_tokens=batch_tokens,
            seed=seed,
            max_len=max_len,
        )

    def _build_codec(self, save_to: Path) -> TextCodec:
        config = self.config
        cached_files(
            "vocabulary",
            lambda: TextCodec.build(map(self.text_of, self.read("train")), save_to, config),
            save_to,
            TextCodec.file_names(config.tokenizer),
            files=self.source.files("train"),
            settings=config.vocabulary_settings() | self._settings(),
            code=_CODE,
        )
        return TextCodec.load(save_to, tokenizer=config.tokenizer)

    def _settings(self) -> dict[str, object]:
        """Returns what decides the texts of the rows besides the contents of the files."""
        config = self.config
        return {
            "columns": config.columns,
            "lowercase": config.lowercase,
            "source": self.source.key(),
        }

    def _all_encoded(self, split: str) -> Examples[Example]:
        """Returns all rows of the file that contains a split."""
        tensors = cached(
            "labeled",
            lambda: self._encode(split),
            files=self.source.files(split),
            settings={"codec": self.codec.describe(), **self._settings()},
            code=_CODE,
        )
        return Examples(IdLists.from_tensors(tensors, "texts"), tensors["labels"].numpy())

    def _encode(self, split: str) -> dict[str, Tensor]:
        """Returns the ids and the class numbers of those rows."""
        labels: list[int] = []

        def texts() -> Iterator[tuple[str]]:
            for row in self.source.rows(split):
                labels.append(row.label)
                yield (self.text_of(row),)

        (ids,) = encode_rows([self.codec], texts())
        return {**ids.filled(UNK_ID).to_tensors("texts"), "labels": tensor(labels)}


def _batch_tokens_for(examples: Examples[Example], batch_tokens: int) -> int:
    """Returns a smaller size of batches for a small table, so that an epoch has enough steps."""
    enough = max(_MIN_BATCH_TOKENS, int(examples.lengths.sum()) // _MIN_BATCHES)
    if enough >= batch_tokens:
        return batch_tokens
    log(
        f"{len(examples):,} training texts are few: batches have {enough} tokens, not "
        f"train.batch_tokens = {batch_tokens}"
    )
    return enough


class TextData:
    """Length-bucketed batches of labeled texts, shuffled differently in every epoch.

    Args:
        examples: the texts as ids, with their class numbers.
        texts: the same texts; needed for BPE-dropout only, which encodes them in every epoch.
    """

    def __init__(
        self,
        examples: Examples[Example],
        texts: Sequence[str],
        codec: TextCodec,
        config: ClassificationData,
        *,
        batch_tokens: int,
        seed: int,
        max_len: int,
    ) -> None:
        self._examples = examples
        self._texts = texts
        self._codec, self._config = codec, config
        self._batch_tokens, self._seed = batch_tokens, seed
        wanted = config.max_sen_len
        self._longest = min(max_len, wanted) if isinstance(wanted, int) else max_len
        lengths = examples.lengths
        cut = int((lengths > self._longest).sum())
        if cut:
            log(f"{cut} of {len(examples)} training texts are cut at {self._longest} tokens")
        self._pad_to = 0 if wanted is None else self._longest
        if wanted == "same":
            self._pad_to = min(self._longest, int(lengths.max()))

    def plan(self, epoch: int) -> list[Examples[Example]]:
        """Returns the batches of ``epoch``."""
        examples = self._encode(epoch).cut(self._longest)
        lengths = examples.lengths.clip(min=self._pad_to).tolist()
        seed = epoch_seed(self._seed, epoch)
        batches = bucket_by_length(lengths, batch_tokens=self._batch_tokens, seed=seed)
        return [examples.select(batch) for batch in batches]

    def batch(self, item: Sequence[Example]) -> tuple[Tensor, Tensor]:
        """Returns ``src`` ``[S, B]`` and the class numbers ``[B]``."""
        return as_tensors(item, pad_to=self._pad_to)

    def _encode(self, epoch: int) -> Examples[Example]:
        dropout = self._config.bpe_dropout
        if dropout == 0.0:
            return self._examples
        seed_dropout(epoch_seed(self._seed, epoch))
        ids = IdLists.of(encode(self._codec, text, dropout=dropout) for text in self._texts)
        return Examples(ids, self._examples.columns[1])


def text_of(row: Row, config: ClassificationData) -> str:
    """Returns the cleaned text of the columns that ``config`` names."""
    columns = ("description",) if config.text else config.columns
    return normalize(" ".join(getattr(row, column) for column in columns), config)


def normalize(text: str, config: ClassificationData) -> str:
    """Returns the cleaned text, in lower case if ``config`` says so."""
    return as_read(clean(text), config)


def as_read(text: str, config: ClassificationData) -> str:
    """Returns a cleaned text, in lower case if ``config`` says so."""
    return text.lower() if config.lowercase else text


def encode(codec: TextCodec, text: str, *, dropout: float = 0.0) -> list[int]:
    """Returns the ids of a cleaned text; one ``<unk>`` for a text without tokens."""
    return codec.encode(text, dropout=dropout) or [UNK_ID]


def encode_all(codec: TextCodec, texts: Sequence[str]) -> list[list[int]]:
    """Returns what :func:`encode` returns for each text, faster."""
    return [ids or [UNK_ID] for ids in codec.encode_all(texts, threads=get_num_threads())]


def as_tensors(examples: Sequence[Example], *, pad_to: int = 0) -> tuple[Tensor, Tensor]:
    """Returns ``src`` ``[S, B]`` (S at least ``pad_to``) and the class numbers ``[B]``."""
    padded = [[*ids, *[PAD_ID] * (pad_to - len(ids))] for ids, _ in examples]
    return pad_sequence(padded), tensor([label for _, label in examples])
