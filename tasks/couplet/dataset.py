"""Couplets: folders ``train``, ``val``, ``test`` of ``in.txt`` (first lines) and ``out.txt`` (second lines)."""

from __future__ import annotations

import random
from pathlib import Path

from core.errors import CorpusError
from core.progress import say
from data.codec import TextCodec
from data.readers import read_parallel
from tasks.couplet.config import CoupletData
from tasks.pairs import Pair, PairData

TOKENIZER = "characters"


class LoadCoupletDataset:
    """Couplets, a line a couplet, characters with or without spaces between them.

    Args:
        folder: see above; other folders like ``train`` can be added by ``config.extra``.
        config: what is trained on.
        seed: picks the validation pairs where there is no ``val`` folder.
        codec: of a model that exists already; without one it is learnt from the training pairs alone
            and saved in ``save_to``.
    """

    def __init__(
        self,
        folder: Path,
        config: CoupletData,
        *,
        seed: int,
        save_to: Path | None = None,
        codec: TextCodec | None = None,
    ) -> None:
        if not folder.is_dir():
            raise CorpusError(folder, "there is no such folder")
        self.folder = folder
        self.config = config
        self._seed = seed
        if codec is None:
            if save_to is None:
                raise ValueError("without a codec, save_to must say where to keep the new one")
            lines = [line for pair in self.read("train") for line in pair]
            codec = TextCodec.build(
                lines, save_to, tokenizer=TOKENIZER, min_freq=config.min_freq
            )
        self.codec = codec

    def read(self, split: str) -> list[tuple[str, str]]:
        """The couplets of a split: train (with its extra folders), val or test.

        Raises:
            CorpusError: a file is missing, unreadable, or not parallel to the other.
        """
        if split == "train":
            pairs = self._split_training_folder()[0]
            return [*pairs, *(pair for name in self.config.extra for pair in self._folder(name))]
        if split == "val" and not (self.folder / "val").is_dir():
            return self._split_training_folder()[1]
        return self._folder(split)

    def encoded(self, split: str) -> list[Pair]:
        """The couplets of a split as ids."""
        encode = self.codec.encode
        return [(encode(first), encode(second)) for first, second in self.read(split)]

    def training_data(self, *, batch_tokens: int, seed: int, max_len: int) -> PairData:
        """The training couplets in batches; those too long for the model are left out, and counted."""
        pairs = self.encoded("train")
        kept = [pair for pair in pairs if len(pair[0]) < max_len]
        if len(kept) < len(pairs):
            say(f"{len(pairs) - len(kept)} of {len(pairs)} couplets are too long and are left out")
        return PairData(lambda epoch: kept, batch_tokens=batch_tokens, seed=seed)

    def _folder(self, name: str) -> list[tuple[str, str]]:
        folder = self.folder / name
        firsts, seconds = read_parallel(folder / "in.txt", folder / "out.txt")
        pairs = [
            ("".join(first.split()), "".join(second.split()))
            for first, second in zip(firsts, seconds, strict=True)
        ]
        uneven = [i for i, (first, second) in enumerate(pairs) if len(first) != len(second)]
        if uneven:
            say(
                f"{folder}: {len(uneven)} of {len(pairs)} couplets have lines of different length "
                f"(the first is line {uneven[0] + 1}) and are left out"
            )
            dropped = set(uneven)
            pairs = [pair for i, pair in enumerate(pairs) if i not in dropped]
        if not pairs:
            raise CorpusError(folder, "no couplet here has two lines of one length")
        return pairs

    def _split_training_folder(self) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
        """Training and validation couplets; the latter none where there is a ``val`` folder."""
        pairs = self._folder("train")
        if (self.folder / "val").is_dir():
            return pairs, []
        count = round(self.config.val_share * len(pairs))
        if not 0 < count < len(pairs):
            raise CorpusError(
                self.folder / "train",
                f"{len(pairs)} couplets cannot spare data.val_share = {self.config.val_share} of "
                "them for validation: add a val folder, or give another share",
            )
        held_out = set(random.Random(self._seed).sample(range(len(pairs)), count))
        return (
            [pair for i, pair in enumerate(pairs) if i not in held_out],
            [pair for i, pair in enumerate(pairs) if i in held_out],
        )
