"""Couplets: folders ``train``, ``val`` and ``test``, with the two lines in in.txt and out.txt.

In place of a folder there may be a file ``train.tsv``: both lines of a couplet on one, separated by
a tab.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

from core.errors import CorpusError
from core.progress import log
from core.storage.files import exists, is_file, is_folder
from data.batching import epoch_seed
from data.cache import cached_files
from data.codec import CodecConfig, TextCodec
from data.encoding import encode_parallel, encode_table
from data.examples import Examples, Pair
from data.readers import iter_parallel, iter_table
from tasks.couplet.config import CoupletData
from tasks.runs import hold_out
from tasks.runs.hold_out import HoldOut
from tasks.seq2seq.batches import PairData, drawn_rows, short_pairs

TOKENIZER = "characters"


class LoadCoupletDataset:
    """Couplets, one per line. Spaces between characters are ignored.

    Args:
        folder: contains the folders; ``config.extra`` may name more training folders.
        config: the training folders and the vocabulary.
        seed: selects the validation couplets if there is no ``val`` folder.
        codec: that of an existing model. Without it, a codec is built from the training couplets
            and saved in ``save_to``.
    """

    def __init__(
        self,
        folder: str | Path,
        config: CoupletData,
        *,
        seed: int,
        save_to: str | Path | None = None,
        codec: TextCodec | None = None,
    ) -> None:
        folder = Path(folder)
        if is_file(folder):
            reason = "a file: a corpus is a folder; put the file into one, under the name train.tsv"
            raise CorpusError(folder, reason)
        if not is_folder(folder):
            raise CorpusError(folder, "there is no such folder")
        self.folder = folder
        self.config = config
        self._reported: set[Path] = set()
        is_needed, path = not self.has("val"), folder / "train"
        self._hold_out = HoldOut(is_needed=is_needed, share=config.val_share, seed=seed, path=path)
        if codec is None:
            if save_to is None:
                raise ValueError("without a codec, save_to must name the folder of the new one")
            codec = self._build_codec(Path(save_to))
        self.codec = codec

    def check_split(self, split: str) -> None:
        """Raises a ConfigError with the names of all splits, unless ``split`` is one of them."""
        present = [path.parent.name for path in self.folder.glob("*/in.txt")]
        present += [path.stem for path in self.folder.glob("*.tsv")]
        self._hold_out.check_split(split, present)

    def has(self, split: str) -> bool:
        """Returns whether the corpus has a folder or a file for ``split``."""
        return is_folder(self.folder / split) or is_file(self._table(split))

    def read(self, split: str) -> list[tuple[str, str]]:
        """Returns the couplets of a split: train (with its extra folders), val or test.

        Raises:
            CorpusError: a file is missing, unreadable, or not parallel to the other.
        """
        own, *extra = map(self._read_folder, self._folders(split))
        return [
            *(own[i] for i in self._hold_out.rows(split, len(own))),
            *chain.from_iterable(extra),
        ]

    def encoded(self, split: str, *, max_len: int) -> Examples[Pair]:
        """Returns the couplets of a split as ids, without those too long for ``max_len``."""
        return Examples.joined(self._encoded_folders(split, max_len))

    def training_data(self, *, batch_tokens: int, seed: int, max_len: int) -> PairData:
        """Returns the training couplets in batches, without those too long for ``max_len``.

        With ``config.extra_weights`` every epoch draws those of the extra folders anew.
        """
        parts = self._encoded_folders("train", max_len)
        weights = (1.0, *self.config.extra_weights)
        pairs = Examples.joined(parts)

        def encode(epoch: int) -> Examples[Pair]:
            if len(weights) == 1:
                return pairs
            of_epoch = epoch_seed(seed, epoch)
            return Examples.joined(
                [
                    part.select(drawn_rows(len(part), weight, f"{of_epoch}/{number}"))
                    for number, (part, weight) in enumerate(zip(parts, weights, strict=True))
                ]
            )

        return PairData(encode, batch_tokens=batch_tokens, seed=seed)

    def files(self, *splits: str) -> list[Path]:
        """Returns the files that contain these splits."""
        folders = [name for split in splits for name in self._folders(split)]
        return [path for name in folders for path in self._files(name)]

    def _build_codec(self, save_to: Path) -> TextCodec:
        config = CodecConfig(tokenizer=TOKENIZER, vocab_size=None, min_freq=self.config.min_freq)

        def build() -> None:
            lines = (line for pair in self.read("train") for line in pair)
            TextCodec.build(lines, save_to, config)

        cached_files(
            "vocabulary",
            build,
            save_to,
            TextCodec.file_names(TOKENIZER),
            files=self.files("train"),
            settings=config.vocabulary_settings() | {"held_out": self._hold_out.key()},
            code=[__file__, hold_out.__file__],
        )
        return TextCodec.load(save_to, tokenizer=TOKENIZER)

    def _folders(self, split: str) -> list[str]:
        """Returns the names of the folders that contain a split, its own first."""
        return [self._hold_out.source(split), *(self.config.extra if split == "train" else ())]

    def _table(self, name: str) -> Path:
        return self.folder / f"{name}.tsv"

    def _has_table(self, name: str) -> bool:
        return is_file(self._table(name)) and not is_folder(self.folder / name)

    def _files(self, name: str) -> tuple[Path, ...]:
        """Returns the files of a split: the table of its couplets, or those of the two lines."""
        return (self._table(name),) if self._has_table(name) else self._pair_files(name)

    def _pair_files(self, name: str) -> tuple[Path, Path]:
        """Returns the files of the lines that are given, and of those that answer them."""
        paths = self.folder / name / "in.txt", self.folder / name / "out.txt"
        if not any(map(exists, paths)):
            reason = (
                f"cannot read: no such file; couplets are in {name}/in.txt and {name}/out.txt, or "
                f"in {name}.tsv with a tab between the lines"
            )
            raise CorpusError(paths[0], reason)
        return paths[::-1] if self.config.swapped else paths

    def _lines(self, name: str) -> Iterator[tuple[str, str]]:
        if not self._has_table(name):
            yield from iter_parallel(*self._pair_files(name))
            return
        for first, second in iter_table(self._table(name)):
            yield (second, first) if self.config.swapped else (first, second)

    def _read_folder(self, name: str) -> list[tuple[str, str]]:
        pairs = [
            ("".join(first.split()), "".join(second.split())) for first, second in self._lines(name)
        ]
        lengths = [(len(first), len(second)) for first, second in pairs]
        return [pairs[i] for i in self._even_pairs(lengths, name)]

    def _encode_folder(self, name: str) -> Examples[Pair]:
        codecs = self.codec, self.codec
        if self._has_table(name):
            pairs = encode_table(self._table(name), codecs)
            pairs = Examples(*pairs.columns[::-1]) if self.config.swapped else pairs
        else:
            pairs = encode_parallel(*self._pair_files(name), codecs)
        # Each character is one id, so the lengths in ids are those in characters.
        return pairs.select(self._even_pairs(pairs.lengths.tolist(), name))

    def _encoded_folders(self, split: str, max_len: int) -> list[Examples[Pair]]:
        """Returns the couplets of each folder of a split, without those too long."""
        own, *extra = map(self._encode_folder, self._folders(split))
        parts = [own.select(self._hold_out.rows(split, len(own))), *extra]
        names = [split, *self._folders(split)[1:]]
        return [
            part.select(short_pairs(part, max_len - 1, self.folder / name))
            for part, name in zip(parts, names, strict=True)
        ]

    def _even_pairs(self, lengths: Sequence[Sequence[int]], name: str) -> list[int]:
        """Returns which couplets of a folder have two lines of the same length.

        The number of the others is reported on stderr, once for each folder.
        """
        path = self.folder / name
        even = [i for i, (first, second) in enumerate(lengths) if first == second]
        if not even:
            raise CorpusError(path, "no couplet here has two lines of the same length")
        if len(even) < len(lengths) and path not in self._reported:
            self._reported.add(path)
            uneven = next(i for i, (first, second) in enumerate(lengths) if first != second)
            log(
                f"{path}: {len(lengths) - len(even)} of {len(lengths)} couplets have lines of "
                f"different length (the first is line {uneven + 1}) and are left out"
            )
        return even
