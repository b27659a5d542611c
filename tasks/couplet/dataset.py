"""Couplets: folders ``train``, ``val`` and ``test``, with the two lines in in.txt and out.txt.

In place of a folder there may be a file ``train.tsv``: both lines of a couplet on one, separated by
a tab.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from core.errors import CorpusError
from core.progress import log
from core.storage.files import exists, is_file, is_folder
from data.codec import CodecConfig, TextCodec
from data.examples import Examples, Pair, encode_pairs
from data.readers import TextPair, read_parallel, read_tabbed
from tasks.couplet.config import CoupletData
from tasks.runs.hold_out import HoldOut
from tasks.seq2seq.batches import DrawnPairs, PairData, short_pairs

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
            lines = (line for couplet in self.read("train") for line in couplet)
            made = CodecConfig(tokenizer=TOKENIZER, vocab_size=None, min_freq=config.min_freq)
            codec = TextCodec.build(lines, Path(save_to), made)
        self.codec = codec

    def check_split(self, split: str) -> None:
        """Raises a ConfigError with the names of all splits, unless ``split`` is one of them."""
        present = [path.parent.name for path in self.folder.glob("*/in.txt")]
        present += [path.stem for path in self.folder.glob("*.tsv")]
        self._hold_out.check_split(split, present)

    def has(self, split: str) -> bool:
        """Returns whether the corpus has a folder or a file for ``split``."""
        return is_folder(self.folder / split) or is_file(self._table(split))

    def read(self, split: str) -> list[TextPair]:
        """Returns the couplets of a split: train (with its extra folders), val or test.

        Raises:
            CorpusError: a file is missing, unreadable, or not parallel to the other.
        """
        return [couplet for _, part in self._parts(split) for couplet in part]

    def encoded(self, split: str, *, max_len: int) -> Examples[Pair]:
        """Returns the couplets of a split as ids, without those too long for ``max_len``."""
        return self._drawn(split, [], max_len=max_len, seed=0).pairs

    def training_data(self, *, batch_tokens: int, seed: int, max_len: int) -> PairData:
        """Returns the training couplets in batches, without those too long for ``max_len``.

        With ``config.extra_weights`` every epoch draws those of the extra folders anew.
        """
        drawn = self._drawn("train", self.config.extra_weights, max_len=max_len, seed=seed)
        return PairData(drawn, batch_tokens=batch_tokens, seed=seed)

    def files(self, *splits: str) -> list[Path]:
        """Returns the files that contain these splits."""
        folders = [name for split in splits for name in self._folders(split)]
        return [path for name in folders for path in self._files(name)]

    def _folders(self, split: str) -> list[str]:
        """Returns the names of the folders that contain a split, its own first."""
        return [self._hold_out.source(split), *(self.config.extra if split == "train" else ())]

    def _table(self, name: str) -> Path:
        return self.folder / f"{name}.tsv"

    def _files(self, name: str) -> tuple[Path, ...]:
        """Returns the files of a folder: the table of its couplets, or those of the two lines."""
        if is_file(self._table(name)) and not is_folder(self.folder / name):
            return (self._table(name),)
        paths = self.folder / name / "in.txt", self.folder / name / "out.txt"
        if not any(map(exists, paths)):
            reason = (
                f"cannot read: no such file; couplets are in {name}/in.txt and {name}/out.txt, or "
                f"in {name}.tsv with a tab between the lines"
            )
            raise CorpusError(paths[0], reason)
        return paths

    def _parts(self, split: str) -> list[tuple[str, list[TextPair]]]:
        """Returns the name and the couplets of each folder of a split, its own first."""
        own, *extra = self._folders(split)
        couplets = self._couplets(own)
        kept = [couplets[i] for i in self._hold_out.rows(split, len(couplets))]
        return [(split, kept), *((name, self._couplets(name)) for name in extra)]

    def _drawn(
        self, split: str, weights: Sequence[float], *, max_len: int, seed: int
    ) -> DrawnPairs:
        """Returns the couplets of each folder of a split as ids, without those too long."""
        parts = []
        for name, couplets in self._parts(split):
            pairs = encode_pairs(couplets, (self.codec, self.codec))
            parts.append(pairs.select(short_pairs(pairs, max_len - 1, self.folder / name)))
        return DrawnPairs(parts, [1.0, *(weights or [1.0] * (len(parts) - 1))], seed)

    def _couplets(self, name: str) -> list[TextPair]:
        """Returns the couplets of a folder whose two lines have the same length.

        The number of the others is reported on stderr, once for each folder.
        """
        files = self._files(name)
        pairs = read_tabbed(*files) if len(files) == 1 else read_parallel(*files)
        pairs = [TextPair(*("".join(line.split()) for line in pair)) for pair in pairs]
        couplets = [TextPair(*pair[::-1]) for pair in pairs] if self.config.swapped else pairs
        even = [couplet for couplet in couplets if len(couplet.source) == len(couplet.target)]
        path = self.folder / name
        if not even:
            raise CorpusError(path, "no couplet here has two lines of the same length")
        if len(even) < len(couplets) and path not in self._reported:
            self._reported.add(path)
            uneven = next(i for i, (a, b) in enumerate(couplets, start=1) if len(a) != len(b))
            log(
                f"{path}: {len(couplets) - len(even)} of {len(couplets)} couplets have lines of "
                f"different length (the first is line {uneven}) and are left out"
            )
        return even
