"""Couplets: folders ``train``, ``val``, ``test`` of ``in.txt`` and ``out.txt``, their two lines."""

from __future__ import annotations

from pathlib import Path

from core.errors import CorpusError
from core.progress import say
from data.codec import CodecConfig, TextCodec
from data.readers import read_parallel
from tasks.couplet.config import CoupletData
from tasks.holdout import hold_out
from tasks.pairs import Pair, PairData, short_pairs

TOKENIZER = "characters"


class LoadCoupletDataset:
    """Couplets, a line a couplet, characters with or without spaces between them.

    Args:
        folder: see above; other folders like ``train`` can be added by ``config.extra``.
        config: what is trained on.
        seed: picks the validation pairs where there is no ``val`` folder.
        codec: of a model that exists already; without one it is learnt from the training pairs
            alone and saved in ``save_to``.
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
                lines,
                save_to,
                CodecConfig(tokenizer=TOKENIZER, vocab_size=None, min_freq=config.min_freq),
            )
        self.codec = codec

    def read(self, split: str) -> list[tuple[str, str]]:
        """The couplets of a split: train (with its extra folders), val or test.

        Raises:
            CorpusError: a file is missing, unreadable, or not parallel to the other.
        """
        if split not in ("train", "val"):
            return self._folder(split)
        if (self.folder / "val").is_dir():
            pairs = self._folder(split)
        else:
            kept, held = hold_out(
                self._folder("train"),
                share=self.config.val_share,
                seed=self._seed,
                path=self.folder / "train",
            )
            pairs = kept if split == "train" else held
        extra = self.config.extra if split == "train" else ()
        return [*pairs, *(pair for name in extra for pair in self._folder(name))]

    def encoded(self, split: str, *, max_len: int) -> list[Pair]:
        """The couplets of a split as ids, but for those too long for a model of ``max_len``."""
        encode = self.codec.encode
        pairs = [(encode(first), encode(second)) for first, second in self.read(split)]
        return [pairs[i] for i in short_pairs(pairs, max_len - 1, self.folder / split)]

    def training_data(self, *, batch_tokens: int, seed: int, max_len: int) -> PairData:
        """The training couplets in batches, but for those too long for a model of ``max_len``."""
        pairs = self.encoded("train", max_len=max_len)
        return PairData(lambda epoch: pairs, batch_tokens=batch_tokens, seed=seed)

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
