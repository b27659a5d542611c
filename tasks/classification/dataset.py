"""Labelled texts: a folder of ``train.csv``, ``test.csv``, ``classes.txt``, perhaps ``val.csv``."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from pathlib import Path

from torch import Tensor, tensor

from core.errors import CorpusError
from core.files import write_text
from core.progress import say
from data.batching import bucket_by_length, epoch_seed, pad_sequence
from data.codec import TextCodec
from data.readers import Row, read_labelled_csv, read_lines
from data.tokenizers import seed_dropout
from data.vocabulary import PAD_ID, UNK_ID
from tasks.classification.config import ClassificationData
from tasks.holdout import hold_out

CLASSES_FILE = "classes.txt"

# What web scraping left of HTML in the published corpus. Each pattern takes what occurs there and
# no more, for "#1;", "Q&copy", "<MSFT.O>" and "<3" are text. Entities lost their ampersands:
_LOST_AMPERSAND = re.compile(
    r"(?<![&\w])(?<!&amp;)"
    r"(#0?(?:3[46-9]|1[3-9]\d|2[0-5]\d|8\d{3})|quot|amp|lt|gt|nbsp|rsquo|mdash|eacute);"
)
_ENTITY = re.compile(r"&(?:#\d{1,6}|#[xX][0-9a-fA-F]{1,5}|[a-zA-Z][a-zA-Z0-9]{1,30});")
_TAG = re.compile(
    r"</?(?:a|b|blockquote|br|center|cite|div|em|font|h[1-6]|hr|i|img|li|meta|nobr|ol|p|small|span"
    r"|strong|sub|sup|table|td|th|tr|tt|u|ul)(?:\s[^<>]*=[^<>]*)?\s*/?>",
    re.IGNORECASE,
)
_WHITE_SPACE = re.compile(r"\s+")

Example = tuple[list[int], int]


def clean(text: str) -> str:
    """``text`` without the scars of AG_News: backslashes for line breaks, HTML remains.

    Texts without them pass unchanged, but for runs of white space, which become one space.
    """
    text = _LOST_AMPERSAND.sub(r"&\1;", text.replace("\\", " "))
    for _ in range(2):  # some were escaped twice: &amp;lt;
        text = _ENTITY.sub(lambda entity: html.unescape(entity[0]), text)
    return _WHITE_SPACE.sub(" ", _TAG.sub(" ", text)).strip()


class LoadSentenceClassificationDataset:
    """AG_News, or any corpus in its form.

    Args:
        folder: see above; ``classes.txt`` has the name of a class a line.
        config: which columns are read and how they become ids.
        seed: picks the validation rows where there is no ``val.csv``.
        codec, classes: of a model that exists already; without them the codec is learnt from the
            training rows alone and saved in ``save_to``, with the names of the classes.

    Raises:
        CorpusError: no such folder, no good ``classes.txt``, or other classes than the model's.
    """

    def __init__(
        self,
        folder: Path,
        config: ClassificationData,
        *,
        seed: int,
        save_to: Path | None = None,
        codec: TextCodec | None = None,
        classes: Sequence[str] | None = None,
    ) -> None:
        if not folder.is_dir():
            raise CorpusError(folder, "there is no such folder")
        self.folder = folder
        self.config = config
        self.classes = read_classes(folder)
        if classes is not None and self.classes != list(classes):
            raise CorpusError(
                folder / CLASSES_FILE,
                f"the classes are {', '.join(self.classes)}, the model's are {', '.join(classes)}",
            )
        self._seed = seed
        if codec is None:
            if save_to is None:
                raise ValueError("without a codec, save_to must say where to keep the new one")
            codec = TextCodec.build(
                [self.text_of(row) for row in self.read("train")],
                save_to,
                config,
            )
            write_text(save_to / CLASSES_FILE, "".join(f"{name}\n" for name in self.classes))
        self.codec = codec

    def read(self, split: str) -> list[Row]:
        """The rows of a split: train, val or test.

        Raises:
            CorpusError: a file that is missing or not such a CSV.
        """
        if split not in ("train", "val") or (self.folder / "val.csv").is_file():
            return self._file(split)
        kept, held = hold_out(
            self._file("train"),
            share=self.config.val_share,
            seed=self._seed,
            path=self.folder / "train.csv",
        )
        return kept if split == "train" else held

    def text_of(self, row: Row) -> str:
        """The text of the columns that the configuration selects."""
        return clean(" ".join(getattr(row, column) for column in self.config.columns))

    def encoded(self, split: str) -> list[Example]:
        """The rows of a split as ids and class numbers; no row is left out."""
        return [(encode(self.codec, self.text_of(row)), row.label) for row in self.read(split)]

    def training_data(self, *, batch_tokens: int, seed: int, max_len: int) -> TextData:
        """The training rows in batches."""
        rows = self.read("train")
        return TextData(
            [self.text_of(row) for row in rows],
            [row.label for row in rows],
            self.codec,
            self.config,
            batch_tokens=batch_tokens,
            seed=seed,
            max_len=max_len,
        )

    def _file(self, name: str) -> list[Row]:
        return read_labelled_csv(self.folder / f"{name}.csv", num_classes=len(self.classes))


class TextData:
    """Length-bucketed batches of labelled texts, another mixture every epoch."""

    def __init__(
        self,
        texts: Sequence[str],
        labels: Sequence[int],
        codec: TextCodec,
        config: ClassificationData,
        *,
        batch_tokens: int,
        seed: int,
        max_len: int,
    ) -> None:
        self._texts = texts
        self._labels = labels
        self._codec = codec
        self._config = config
        self._batch_tokens = batch_tokens
        self._seed = seed
        wanted = config.max_sen_len
        self._longest = min(max_len, wanted) if isinstance(wanted, int) else max_len
        self._plain = [encode(codec, text) for text in texts]
        cut = sum(len(ids) > self._longest for ids in self._plain)
        if cut:
            say(f"{cut} of {len(texts)} training texts are cut at {self._longest} tokens")
        self._pad_to = 0
        if wanted == "same":
            self._pad_to = min(self._longest, max(map(len, self._plain)))
        elif isinstance(wanted, int):
            self._pad_to = self._longest

    def plan(self, epoch: int) -> list[list[Example]]:
        """The batches of ``epoch`` as lists of examples."""
        examples = [
            (ids[: self._longest], label)
            for ids, label in zip(self._encode(epoch), self._labels, strict=True)
        ]
        lengths = [(max(len(ids), self._pad_to),) for ids, _ in examples]
        batches = bucket_by_length(
            lengths, batch_tokens=self._batch_tokens, seed=epoch_seed(self._seed, epoch)
        )
        return [[examples[i] for i in batch] for batch in batches]

    def batch(self, item: list[Example]) -> tuple[Tensor, Tensor]:
        """``src`` ``[S, B]`` and the class numbers ``[B]``."""
        return as_tensors(item, pad_to=self._pad_to)

    def _encode(self, epoch: int) -> Sequence[list[int]]:
        if self._config.bpe_dropout == 0.0:
            return self._plain
        seed_dropout(epoch_seed(self._seed, epoch))
        dropout = self._config.bpe_dropout
        return [encode(self._codec, text, dropout=dropout) for text in self._texts]


def encode(codec: TextCodec, text: str, *, dropout: float = 0.0) -> list[int]:
    """The ids of a cleaned text; one ``<unk>`` for a text in which the tokeniser finds nothing."""
    return codec.encode(text, dropout=dropout) or [UNK_ID]


def as_tensors(examples: Sequence[Example], *, pad_to: int = 0) -> tuple[Tensor, Tensor]:
    """``src`` ``[S, B]`` (S at least ``pad_to``) and the class numbers ``[B]``."""
    texts = [ids for ids, _ in examples]
    if pad_to:
        texts = [[*ids, *[PAD_ID] * (pad_to - len(ids))] for ids in texts]
    return pad_sequence(texts), tensor([label for _, label in examples])


def read_classes(folder: Path) -> list[str]:
    """The names of the classes, in the order of their numbers.

    Raises:
        CorpusError: fewer than two, an empty or a repeated name.
    """
    path = folder / CLASSES_FILE
    names = [line.strip() for line in read_lines(path)]
    for number, name in enumerate(names, start=1):
        if not name:
            raise CorpusError(path, "empty line: every line names a class", number)
        if name in names[: number - 1]:
            raise CorpusError(path, f"the class {name!r} stands twice", number)
        if "\t" in name:
            raise CorpusError(path, "a class name cannot hold a tab", number)
    if len(names) < 2:
        raise CorpusError(path, f"there must be at least two classes, not {len(names)}")
    return names
