"""Couplets: folders ``train``, ``val`` and ``test``, with the two lines in in.txt and out.txt.

Or there is a file ``train.tsv`` with a couplet on each line: its two lines with a tab between.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from core.errors import CorpusError
from core.progress import log
from core.storage.files import exists, is_file, is_folder
from data.codec import CodecConfig, TextCodec
from data.examples import Examples, encode_pairs
from data.pairs import TextPair, read_parallel, read_tabbed
from data.readers import UTF8
from tasks.couplet.config import CoupletData
from tasks.runs.dataset import Splits
from tasks.seq2seq.batches import DrawnPairs, PairData, PairDataset, short_pairs

TOKENIZER = "characters"


class CoupletFolder(Splits[TextPair]):
    """The couplets in the folders or tables of one folder; those of uneven lines are left out."""

    def __init__(self, folder: Path, config: CoupletData, *, seed: int) -> None:
        if is_file(folder):
            reason = (
                "a file: a corpus is a folder; put the file into one, under the name train.tsv to "
                "train with it, test.tsv to evaluate a model on it"
            )
            raise CorpusError(folder, reason)
        if not is_folder(folder):
            raise CorpusError(folder, "there is no such folder")
        self._folder = folder
        self._reported: set[str] = set()
        names = {path.parent.name for path in folder.glob("*/in.txt")} | {"train"}
        names |= {path.stem for path in folder.glob("*.tsv")}
        names |= {name for name in ("val", "test") if is_folder(folder / name)}
        files = {name: self._paths(name) for name in names}
        super().__init__(folder, files, {"val": config.val_share}, seed=seed)

    def load(self, split: str) -> list[TextPair]:
        """Returns the couplets of a folder whose two lines have the same length.

        The number of the others is reported on stderr, once for each folder.
        """
        files, path = self._paths(split), self._folder / split
        if not any(map(exists, files)):
            reason = (
                f"cannot read: no such file; couplets are in {split}/in.txt and {split}/out.txt, "
                f"or in {split}.tsv with a tab between the lines"
            )
            raise CorpusError(files[0], reason)
        in_utf8 = partial(read_parallel, encoding_of=lambda path: UTF8)
        pairs = read_tabbed(*files) if len(files) == 1 else in_utf8(*files)
        couplets = [TextPair(*("".join(line.split()) for line in pair)) for pair in pairs]
        even = [couplet for couplet in couplets if len(couplet.source) == len(couplet.target)]
        if not even:
            raise CorpusError(path, "no couplet here has two lines of the same length")
        if len(even) < len(couplets) and split not in self._reported:
            self._reported.add(split)
            uneven = next(i for i, (a, b) in enumerate(couplets, start=1) if len(a) != len(b))
            log(
                f"{path}: {len(couplets) - len(even)} of {len(couplets)} couplets have lines of "
                f"different length (the first is line {uneven}) and are left out"
            )
        return even

    def _paths(self, name: str) -> list[Path]:
        """Returns the files of a folder: the table of its couplets, or those of the two lines."""
        folder, table = self._folder / name, self._folder / f"{name}.tsv"
        if is_file(table) and not is_folder(folder):
            return [table]
        return [folder / "in.txt", folder / "out.txt"]


class LoadCoupletDataset(PairDataset):
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
        self.folder, self.config = Path(folder), config
        self.splits = CoupletFolder(self.folder, config, seed=seed)
        if codec is None:
            if save_to is None:
                raise ValueError("without a codec, save_to must name the folder of the new one")
            lines = (line for couplet in self.read("train") for line in couplet)
            made = CodecConfig(tokenizer=TOKENIZER, vocab_size=None, min_freq=config.min_freq)
            codec = TextCodec.build(lines, Path(save_to), made)
        self.codec = self.source = self.target = codec

    def read(self, split: str) -> list[TextPair]:
        """Returns the couplets of a split; ``train`` includes those of the extra folders."""
        return [couplet for _, part in self._parts(split) for couplet in part]

    def training_data(self, *, batch_tokens: int, seed: int, max_len: int) -> PairData:
        """Returns batches of training couplets; every epoch draws those of extra folders anew.

        With ``config.exchanged`` it draws couplets with their lines exchanged, too.
        """
        parts = []
        for name, couplets in self._parts("train"):
            pairs = encode_pairs(couplets, (self.codec, self.codec))
            parts.append(pairs.select(short_pairs(pairs, max_len - 1, self.folder / name)))
        weights = [1.0, *(self.config.extra_weights or [1.0] * len(self.config.extra))]
        if share := self.config.exchanged:
            parts += [Examples(*reversed(part.columns)) for part in parts]
            weights += [share * weight for weight in weights]
        drawn = DrawnPairs(parts, weights, seed)
        return PairData(drawn, batch_tokens=batch_tokens, seed=seed)

    def files(self, *splits: str) -> list[Path]:
        return super().files(*(name for split in splits for name in (split, *self._extra(split))))

    def _extra(self, split: str) -> Sequence[str]:
        """Returns the names of the folders that a split has besides its own."""
        return self.config.extra if split == "train" else ()

    def _parts(self, split: str) -> list[tuple[str, list[TextPair]]]:
        """Returns the name and the couplets of each folder of a split, its own first."""
        extra = [(name, [*self.splits.load(name)]) for name in self._extra(split)]
        return [(split, self.splits.read(split)), *extra]
